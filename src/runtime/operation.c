/* One table of the kinds of calls: how each is checked, run and named. */
#include "runtime/operation.h"

#include "base/memory.h"
#include "base/status.h"
#include "collective/collectives.h"
#include "collective/schedule/scale.h"
#include "runtime/runtime.h"

/* ---- all-reduce ---- */

static ls_status check_reduce(const struct ls_operation *operation, const struct ls_group *group) {
    (void)group;
    ls_status status = ls_group_all_reduce_check(&operation->reduce);
    for (size_t i = 0; i < operation->part_count && !status; i++) {
        const struct ls_call_part *part = &operation->parts[i];
        size_t most = PTRDIFF_MAX / ls_dtype_size(operation->reduce.dtype);
        if (part->frame.count > most)
            status =
                ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': count %llu of array %zu is more than memory can hold",
                        operation->name, (unsigned long long)part->frame.count, i);
        else if (part->frame.count && (!part->input || !part->output))
            status = ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %s of array %zu is NULL", operation->name,
                             part->input ? "output" : "input", i);
    }
    return status;
}

static ls_status run_reduce(struct ls_operation *operation, struct ls_group *group, const char *name) {
    if (operation->part_count == 1) {
        struct ls_all_reduce call = operation->reduce;
        call.name = name;
        call.count = operation->parts->frame.count;
        call.inputs = &operation->parts->input;
        call.outputs = &operation->parts->output;
        return ls_group_all_reduce(group, &call);
    }
    struct ls_all_reduce_list list = {.call = operation->reduce, .count = operation->part_count};
    LS_CLEANUP(ls_free_pointer) const void **inputs = ls_alloc_array(list.count, sizeof(*inputs));
    LS_CLEANUP(ls_free_pointer) void **outputs = ls_alloc_array(list.count, sizeof(*outputs));
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array(list.count, sizeof(*counts));
    if (!inputs || !outputs || !counts) return ls_fail_memory("an all_reduce", list.count * sizeof(*inputs));
    for (size_t i = 0; i < list.count; i++) {
        inputs[i] = operation->parts[i].input;
        outputs[i] = operation->parts[i].output;
        counts[i] = operation->parts[i].frame.count;
    }
    list.call.name = name;
    list.inputs = inputs;
    list.outputs = outputs;
    list.counts = counts;
    return ls_group_all_reduce_list(group, &list);
}

/* ---- the others ---- */

static ls_status check_broadcast(const struct ls_operation *operation, const struct ls_group *group) {
    return ls_group_broadcast_check(group, operation->name, operation->root, operation->reduce.dtype,
                                    operation->only.output, operation->count);
}

static ls_status run_broadcast(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return ls_group_broadcast(group, name, operation->root, operation->reduce.dtype, operation->only.output,
                              operation->count);
}

static ls_status check_gather(const struct ls_operation *operation, const struct ls_group *group) {
    return ls_group_all_gather_check(group, operation->name, operation->reduce.dtype, operation->only.input,
                                     operation->counts, operation->only.output);
}

static ls_status run_gather(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return ls_group_all_gather(group, name, operation->reduce.dtype, operation->only.input, operation->counts,
                               operation->only.output);
}

static struct ls_reduce_scatter scatter_of(const struct ls_operation *operation, const char *name) {
    return (struct ls_reduce_scatter){.name = name,
                                      .communication = operation->reduce.communication,
                                      .op = operation->reduce.op,
                                      .dtype = operation->reduce.dtype,
                                      .counts = operation->counts,
                                      .input = operation->only.input,
                                      .output = operation->only.output};
}

static ls_status check_scatter(const struct ls_operation *operation, const struct ls_group *group) {
    const struct ls_reduce_scatter call = scatter_of(operation, operation->name);
    return ls_group_reduce_scatter_check(group, &call);
}

static ls_status run_scatter(struct ls_operation *operation, struct ls_group *group, const char *name) {
    const struct ls_reduce_scatter call = scatter_of(operation, name);
    return ls_group_reduce_scatter(group, &call);
}

static ls_status check_root(const struct ls_operation *operation, const struct ls_group *group) {
    return ls_group_broadcast_check(group, operation->name, operation->root, LS_UINT8, NULL, 0);
}

static ls_status run_all_to_all(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return ls_ragged_all_to_all(group, name, operation->reduce.dtype, operation->only.input, operation->counts,
                                operation->made, operation->made_counts);
}

static ls_status run_ragged_gather(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return ls_ragged_all_gather(group, name, operation->reduce.dtype, operation->only.input, operation->count,
                                operation->made, operation->made_counts);
}

static ls_status run_ragged_broadcast(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return ls_ragged_broadcast(group, name, operation->root, operation->only.input, operation->count, operation->made,
                               operation->made_counts);
}

static ls_status check_nothing(const struct ls_operation *operation, const struct ls_group *group) {
    (void)group;
    return operation->name ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "a collective needs a name");
}

static ls_status run_barrier(struct ls_operation *operation, struct ls_group *group, const char *name) {
    (void)operation;
    return ls_group_barrier(group, name);
}

static ls_status run_share(struct ls_operation *operation, struct ls_group *group, const char *name) {
    (void)name;
    return ls_group_share(group, operation->count, operation->only.output);
}

/* ---- the table ---- */

/* frame: the kind that the fingerprint says; a join has none. */
static const struct {
    enum ls_collective_kind frame;
    const char *span;
    ls_status (*check)(const struct ls_operation *operation, const struct ls_group *group);
    ls_status (*run)(struct ls_operation *operation, struct ls_group *group, const char *name);
} kinds[LS_OPERATION_KINDS] = {
    [LS_OPERATION_ALL_REDUCE] = {LS_KIND_ALL_REDUCE, "all-reduce", check_reduce, run_reduce},
    [LS_OPERATION_BROADCAST] = {LS_KIND_BROADCAST, "broadcast", check_broadcast, run_broadcast},
    [LS_OPERATION_ALL_GATHER] = {LS_KIND_ALL_GATHER, "all-gather", check_gather, run_gather},
    [LS_OPERATION_REDUCE_SCATTER] = {LS_KIND_REDUCE_SCATTER, "reduce-scatter", check_scatter, run_scatter},
    [LS_OPERATION_BARRIER] = {LS_KIND_BARRIER, "barrier", check_nothing, run_barrier},
    [LS_OPERATION_ALL_TO_ALL] = {LS_KIND_ALL_TO_ALL, "all-to-all", check_nothing, run_all_to_all},
    [LS_OPERATION_RAGGED_GATHER] = {LS_KIND_ALL_GATHER, "all-gather", check_nothing, run_ragged_gather},
    [LS_OPERATION_RAGGED_BROADCAST] = {LS_KIND_BROADCAST, "broadcast", check_root, run_ragged_broadcast},
    [LS_OPERATION_SHARE] = {LS_KIND_ALL_GATHER, "share", check_nothing, run_share},
    [LS_OPERATION_JOIN] = {.span = "join", .check = check_nothing},
};

/* Each array has a name of its own, so that ranks whose lists differ find no match for one. */
static void write_frame(const struct ls_operation *operation, const struct ls_group *group, size_t index) {
    struct ls_call_part *part = &operation->parts[index];
    const struct ls_all_reduce *reduce = &operation->reduce;
    bool adds = operation->kind == LS_OPERATION_ALL_REDUCE, ragged = operation->made != NULL;
    part->frame = (struct ls_frame){.count = adds     ? part->frame.count
                                             : ragged ? 0
                                                      : operation->count,
                                    .rank = ls_group_rank(group),
                                    .size = ls_group_size(group),
                                    .root = kinds[operation->kind].frame == LS_KIND_BROADCAST ? operation->root : -1,
                                    .kind = (int32_t)kinds[operation->kind].frame,
                                    .op = (int32_t)reduce->op,
                                    .dtype = (int32_t)reduce->dtype,
                                    .communication = (int32_t)reduce->communication,
                                    .compression = (int32_t)reduce->compression,
                                    .prescale = adds ? ls_scale_factor(reduce->prescale) : 0,
                                    .postscale = adds ? ls_scale_factor(reduce->postscale) : 0};
    ls_frame_name(&part->frame, operation->name);
    if (index) part->frame.name_digest = ls_frame_digest(part->frame.name_digest, index);
    for (int rank = 0; operation->counts && !ragged && rank < ls_group_size(group); rank++) {
        part->frame.count += operation->counts[rank];
        part->frame.layout = ls_frame_digest(part->frame.layout, operation->counts[rank]);
    }
    if (adds) part->frame.total = operation->part_count;
}

ls_status ls_operation_check(struct ls_operation *operation, const struct ls_group *group) {
    ls_status status = kinds[operation->kind].check(operation, group);
    for (size_t i = 0; i < operation->part_count && !status; i++) write_frame(operation, group, i);
    return status;
}

ls_status ls_operation_run(struct ls_operation *operation, struct ls_group *group, const char *name) {
    return kinds[operation->kind].run(operation, group, name);
}

const char *ls_operation_span(const struct ls_operation *operation) {
    return kinds[operation->kind].span;
}

/* Of a broadcast of unequal parts, what came. */
size_t ls_operation_bytes(const struct ls_operation *operation, const struct ls_runtime *runtime) {
    size_t count = operation->counts ? operation->counts[runtime->rank] : operation->count;
    if (operation->kind == LS_OPERATION_SHARE) return 0;
    if (operation->kind == LS_OPERATION_RAGGED_BROADCAST) return *operation->made_counts;
    if (operation->kind == LS_OPERATION_ALL_TO_ALL)
        for (int rank = (int)(count = 0); rank < runtime->size; rank++) count += operation->counts[rank];
    if (operation->kind == LS_OPERATION_ALL_REDUCE)
        for (size_t i = count = 0; i < operation->part_count; i++) count += operation->parts[i].frame.count;
    return count * ls_dtype_size(operation->reduce.dtype);
}
