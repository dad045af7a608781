/* Replicas: one thread a device, the first being the caller's own, so that a single replica costs no hand-over. A run
 * opens the start gate; every thread calls the function and then comes to the last meeting of the run. In between,
 * replicas meet where they need each other (tf.distribute's merge_call): a meeting succeeds only if all local replicas
 * come to the same one. */
#include "strategy/strategy.h"

#include "base/clock.h"
#include "base/kept_error.h"
#include "base/need.h"
#include "base/thread.h"
#include "strategy/variable.h"

enum meeting_kind { MEET_END = 0, MEET_CALL };

/* One of the waiting threads logs how many are missing. A function of the user's may take as long as it wants. */
static void report_wait(struct ls_replica *replica, int64_t begun, double interval) {
    const ls_strategy *strategy = replica->strategy;
    struct ls_meeting *meeting = &replica->strategy->meeting;
    int64_t due = atomic_load(&meeting->next_report), now = ls_now();
    if (now < due || !atomic_compare_exchange_strong(&meeting->next_report, &due, ls_deadline_after(now, interval)))
        return;
    ls_log_info(&strategy->runtime->log,
                "replica %d has waited %.0f s for other replicas of this worker: %d of %d have come", replica->id,
                ls_seconds_since(begun), atomic_load(&meeting->arrived), strategy->local_count);
}

static void wait_for_replicas(struct ls_replica *replica, uint32_t phase) {
    const ls_strategy *strategy = replica->strategy;
    struct ls_gate *gate = &replica->strategy->meeting.phase;
    double interval = strategy->runtime->settings.report_interval;
    int64_t begun = ls_now();
    if (interval <= 0) ls_gate_wait(gate, phase, strategy->spins);
    for (int spins = strategy->spins; interval > 0; spins = 0) {
        if (ls_gate_wait_until(gate, phase, spins, ls_deadline_in(interval))) return;
        report_wait(replica, begun, interval);
    }
}

/* One phase of a meeting. It returns when all local replicas have arrived. *last is true for the last thread, which
 * holds the others. phase is read before the own arrival, since the last one to arrive may open the gate at once.
 * arrived is set back by the last thread while all others wait, so the next phase begins with 0. */
static bool arrive(struct ls_replica *replica, const struct ls_meeting_call *call, uint32_t *phase) {
    ls_strategy *strategy = replica->strategy;
    struct ls_meeting *meeting = &strategy->meeting;
    *phase = ls_gate_value(&meeting->phase);
    meeting->calls[replica->local_id] = *call;
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == strategy->local_count) {
        atomic_store(&meeting->arrived, 0);
        return true;
    }
    wait_for_replicas(replica, *phase);
    return false;
}

static bool same_call(const struct ls_meeting_call *a, const struct ls_meeting_call *b) {
    return a->kind == b->kind && a->what == b->what && a->op == b->op && a->dtype == b->dtype && a->count == b->count;
}

static const char reduce_name[] = "replica_all_reduce"; /* what every all-reduce is about */

static ls_status compare_calls(const ls_strategy *strategy) {
    const struct ls_meeting_call *calls = strategy->meeting.calls;
    for (int i = 1; i < strategy->local_count; i++) {
        if (same_call(&calls[0], &calls[i])) continue;
        if (calls[0].kind == MEET_END || calls[i].kind == MEET_END)
            return ls_fail(
                LS_FAILED_PRECONDITION,
                "replica %d ended its function while replica %d waits in a collective: all replicas must make "
                "the same calls",
                strategy->replicas[calls[0].kind == MEET_END ? 0 : i].id,
                strategy->replicas[calls[0].kind == MEET_END ? i : 0].id);
        if (calls[0].what != calls[i].what)
            return ls_fail(LS_FAILED_PRECONDITION,
                           "replicas %d and %d do different things (two variables, or a variable and an all-reduce): "
                           "all replicas must make the same calls",
                           strategy->replicas[0].id, strategy->replicas[i].id);
        return ls_fail(LS_INVALID_ARGUMENT,
                       "replica %d reduces %zu elements of %s, replica %d reduces %zu of %s: all "
                       "replicas must make the same calls",
                       strategy->replicas[0].id, calls[0].count, ls_dtype_name(calls[0].dtype),
                       strategy->replicas[i].id, calls[i].count, ls_dtype_name(calls[i].dtype));
    }
    return LS_OK;
}

static void finish_phase(struct ls_meeting *meeting, ls_status status) {
    ls_kept_error_set(&meeting->result, status);
    ls_gate_open(&meeting->phase);
}

/* act runs once for all, on the last thread, while the others wait: so it may read and write the arrays of all replicas
 * without a lock. It is TensorFlow's merge_call, whose function runs in cross-replica context. */
static ls_status meet_others(struct ls_replica *replica, const struct ls_meeting_call *call, ls_meeting_fn *act,
                             void *context) {
    struct ls_meeting *meeting = &replica->strategy->meeting;
    uint32_t phase;
    if (arrive(replica, call, &phase)) {
        ls_status status = compare_calls(replica->strategy);
        if (!status && act) status = act(replica->strategy, context);
        finish_phase(meeting, status);
        return status;
    }
    return ls_kept_error_raise(&meeting->result);
}

ls_status ls_replicas_meet(struct ls_replica *replica, ls_meeting_fn *act, void *context) {
    const struct ls_meeting_call call = {.kind = MEET_CALL, .what = context};
    return meet_others(replica, &call, act, context);
}

static ls_status reduce_calls(ls_strategy *strategy, void *context) {
    const struct ls_meeting_call *call = context, *calls = strategy->meeting.calls;
    void *arrays[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < strategy->local_count; i++) arrays[i] = calls[i].data;
    return ls_reduce_all_replicas(strategy,
                                  LS_ALL_REDUCE(reduce_name, .count = call->count, .dtype = call->dtype, .op = call->op,
                                                .inputs = (const void *const *)arrays, .outputs = arrays));
}

ls_status ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op, ls_dtype dtype, void *data, size_t count) {
    LS_NEED(replica);
    struct ls_meeting_call call = {MEET_CALL, reduce_name, op, dtype, count, data};
    return meet_others(replica, &call, reduce_calls, &call);
}

/* Comes to the end of the run. A meeting that failed because others are still in a collective is met again. */
static void end_run(struct ls_replica *replica) {
    const struct ls_meeting_call call = {.kind = MEET_END};
    ls_strategy *strategy = replica->strategy;
    for (;;) {
        uint32_t phase;
        if (!arrive(replica, &call, &phase)) {
            if (!strategy->meeting.result.status) return;
            continue;
        }
        ls_status status = compare_calls(strategy);
        finish_phase(&strategy->meeting, status);
        if (!status) return;
    }
}

/* entered is the status of entering the device. A replica that could not enter fails each run. */
static void run_once(struct ls_replica *replica, ls_status entered) {
    ls_strategy *strategy = replica->strategy;
    if (!entered) ls_error_forget();
    ls_status status = entered ? entered : strategy->fn(replica, strategy->context);
    ls_kept_error_set(&replica->result, status ? ls_fail_from_user(status, "its function") : LS_OK);
    end_run(replica);
}

static void *replica_thread(void *argument) {
    struct ls_replica *replica = argument;
    ls_strategy *strategy = replica->strategy;
    struct ls_thread_state before; /* the thread ends in the device, and never leaves it */
    uint32_t seen = replica->seen;
    ls_status entered = replica->device->ops->enter(replica->device, &before);
    for (;;) {
        ls_gate_wait(&strategy->start, seen++, strategy->spins);
        if (strategy->stopping) return NULL;
        run_once(replica, entered);
    }
}

ls_status ls_replicas_start(ls_strategy *strategy) {
    strategy->stopping = false;
    for (int i = 1; i < strategy->local_count; i++) {
        struct ls_replica *replica = &strategy->replicas[i];
        replica->seen = ls_gate_value(&strategy->start);
        ls_status status = ls_thread_start(&replica->thread, "ls-replica", replica_thread, replica);
        if (status) return status;
        replica->started = true;
    }
    strategy->started = true;
    return LS_OK;
}

void ls_replicas_stop(ls_strategy *strategy) {
    strategy->stopping = true;
    ls_gate_open(&strategy->start);
    for (int i = 0; i < strategy->local_count; i++) {
        if (strategy->replicas[i].started) (void)pthread_join(strategy->replicas[i].thread, NULL);
        strategy->replicas[i].started = false;
    }
    strategy->started = false;
}

/* Picks the cause, not its echo: a replica that gave up because of another one (ABORTED) is named only if there is no
 * other. */
static ls_status first_failure(const ls_strategy *strategy) {
    const struct ls_replica *failed = NULL;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_replica *replica = &strategy->replicas[i];
        if (replica->result.status && (!failed || failed->result.status == LS_ABORTED)) failed = replica;
    }
    return failed ? ls_fail(failed->result.status, "replica %d: %s", failed->id, failed->result.message) : LS_OK;
}

ls_status ls_strategy_run(ls_strategy *strategy, ls_replica_fn *fn, void *context) {
    LS_NEED(strategy, fn);
    struct ls_replica *own = &strategy->replicas[0];
    struct ls_thread_state before;
    if (strategy->runtime->serves) return ls_runtime_serve(strategy->runtime);
    if (strategy->running)
        return ls_fail(LS_FAILED_PRECONDITION, "ls_strategy_run was called from inside ls_strategy_run");
    if (!strategy->started)
        return ls_fail(LS_FAILED_PRECONDITION, "the replicas' threads do not run: an error before this one ended them");
    ls_status status = ls_variables_flush(strategy);
    if (!status) status = own->device->ops->enter(own->device, &before);
    if (status) return status;
    strategy->fn = fn;
    strategy->context = context;
    strategy->running = true;
    ls_gate_open(&strategy->start);
    run_once(own, LS_OK);
    strategy->running = false;
    own->device->ops->leave(own->device, &before);
    return first_failure(strategy);
}

int ls_replica_id(const ls_replica *replica) {
    LS_NEED_OR(0, replica);
    return replica->id;
}

int ls_replica_local_id(const ls_replica *replica) {
    LS_NEED_OR(0, replica);
    return replica->local_id;
}
