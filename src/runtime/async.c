/* The queue of begun calls and its thread. A rank that has begun something takes part in the next round, which so comes
 * about when all ranks have; between rounds that bring nothing new the thread pauses. */
#include "runtime/async.h"

#include <search.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/thread.h"
#include "runtime/round.h"

#define SHORT_PAUSE (50 * LS_MICROSECOND)
#define LONG_PAUSE  (5 * LS_MILLISECOND)

/* ---- the queue ---- */

static void forget_part(struct ls_async *async, struct ls_call_part *part) {
    if (!part->done) (void)tdelete(part, &async->by_name, ls_negotiation_compare_names);
    part->done = true;
}

static void end_request(struct ls_async *async, struct ls_operation *operation, ls_status status) {
    for (size_t i = 0; i < operation->part_count; i++) forget_part(async, &operation->parts[i]);
    if (async->untold == operation) async->untold = TAILQ_NEXT(operation, progress.link);
    async->untold_parts -= operation->part_count - operation->progress.told;
    TAILQ_REMOVE(&async->begun, operation, progress.link);
    ls_kept_error_set(&operation->progress.result, status);
    operation->progress.ended = true; /* from here on it may be gone */
}

void ls_async_end(struct ls_async *async, struct ls_operation *operation, ls_status status) {
    LS_HOLD(&async->monitor);
    end_request(async, operation, status);
    ls_monitor_broadcast(&async->monitor);
}

struct ls_call_part *ls_async_find(struct ls_async *async, const struct ls_frame *frame) {
    LS_HOLD(&async->monitor);
    struct ls_call_part **node = tfind(frame, &async->by_name, ls_negotiation_compare_names);
    return node ? *node : NULL;
}

static void note_call(struct ls_async *async, const struct ls_operation *operation, int64_t begun) {
    char span[LS_FRAME_NAME + 32];
    if (!async->track) return;
    (void)snprintf(span, sizeof(span), "%s %.*s", ls_operation_span(operation), LS_FRAME_NAME, operation->name);
    ls_track_end(async->track, begun, span,
                 (struct ls_span_facts){.step = ++async->calls, .bytes = ls_operation_bytes(operation, async->ranks)});
}

void ls_async_end_part(struct ls_async *async, struct ls_call_part *part, int64_t begun) {
    struct ls_operation *operation = part->operation;
    ls_monitor_lock(&async->monitor);
    forget_part(async, part);
    size_t left = --operation->progress.left;
    ls_monitor_unlock(&async->monitor);
    if (left) return;
    note_call(async, operation, begun);
    ls_async_end(async, operation, LS_OK);
}

/* Enters the parts of operation by their names, or none. */
static ls_status enter_parts(struct ls_async *async, struct ls_operation *operation) {
    ls_status status = LS_OK;
    size_t entered = 0;
    for (; entered < operation->part_count && !status; entered++) {
        struct ls_call_part *part = &operation->parts[entered];
        struct ls_call_part **node = tsearch(part, &async->by_name, ls_negotiation_compare_names);
        part->operation = operation;
        part->done = !node || *node != part;
        if (!node)
            status = ls_fail_memory("a call that is begun", sizeof(void *));
        else if (part->done)
            status = ls_fail(LS_ALREADY_EXISTS,
                             "%s '%s' is begun twice at once: wait for the first one, or give each a name of its own",
                             ls_operation_span(operation), operation->name);
    }
    while (status && entered) forget_part(async, &operation->parts[--entered]);
    return status;
}

static ls_status take_in(struct ls_async *async, struct ls_operation *operation) {
    const struct ls_operation *first = TAILQ_FIRST(&async->begun);
    if (async->failed.status) return ls_kept_error_raise(&async->failed);
    if (async->joined)
        return ls_fail(LS_FAILED_PRECONDITION, "'%s' was begun while this rank is in ls_join", operation->name);
    if (operation->kind == LS_OPERATION_JOIN && first)
        return ls_fail(LS_FAILED_PRECONDITION, "ls_join while %s '%s' has not ended: wait for it first",
                       ls_operation_span(first), first->name);
    ls_status status = enter_parts(async, operation);
    if (status) return status;
    operation->progress.left = operation->part_count;
    operation->progress.told = 0;
    async->untold_parts += operation->part_count;
    if (!async->untold && operation->part_count) async->untold = operation;
    operation->progress.begun = ls_now();
    operation->progress.ended = false;
    TAILQ_INSERT_TAIL(&async->begun, operation, progress.link);
    async->joined = operation->kind == LS_OPERATION_JOIN;
    async->changes++;
    return LS_OK;
}

ls_status ls_async_begin(struct ls_async *async, struct ls_operation *operation) {
    LS_HOLD(&async->monitor);
    const struct ls_group *group = async->ranks->group; /* NULL after a recovery that failed */
    ls_status status = group ? ls_operation_check(operation, group) : LS_OK;
    if (!status) status = take_in(async, operation);
    ls_monitor_broadcast(&async->monitor);
    return status;
}

bool ls_async_has_ended(struct ls_async *async, const struct ls_operation *operation) {
    LS_HOLD(&async->monitor);
    return operation->progress.ended;
}

ls_status ls_async_wait(struct ls_async *async, const struct ls_operation *operation, int64_t deadline) {
    LS_HOLD(&async->monitor);
    bool in_time = true;
    while (!operation->progress.ended && in_time) in_time = ls_monitor_wait(&async->monitor, deadline);
    if (!operation->progress.ended)
        return ls_fail(LS_DEADLINE_EXCEEDED, "%s '%s' has not ended yet, %.3g s after it was begun",
                       ls_operation_span(operation), operation->name, ls_seconds_since(operation->progress.begun));
    return ls_kept_error_raise(&operation->progress.result);
}

/* ---- the thread ---- */

/* With this thread's error every call that was begun ends, and those to come. */
static void fail_all(struct ls_async *async, ls_status status) {
    LS_HOLD(&async->monitor);
    ls_kept_error_set(&async->failed, status);
    struct ls_operation *operation;
    while ((operation = TAILQ_FIRST(&async->begun))) end_request(async, operation, status);
    async->joined = false;
    ls_monitor_broadcast(&async->monitor);
}

/* A line for each call that some ranks have begun long ago and others have not; an error after the limit of a
 * collective. */
static ls_status look_after(struct ls_async *async) {
    const struct ls_settings *settings = &async->ranks->runtime->settings;
    const struct ls_negotiation *negotiation = &async->negotiation;
    int64_t now = ls_now();
    bool reports = settings->report_interval > 0 && now >= async->next_report;
    char text[512];
    for (const struct ls_negotiated *call = TAILQ_FIRST(&negotiation->waiting); call; call = TAILQ_NEXT(call, link)) {
        if (now < ls_deadline_after(call->since, settings->report_interval)) continue;
        ls_negotiation_describe(negotiation, call, text, sizeof(text));
        if (now >= ls_deadline_after(call->since, settings->collective_timeout))
            return ls_fail(LS_DEADLINE_EXCEEDED, "%s, for %g s (LOCKSTEP_COLLECTIVE_TIMEOUT)", text,
                           settings->collective_timeout);
        if (reports)
            ls_log_shared(&async->ranks->runtime->log, call->frame.rank == async->ranks->rank, LS_LOG_WARNING,
                          "%s, for %.0f s", text, ls_seconds_since(call->since));
    }
    if (reports) async->next_report = ls_deadline_after(now, settings->report_interval);
    return LS_OK;
}

/* Until something is begun here or the pause is over. */
static void pause_between(struct ls_async *async, int64_t *pause) {
    ls_monitor_lock(&async->monitor);
    int64_t seen = async->changes, deadline = ls_now() + *pause;
    while (async->changes == seen && ls_monitor_wait(&async->monitor, deadline)) continue;
    ls_monitor_unlock(&async->monitor);
    *pause = 2 * *pause < LONG_PAUSE ? 2 * *pause : LONG_PAUSE;
}

/* Rounds as long as this rank has begun something. */
static void work(struct ls_async *async) {
    int64_t pause = SHORT_PAUSE;
    ls_status status = LS_OK;
    async->next_report = ls_deadline_in(async->ranks->runtime->settings.report_interval);
    while (!status && ls_round_is_due(async)) {
        bool news = false;
        status = ls_round(async, &news);
        if (!status) status = ls_agreed_calls(async, &news);
        if (!status) status = look_after(async);
        if (news)
            pause = SHORT_PAUSE;
        else if (!status)
            pause_between(async, &pause);
    }
    if (!status) return;
    status = ls_group_fail(async->ranks->group, status);
    fail_all(async, status);
}

static void *run_begun(void *argument) {
    struct ls_async *async = argument;
    ls_monitor_lock(&async->monitor);
    while (!TAILQ_EMPTY(&async->begun) || !async->ending) {
        if (TAILQ_EMPTY(&async->begun)) {
            (void)ls_monitor_wait(&async->monitor, LS_NEVER);
            continue;
        }
        async->busy = true;
        ls_monitor_unlock(&async->monitor);
        work(async);
        ls_monitor_lock(&async->monitor);
        async->busy = false;
        ls_monitor_broadcast(&async->monitor);
    }
    ls_monitor_unlock(&async->monitor);
    return NULL;
}

/* ---- beginning and end ---- */

static void free_async(struct ls_async *async) {
    ls_negotiation_free(&async->negotiation);
    ls_free(async->neutral);
    ls_monitor_destroy(&async->monitor);
    ls_free(async);
}

ls_status ls_async_new(struct ls_ranks *ranks, struct ls_track *track, struct ls_async **async) {
    LS_NEW(struct ls_async, made, "the calls that are begun");
    made->ranks = ranks;
    made->track = track;
    TAILQ_INIT(&made->begun);
    made->references = 1;
    ls_status status = ls_negotiation_init(&made->negotiation, ranks->size);
    if (!status) status = ls_monitor_init(&made->monitor);
    if (!status) status = ls_thread_start(&made->thread, "ls-async", run_begun, made);
    return LS_HAND_OVER(status, async, made, free_async(made));
}

void ls_async_hold(struct ls_async *async) {
    LS_HOLD(&async->monitor);
    async->references++;
}

void ls_async_release(struct ls_async *async) {
    ls_monitor_lock(&async->monitor);
    bool last = --async->references == 0;
    ls_monitor_unlock(&async->monitor);
    if (last) free_async(async);
}

void ls_async_close(struct ls_async *async, ls_status status) {
    if (!async) return;
    ls_monitor_lock(&async->monitor);
    async->ending = true;
    if (status && !TAILQ_EMPTY(&async->begun)) ls_abort_raise(async->ranks->runtime->abort, status, ls_error());
    ls_monitor_broadcast(&async->monitor);
    ls_monitor_unlock(&async->monitor);
    (void)pthread_join(async->thread, NULL);
    ls_monitor_lock(&async->monitor);
    async->failed =
        (struct ls_kept_error){LS_FAILED_PRECONDITION, "the communicator was closed"}; /* for handles left */
    ls_monitor_unlock(&async->monitor);
    ls_async_release(async);
}

void ls_async_rest(struct ls_async *async) {
    if (!async) return;
    LS_HOLD(&async->monitor);
    while (async->busy) (void)ls_monitor_wait(&async->monitor, LS_NEVER);
}

ls_status ls_async_trace(struct ls_async *async, struct ls_track *track) {
    if (!async) return LS_OK;
    LS_HOLD(&async->monitor);
    const struct ls_operation *first = TAILQ_FIRST(&async->begun);
    if (first)
        return ls_fail(LS_FAILED_PRECONDITION, "%s '%s' has not ended: wait for it before the timeline changes",
                       ls_operation_span(first), first->name);
    while (async->busy) (void)ls_monitor_wait(&async->monitor, LS_NEVER);
    async->track = track;
    return LS_OK;
}

ls_status ls_async_resume(struct ls_async *async) {
    if (!async) return LS_OK;
    ls_negotiation_free(&async->negotiation);
    ls_status status = ls_negotiation_init(&async->negotiation, async->ranks->size);
    LS_HOLD(&async->monitor);
    ls_kept_error_set(&async->failed, status);
    async->joined = false;
    return status;
}
