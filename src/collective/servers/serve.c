/* The loop of a parameter server: it waits for the frame of the lowest worker's next call, lays the call out from it
 * and makes it. The executor compares the frames of the other workers. */
#include "collective/servers/serve.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/denormal.h"
#include "base/shape.h"
#include "base/kept_error.h"
#include "base/options.h"
#include "collective/servers/assist.h"
#include "collective/collectives.h"
#include "collective/call.h"
#include "collective/group_private.h"
#include "collective/run/wait.h"

#define TICK      (100 * LS_MILLISECOND)
#define MAX_WHOLE (INT64_C(1) << 40) /* bytes of one call */

/* Rank 0's link, or what its source waits for, and the abort flag. */
static void wait_for_frame(struct ls_executor *executor) {
    struct ls_link *link = executor->peers[0].link;
    struct pollfd polls[2] = {{.fd = -1}, {.fd = ls_abort_fd(executor->abort), .events = POLLIN}};
    int64_t until = ls_now() + TICK;
    if (link) {
        if (link->ops->wake_at) link->ops->wake_at(link, LS_FRAME_SIZE - executor->peers[0].peeked);
        if (!link->ops->poll(link, POLLIN, &polls[0])) return;
    } else {
        until = ls_deadline_earlier(until, executor->source->ops->poll(executor->source, 0, &polls[0]));
    }
    (void)poll(polls, 2, ls_poll_timeout(until, 1000));
}

/* A broken connection means that the workers have finished, or that one was lost: watch hears which. */
static ls_status find_cause(ls_status status, ls_serve_watch_fn *watch, void *context) {
    int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT;
    struct ls_kept_error kept = ls_kept_error_of(status);
    while (status == LS_UNAVAILABLE && ls_now() < deadline) {
        ls_status known = watch(context);
        if (known) return known;
        (void)poll(NULL, 0, 10);
    }
    return ls_kept_error_raise(&kept);
}

static ls_status next_call(struct ls_group *group, ls_serve_watch_fn *watch, void *context, struct ls_frame *frame) {
    for (bool whole = false;;) {
        ls_status status = watch(context);
        if (!status && ls_abort_raised(group->executor.abort)) status = ls_abort_status(group->executor.abort);
        if (!status) status = ls_executor_peek(&group->executor, 0, frame, &whole);
        if (!status && !whole) status = ls_wait_look(&group->executor, 0, frame, &whole);
        if (status || whole) return status;
        wait_for_frame(&group->executor);
    }
}

/* ---- one call ---- */

static ls_status take_leaves(struct ls_group *group, const struct ls_frame *frame) {
    int workers = group->executor.size - group->config.servers;
    if (frame->count != (uint64_t)workers + 1)
        return ls_fail(LS_DATA_LOSS, "the leaves of %d workers came as %llu numbers", workers,
                       (unsigned long long)frame->count);
    ls_status status =
        ls_group_broadcast_directly(group, LS_ASSIST_LEAVES, LS_INT32, group->first, (size_t)frame->count);
    for (int i = workers; i <= group->executor.size; i++) group->first[i] = group->first[workers];
    return status;
}

static ls_status check_request(const struct ls_group *group, const struct ls_frame *frame) {
    ls_status status = ls_dtype_check((ls_dtype)frame->dtype);
    if (!status) status = ls_call_check_op(frame->name, (ls_reduce_op)frame->op, (ls_dtype)frame->dtype);
    if (!status) status = ls_option_names_check_compression((ls_compression)frame->compression);
    if (status) return status;
    const int *first = group->first;
    bool rises = first[0] == 0;
    for (int i = 0; i < group->executor.size - group->config.servers; i++) rises = rises && first[i] < first[i + 1];
    bool narrow = frame->compression && frame->dtype != LS_FLOAT32;
    bool divides = frame->postscale >= 0 && frame->postscale <= INT32_MAX;
    if (!rises || narrow || !divides || frame->total != (uint64_t)first[group->executor.size] ||
        frame->count > (uint64_t)MAX_WHOLE / ls_dtype_size((ls_dtype)frame->dtype))
        return ls_fail(LS_DATA_LOSS, "rank 0 asks for an all-reduce of %llu elements of %llu leaves that cannot be",
                       (unsigned long long)frame->count, (unsigned long long)frame->total);
    return LS_OK;
}

static ls_status add(struct ls_group *group, const struct ls_frame *frame) {
    ls_status status = check_request(group, frame);
    if (status) return status;
    struct ls_call made = ls_call_begin(group, LS_KIND_ALL_REDUCE, frame->name, (ls_dtype)frame->dtype, frame->count);
    struct ls_frame own = made.frame;
    made.frame = *frame;
    made.frame.generation = own.generation;
    made.frame.sequence = own.sequence;
    made.frame.rank = own.rank;
    made.frame.size = own.size;
    made.combine = ls_reduce_combine((ls_reduce_op)frame->op, (ls_dtype)frame->dtype);
    made.conversion = ls_convert_find((ls_compression)frame->compression);
    struct ls_reduction reduction = {.element = ls_dtype_size((ls_dtype)frame->dtype),
                                     .count = (size_t)frame->count,
                                     .divide = (int)frame->postscale,
                                     .compression = (ls_compression)frame->compression,
                                     .first = group->first};
    ls_assist_lay_out(group, &made, &reduction);
    return ls_call_run(group, &made);
}

static ls_status keep_frame(struct ls_group *group, const struct ls_frame *frame, const struct ls_keeping *keeping) {
    ls_status status = keeping->call(keeping->context, group, frame);
    return status ? ls_group_fail(group, status) : LS_OK;
}

static ls_status make_call(struct ls_group *group, const struct ls_frame *frame, const struct ls_keeping *keeping) {
    bool tells = frame->kind == LS_KIND_BROADCAST && !strcmp(frame->name, LS_ASSIST_LEAVES);
    if (tells) return take_leaves(group, frame);
    if (frame->kind == LS_KIND_ALL_REDUCE) return ls_call_finish(group, add(group, frame));
    if (frame->kind == LS_KIND_FAILURE) return ls_fail(LS_UNAVAILABLE, "rank 0 has given up");
    if (frame->kind == LS_KIND_BROADCAST || frame->kind == LS_KIND_PUSH) return keep_frame(group, frame, keeping);
    return ls_fail(LS_DATA_LOSS, "rank 0 asks a parameter server for a collective that it does not make: %s",
                   ls_frame_collective_name(frame->kind));
}

ls_status ls_group_serve(struct ls_group *group, ls_serve_watch_fn *watch, void *context,
                         const struct ls_keeping *keeping) {
    struct ls_frame frame;
    unsigned denormals = ls_denormals_keep();
    ls_status status;
    do {
        status = next_call(group, watch, context, &frame);
        if (!status) status = make_call(group, &frame, keeping);
    } while (!status);
    ls_denormals_restore(denormals);
    return find_cause(status, watch, context);
}
