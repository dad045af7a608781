/* The queue of begun calls and its thread. A rank that has begun something takes part in the next round, which so comes
 * about when all ranks have; between rounds that bring nothing new the thread pauses. */
#include "runtime/async.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "runtime/agreed_calls.h"
#include "runtime/round.h"

#define SHORT_PAUSE (50 * LS_MICROSECOND)
#define LONG_PAUSE  (5 * LS_MILLISECOND)

/* ---- the queue ---- */

static void end_request(struct ls_async *async, struct ls_operation *operation, ls_status status, const char *error) {
    struct ls_operation **at = &async->first;
    while (*at != operation) at = &(*at)->next;
    *at = operation->next;
    if (async->end == &operation->next) async->end = at;
    operation->status = status;
    (void)snprintf(operation->error, sizeof(operation->error), "%s", error);
    operation->ended = true; /* from here on it may be gone */
}

void ls_async_end(struct ls_async *async, struct ls_operation *operation, ls_status status) {
    ls_monitor_lock(&async->monitor);
    end_request(async, operation, status, status ? ls_error() : "");
    ls_monitor_broadcast(&async->monitor);
    ls_monitor_unlock(&async->monitor);
}

static const struct ls_operation *find_name(const struct ls_async *async, uint64_t name_digest) {
    for (const struct ls_operation *operation = async->first; operation; operation = operation->next)
        for (size_t i = 0; i < operation->part_count; i++)
            if (!operation->parts[i].done && operation->parts[i].frame.name_digest == name_digest) return operation;
    return NULL;
}

static ls_status take_in(struct ls_async *async, struct ls_operation *operation) {
    if (async->failed) return ls_fail(async->failed, "%s", async->error);
    if (async->joined)
        return ls_fail(LS_FAILED_PRECONDITION, "'%s' was begun while this rank is in ls_join", operation->name);
    if (operation->kind == LS_OPERATION_JOIN && async->first)
        return ls_fail(LS_FAILED_PRECONDITION, "ls_join while %s '%s' has not ended: wait for it first",
                       ls_operation_span(async->first), async->first->name);
    for (size_t i = 0; i < operation->part_count; i++)
        if (find_name(async, operation->parts[i].frame.name_digest))
            return ls_fail(LS_ALREADY_EXISTS,
                           "%s '%s' is begun twice at once: wait for the first one, or give each a name of its own",
                           ls_operation_span(operation), operation->name);
    operation->left = operation->part_count;
    operation->begun = ls_now();
    operation->ended = false;
    operation->next = NULL;
    *async->end = operation;
    async->end = &operation->next;
    async->joined = operation->kind == LS_OPERATION_JOIN;
    async->changes++;
    return LS_OK;
}

ls_status ls_async_begin(struct ls_async *async, struct ls_operation *operation) {
    ls_monitor_lock(&async->monitor);
    const struct ls_group *group = async->runtime->group; /* NULL after a recovery that failed */
    ls_status status = group ? ls_operation_check(operation, group) : LS_OK;
    if (!status) status = take_in(async, operation);
    ls_monitor_broadcast(&async->monitor);
    ls_monitor_unlock(&async->monitor);
    return status;
}

bool ls_async_has_ended(struct ls_async *async, const struct ls_operation *operation) {
    ls_monitor_lock(&async->monitor);
    bool ended = operation->ended;
    ls_monitor_unlock(&async->monitor);
    return ended;
}

ls_status ls_async_wait(struct ls_async *async, const struct ls_operation *operation, int64_t deadline) {
    ls_monitor_lock(&async->monitor);
    bool in_time = true;
    while (!operation->ended && in_time) in_time = ls_monitor_wait(&async->monitor, deadline);
    bool ended = operation->ended;
    ls_monitor_unlock(&async->monitor);
    if (!ended)
        return ls_fail(LS_DEADLINE_EXCEEDED, "%s '%s' has not ended yet, %.3g s after it was begun",
                       ls_operation_span(operation), operation->name, ls_seconds_since(operation->begun));
    return operation->status ? ls_fail(operation->status, "%s", operation->error) : LS_OK;
}

/* ---- the thread ---- */

/* With this thread's error every call that was begun ends, and those to come. */
static void fail_all(struct ls_async *async, ls_status status) {
    ls_monitor_lock(&async->monitor);
    async->failed = status;
    (void)snprintf(async->error, sizeof(async->error), "%s", ls_error());
    while (async->first) end_request(async, async->first, status, async->error);
    async->joined = false;
    ls_monitor_broadcast(&async->monitor);
    ls_monitor_unlock(&async->monitor);
}

/* A line for each call that some ranks have begun long ago and others have not; an error after the limit of a
 * collective. */
static ls_status look_after(struct ls_async *async) {
    const struct ls_settings *settings = &async->runtime->settings;
    const struct ls_negotiation *negotiation = &async->negotiation;
    int64_t now = ls_now();
    bool reports = settings->report_interval > 0 && now >= async->next_report;
    char text[512];
    for (size_t i = 0; i < negotiation->count; i++) {
        const struct ls_negotiated *call = negotiation->calls[i];
        if (now < ls_deadline_after(call->since, settings->report_interval)) continue;
        ls_negotiation_describe(negotiation, call, text, sizeof(text));
        if (now >= ls_deadline_after(call->since, settings->collective_timeout))
            return ls_fail(LS_DEADLINE_EXCEEDED, "%s, for %g s (LOCKSTEP_COLLECTIVE_TIMEOUT)", text,
                           settings->collective_timeout);
        if (reports)
            ls_log_shared(&async->runtime->log, call->frame.rank == async->runtime->rank, LS_LOG_WARNING,
                          "%s, for %.0f s", text, ls_seconds_since(call->since));
    }
    if (reports) async->next_report = ls_deadline_after(now, settings->report_interval);
    return LS_OK;
}

/* Until something is begun here or the pause is over. */
static void pause_async(struct ls_async *async, int64_t *pause) {
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
    async->next_report = ls_deadline_in(async->runtime->settings.report_interval);
    while (!status && ls_round_is_due(async)) {
        bool news = false;
        status = ls_round(async, &news);
        if (!status) status = ls_agreed_calls(async, &news);
        if (!status) status = look_after(async);
        if (news)
            pause = SHORT_PAUSE;
        else if (!status)
            pause_async(async, &pause);
    }
    if (!status) return;
    status = ls_group_fail(async->runtime->group, status);
    fail_all(async, status);
}

static void *run_async(void *argument) {
    struct ls_async *async = argument;
    ls_monitor_lock(&async->monitor);
    while (async->first || !async->ending) {
        if (!async->first) {
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

ls_status ls_async_new(struct ls_runtime *runtime, struct ls_track *track, struct ls_async **async) {
    struct ls_async *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("the calls that are begun", sizeof(*made));
    made->runtime = runtime;
    made->track = track;
    made->end = &made->first;
    made->references = 1;
    ls_status status = ls_monitor_init(&made->monitor);
    if (status) {
        ls_free(made);
        return status;
    }
    status = ls_negotiation_init(&made->negotiation, runtime->size);
    if (!status) status = ls_thread_start(&made->thread, "ls-async", run_async, made);
    if (status)
        free_async(made);
    else
        *async = made;
    return status;
}

void ls_async_hold(struct ls_async *async) {
    ls_monitor_lock(&async->monitor);
    async->references++;
    ls_monitor_unlock(&async->monitor);
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
    if (status && async->first) ls_abort_raise(async->runtime->abort, status, ls_error());
    ls_monitor_broadcast(&async->monitor);
    ls_monitor_unlock(&async->monitor);
    (void)pthread_join(async->thread, NULL);
    ls_monitor_lock(&async->monitor);
    async->failed = LS_FAILED_PRECONDITION; /* for handles that outlive it */
    (void)snprintf(async->error, sizeof(async->error), "the communicator was closed");
    ls_monitor_unlock(&async->monitor);
    ls_async_release(async);
}

void ls_async_rest(struct ls_async *async) {
    if (!async) return;
    ls_monitor_lock(&async->monitor);
    while (async->busy) (void)ls_monitor_wait(&async->monitor, LS_NEVER);
    ls_monitor_unlock(&async->monitor);
}

ls_status ls_async_trace(struct ls_async *async, struct ls_track *track) {
    if (!async) return LS_OK;
    ls_monitor_lock(&async->monitor);
    ls_status status = LS_OK;
    if (async->first)
        status = ls_fail(LS_FAILED_PRECONDITION, "%s '%s' has not ended: wait for it before the timeline changes",
                         ls_operation_span(async->first), async->first->name);
    while (!status && async->busy) (void)ls_monitor_wait(&async->monitor, LS_NEVER);
    if (!status) async->track = track;
    ls_monitor_unlock(&async->monitor);
    return status;
}

ls_status ls_async_resume(struct ls_async *async) {
    if (!async) return LS_OK;
    ls_negotiation_free(&async->negotiation);
    ls_status status = ls_negotiation_init(&async->negotiation, async->runtime->size);
    ls_monitor_lock(&async->monitor);
    async->failed = status;
    async->joined = false;
    ls_monitor_unlock(&async->monitor);
    return status;
}
