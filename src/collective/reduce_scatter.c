/* Reduce-scatter: each rank receives its part of the sum. AUTO is the first half of direct exchange: every rank sends
 * every other one its part, the owner folds the tree over ranks, so that the bits are those of the all-reduce; in the
 * memory of one host it reads them there. RING
 * passes partial sums along the ring; the chain of a part begins behind its owner and ends there. The counterpart of
 * MPI_Reduce_scatter, ncclReduceScatter and torch's reduce_scatter. */
#include "collective/collectives.h"

#include <stdint.h>
#include <string.h>

#include "base/denormal.h"
#include "base/status.h"
#include "collective/call.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shm_calls.h"

struct part {
    int owner;
    size_t start, size; /* bytes */
};

static struct ls_scatter scatter_of(const struct ls_group *group, const struct ls_reduce_scatter *call, size_t total) {
    size_t element = ls_dtype_size(call->dtype);
    return (struct ls_scatter){.counts = call->counts,
                               .input = call->input,
                               .output = call->output,
                               .dtype = call->dtype,
                               .rank = group->executor.rank,
                               .size = group->executor.size,
                               .divide = call->op == LS_MEAN ? group->executor.size : 0,
                               .element = element,
                               .start = ls_call_bytes_before(call->counts, group->executor.rank, element),
                               .total = total * element};
}

/* ---- the tree ---- */

static void send_parts(const struct ls_scatter *scatter) {
    const unsigned char *input = scatter->input;
    for (int i = 0; i < scatter->size; i++) {
        size_t bytes = ls_scatter_part(scatter, i);
        if (i != scatter->rank) (void)ls_schedule_send(scatter->schedule, i, input, bytes);
        if (bytes) input += bytes;
    }
}

/* Every part that comes has a slot of its own, n - 1 times the part in all: the fold is gated by all of them and adds
 * in leaf order, not in that of arrival. */
static void schedule_tree(const struct ls_scatter *scatter) {
    struct ls_schedule *schedule = scatter->schedule;
    size_t ranks = (size_t)scatter->size, own = ls_scatter_part(scatter, scatter->rank);
    send_parts(scatter);
    const unsigned char **from = ls_schedule_take(schedule, ranks * sizeof(*from));
    int *received = ls_schedule_take(schedule, ranks * sizeof(*received));
    if (!own || !from || !received) return;
    for (int i = 0; i < scatter->size; i++) {
        received[i] = -1;
        from[i] = (const unsigned char *)scatter->input + scatter->start;
        if (i == scatter->rank) continue;
        unsigned char *slot = ls_schedule_take(schedule, own);
        from[i] = slot;
        received[i] = ls_schedule_receive(schedule, i, slot, own);
    }
    int fold = ls_schedule_add(
        schedule,
        (struct ls_action){.kind = LS_ACTION_FOLD, .to = scatter->output, .size = own, .divide = scatter->divide});
    for (int i = 0; i < scatter->size; i++) {
        ls_schedule_gate(schedule, fold, received[i]);
        ls_schedule_source(schedule, fold, (struct ls_subtree){i, i + 1}, from[i]);
    }
}

/* ---- the tree, of many ---- */

/* The whole all-reduce, into memory of its own, of which each rank keeps its part. It moves twice the bytes, over a few
 * links, and adds along the same tree. */
static ls_status reduce_all(struct ls_group *group, const struct ls_scatter *scatter, const struct ls_call *call) {
    unsigned char *sums = ls_schedule_take(scatter->schedule, scatter->total);
    if (!sums) return ls_fail_memory("the sums of a reduce_scatter", scatter->total);
    const void *inputs[1] = {scatter->input};
    void *outputs[1] = {sums};
    const struct ls_reduction reduction = {.rank = scatter->rank,
                                           .size = scatter->size,
                                           .element = scatter->element,
                                           .count = scatter->total / scatter->element,
                                           .divide = scatter->divide,
                                           .first = group->first,
                                           .inputs = inputs,
                                           .outputs = outputs,
                                           .hosts = &group->flat};
    ls_halving_schedule(scatter->schedule, &reduction);
    ls_status status = ls_call_run(group, call);
    size_t own = ls_scatter_part(scatter, scatter->rank);
    if (!status && own) memcpy(scatter->output, sums + scatter->start, own);
    return status;
}

/* ---- the chain ---- */

/* From one owner's part to that of the rank before it. */
static void step_back(const struct ls_scatter *scatter, struct part *part) {
    if (!part->owner) *part = (struct part){scatter->size, scatter->total, 0};
    part->owner--;
    part->size = ls_scatter_part(scatter, part->owner);
    part->start -= part->size;
}

static void send_next(const struct ls_scatter *scatter, const unsigned char *from, size_t size, int gate) {
    int sent = ls_schedule_send(scatter->schedule, (scatter->rank + 1) % scatter->size, from, size);
    ls_schedule_gate(scatter->schedule, sent, gate);
}

/* The first n - 1 steps of Patarasuk and Yuan's ring. The chain of the part of rank b begins at b + 1 and ends at b, so
 * that the owner adds last and divides for MEAN. Partial sums lie in scratch: input is const. */
static void schedule_chain(const struct ls_scatter *scatter) {
    const unsigned char *input = scatter->input;
    struct part part = {scatter->rank, scatter->start, 0};
    step_back(scatter, &part);
    const unsigned char *from = input + part.start;
    int made = -1;
    for (int step = 1; step < scatter->size; step++) {
        bool last = step == scatter->size - 1;
        send_next(scatter, from, part.size, made);
        step_back(scatter, &part);
        unsigned char *to = last ? scatter->output : ls_schedule_take(scatter->schedule, part.size);
        made = ls_schedule_add(scatter->schedule,
                               (struct ls_action){.kind = LS_ACTION_RECEIVE_ADD,
                                                  .peer = (scatter->rank + scatter->size - 1) % scatter->size,
                                                  .to = to,
                                                  .from = input + part.start,
                                                  .size = part.size,
                                                  .divide = last ? scatter->divide : 0});
        from = to;
    }
}

/* ---- the call ---- */

static ls_status check_memory(const struct ls_scatter *scatter, const struct ls_reduce_scatter *call) {
    size_t own = ls_scatter_part(scatter, scatter->rank);
    if ((scatter->total && !call->input) || (own && !call->output))
        return ls_call_missing_memory(call->name, "input or output");
    uintptr_t input = (uintptr_t)call->input, output = (uintptr_t)call->output;
    if (!own || output == input + scatter->start) return LS_OK;
    if (output + own <= input || input + scatter->total <= output) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "reduce_scatter '%s': output overlaps input, and not where rank %d's part lies (byte %zu)",
                   call->name, scatter->rank, scatter->start);
}

static ls_status check_call(const struct ls_group *group, const struct ls_reduce_scatter *call, size_t *total) {
    ls_status status = ls_call_check_name(call->name);
    if (!status) status = ls_call_sum_counts(group, call->name, call->dtype, call->counts, total);
    if (!status) status = ls_call_check_op(call->name, call->op, call->dtype);
    return status ? status : ls_call_check_communication(call->name, call->communication);
}

static ls_status reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call,
                                const struct ls_scatter *scatter) {
    size_t total = scatter->total / scatter->element;
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    struct ls_call made = ls_call_begin(group, LS_KIND_REDUCE_SCATTER, call->name, call->dtype, total);
    made.combine = ls_reduce_combine(call->op, call->dtype);
    made.frame.op = (int32_t)call->op;
    made.frame.communication = (int32_t)call->communication;
    made.frame.total = total;
    for (int i = 0; i < scatter->size; i++) made.frame.layout = ls_frame_digest(made.frame.layout, call->counts[i]);
    if (call->communication == LS_AUTO && ls_group_is_one_host(group))
        return ls_shm_reduce_scatter(scatter, group->shared, &made);
    ls_schedule_reset(&group->schedule, scatter->size);
    bool chain = call->communication == LS_RING && scatter->size > 1;
    if (total && !chain && scatter->size > group->config.direct_limit) return reduce_all(group, scatter, &made);
    if (total) (chain ? schedule_chain : schedule_tree)(scatter);
    return ls_call_run(group, &made);
}

static ls_status prepare(const struct ls_group *group, const struct ls_reduce_scatter *call,
                         struct ls_scatter *scatter) {
    size_t total = 0;
    ls_status status = check_call(group, call, &total);
    if (status) return status;
    *scatter = scatter_of(group, call, total);
    return check_memory(scatter, call);
}

ls_status ls_group_reduce_scatter_check(const struct ls_group *group, const struct ls_reduce_scatter *call) {
    return prepare(group, call, &(struct ls_scatter){0});
}

ls_status ls_group_reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call) {
    struct ls_scatter scatter;
    ls_status status = prepare(group, call, &scatter);
    if (status) return status;
    scatter.schedule = &group->schedule;
    unsigned denormals = ls_denormals_keep();
    status = ls_call_finish(group, reduce_scatter(group, call, &scatter));
    ls_denormals_restore(denormals);
    return status;
}
