/* One table of the kinds of calls: how each is checked, run and named. */
#include "runtime/operation.h"

#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "collective/collectives.h"
#include "collective/schedule/reduce.h"
#include "runtime/runtime.h"

/* INVALID_ARGUMENT, naming the first field of names that is NULL. */
#define NEED(function, names, ...) (ls_need(function, names, (const bool[]){__VA_ARGS__}) ? LS_OK : LS_INVALID_ARGUMENT)

static ls_status check_nothing(const struct ls_operation *operation, const struct ls_group *group) {
    (void)group;
    return operation->name ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "a collective needs a name");
}

/* ---- all-reduce ---- */

static ls_status read_reduce(struct ls_operation *operation) {
    const ls_all_reduce_options *call = &operation->all_reduce;
    size_t count = call->array_count;
    operation->only = (struct ls_call_part){.frame.count = call->count, .input = call->input, .output = call->output};
    if (!count) return LS_OK;
    ls_status status = NEED("ls_all_reduce", "inputs, outputs, counts", call->inputs, call->outputs, call->counts);
    if (status) return status;
    if (call->input || call->output || call->count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "all_reduce '%s' has input, output or count beside array_count %zu: it is of one array or of "
                       "several",
                       call->name ? call->name : "", count);
    operation->part_count = count;
    operation->parts = ls_alloc_array(count, sizeof(struct ls_call_part));
    if (!operation->parts) return ls_fail_memory("a group of arrays", count * sizeof(struct ls_call_part));
    for (size_t i = 0; i < count; i++)
        operation->parts[i] =
            (struct ls_call_part){.frame.count = call->counts[i], .input = call->inputs[i], .output = call->outputs[i]};
    return LS_OK;
}

/* Of each part, but for count and arrays. */
static struct ls_all_reduce reduce_of(const struct ls_operation *operation, const char *name) {
    const ls_all_reduce_options *call = &operation->all_reduce;
    return (struct ls_all_reduce){.name = name,
                                  .communication = operation->communication,
                                  .op = call->op,
                                  .dtype = call->dtype,
                                  .compression = call->compression,
                                  .prescale = call->prescale,
                                  .postscale = call->postscale};
}

static ls_status check_reduce(const struct ls_operation *operation, const struct ls_group *group) {
    (void)group;
    const struct ls_all_reduce call = reduce_of(operation, operation->name);
    ls_status status = ls_group_all_reduce_check(&call);
    for (size_t i = 0; i < operation->part_count && !status; i++) {
        const struct ls_call_part *part = &operation->parts[i];
        size_t most = PTRDIFF_MAX / ls_dtype_size(call.dtype);
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

/* In the thread of the caller, whose lists are there. */
static ls_status run_reduce(struct ls_operation *operation, struct ls_group *group, const char *name) {
    const ls_all_reduce_options *options = &operation->all_reduce;
    struct ls_all_reduce_list list = {.call = reduce_of(operation, name),
                                      .count = options->array_count,
                                      .counts = options->counts,
                                      .inputs = options->inputs,
                                      .outputs = options->outputs};
    if (list.count > 1) return ls_group_all_reduce_list(group, &list);
    list.call.count = operation->parts->frame.count;
    list.call.inputs = &operation->parts->input;
    list.call.outputs = &operation->parts->output;
    return ls_group_all_reduce(group, &list.call);
}

/* ---- the others ---- */

static ls_status read_broadcast(struct ls_operation *operation) {
    const ls_broadcast_options *call = &operation->broadcast;
    return NEED("ls_broadcast", "received", !call->allocated || call->received);
}

static ls_status check_broadcast(const struct ls_operation *operation, const struct ls_group *group) {
    ls_broadcast_options call = operation->broadcast;
    if (call.allocated) call.count = 0;
    return ls_group_broadcast_check(group, &call);
}

/* Of unequal parts the operation keeps what came, for ls_operation_bytes. */
static ls_status run_broadcast(struct ls_operation *operation, struct ls_group *group, const char *name) {
    ls_broadcast_options call = operation->broadcast;
    call.name = name;
    if (!call.allocated) return ls_group_broadcast(group, &call);
    operation->broadcast.count = 0;
    call.received = &operation->broadcast.count;
    ls_status status = ls_ragged_broadcast(group, &call);
    if (!status) *operation->broadcast.received = operation->broadcast.count;
    return status;
}

static ls_status read_gather(struct ls_operation *operation) {
    const ls_all_gather_options *call = &operation->all_gather;
    return NEED("ls_all_gather", "received", !call->allocated || call->received);
}

static ls_status check_gather(const struct ls_operation *operation, const struct ls_group *group) {
    if (operation->all_gather.allocated) return check_nothing(operation, group);
    return ls_group_all_gather_check(group, &operation->all_gather);
}

static ls_status run_gather(struct ls_operation *operation, struct ls_group *group, const char *name) {
    ls_all_gather_options call = operation->all_gather;
    call.name = name;
    return (call.allocated ? ls_ragged_all_gather : ls_group_all_gather)(group, &call);
}

static struct ls_reduce_scatter scatter_of(const struct ls_operation *operation, const char *name) {
    const ls_reduce_scatter_options *call = &operation->reduce_scatter;
    return (struct ls_reduce_scatter){.name = name,
                                      .communication = operation->communication,
                                      .op = call->op,
                                      .dtype = call->dtype,
                                      .counts = call->counts,
                                      .input = call->input,
                                      .output = call->output};
}

static ls_status check_scatter(const struct ls_operation *operation, const struct ls_group *group) {
    const struct ls_reduce_scatter call = scatter_of(operation, operation->name);
    return ls_group_reduce_scatter_check(group, &call);
}

static ls_status run_scatter(struct ls_operation *operation, struct ls_group *group, const char *name) {
    const struct ls_reduce_scatter call = scatter_of(operation, name);
    return ls_group_reduce_scatter(group, &call);
}

static ls_status read_all_to_all(struct ls_operation *operation) {
    const ls_all_to_all_options *call = &operation->all_to_all;
    return NEED("ls_all_to_all", "counts, allocated, received", call->counts, call->allocated, call->received);
}

static ls_status run_all_to_all(struct ls_operation *operation, struct ls_group *group, const char *name) {
    ls_all_to_all_options call = operation->all_to_all;
    call.name = name;
    return ls_ragged_all_to_all(group, &call);
}

static ls_status run_barrier(struct ls_operation *operation, struct ls_group *group, const char *name) {
    (void)operation;
    return ls_group_barrier(group, name);
}

static ls_status run_share(struct ls_operation *operation, struct ls_group *group, const char *name) {
    (void)name;
    return ls_group_share(group, operation->bytes, operation->memory);
}

/* ---- the table ---- */

#define OPTIONS(type) #type, sizeof(type)

/* frame: the kind that the fingerprint says; a join has none. options, size: the struct of the call, where it has one.
 */
static const struct {
    enum ls_collective_kind frame;
    const char *span;
    ls_status (*check)(const struct ls_operation *operation, const struct ls_group *group);
    ls_status (*run)(struct ls_operation *operation, struct ls_group *group, const char *name);
    const char *options;
    size_t size;
    ls_status (*read)(struct ls_operation *operation);
} kinds[LS_OPERATION_KINDS] = {
    [LS_OPERATION_ALL_REDUCE] = {LS_KIND_ALL_REDUCE, "all-reduce", check_reduce, run_reduce,
                                 OPTIONS(ls_all_reduce_options), read_reduce},
    [LS_OPERATION_BROADCAST] = {LS_KIND_BROADCAST, "broadcast", check_broadcast, run_broadcast,
                                OPTIONS(ls_broadcast_options), read_broadcast},
    [LS_OPERATION_ALL_GATHER] = {LS_KIND_ALL_GATHER, "all-gather", check_gather, run_gather,
                                 OPTIONS(ls_all_gather_options), read_gather},
    [LS_OPERATION_REDUCE_SCATTER] = {LS_KIND_REDUCE_SCATTER, "reduce-scatter", check_scatter, run_scatter,
                                     OPTIONS(ls_reduce_scatter_options)},
    [LS_OPERATION_ALL_TO_ALL] = {LS_KIND_ALL_TO_ALL, "all-to-all", check_nothing, run_all_to_all,
                                 OPTIONS(ls_all_to_all_options), read_all_to_all},
    [LS_OPERATION_BARRIER] = {LS_KIND_BARRIER, "barrier", check_nothing, run_barrier},
    [LS_OPERATION_SHARE] = {LS_KIND_ALL_GATHER, "share", check_nothing, run_share},
    [LS_OPERATION_JOIN] = {.span = "join", .check = check_nothing},
};

ls_status ls_operation_read(struct ls_operation *operation, const void *options) {
    const char *name = kinds[operation->kind].options;
    ls_status status = ls_options_copy(name, &operation->all_reduce, kinds[operation->kind].size, options);
    return status || !kinds[operation->kind].read ? status : kinds[operation->kind].read(operation);
}

void ls_operation_free(struct ls_operation *operation) {
    if (operation->parts != &operation->only) ls_free(operation->parts);
}

/* A call's facts in its fingerprint. */
struct facts {
    ls_dtype dtype;
    ls_reduce_op op;
    ls_communication communication;
    int root; /* -1: it has none */
    size_t count;
    const size_t *counts; /* [ranks], of equal lists on all ranks */
};

static struct facts facts_of(const struct ls_operation *operation) {
    switch (operation->kind) {
    case LS_OPERATION_ALL_REDUCE:
        return (struct facts){operation->all_reduce.dtype, operation->all_reduce.op, operation->communication, -1};
    case LS_OPERATION_BROADCAST:
        return (struct facts){.dtype = operation->broadcast.dtype,
                              .root = operation->broadcast.root,
                              .count = operation->broadcast.allocated ? 0 : operation->broadcast.count};
    case LS_OPERATION_ALL_GATHER:
        return (struct facts){.dtype = operation->all_gather.dtype,
                              .root = -1,
                              .counts = operation->all_gather.allocated ? NULL : operation->all_gather.counts};
    case LS_OPERATION_REDUCE_SCATTER:
        return (struct facts){
            operation->reduce_scatter.dtype, operation->reduce_scatter.op, operation->communication, -1, 0,
            operation->reduce_scatter.counts};
    case LS_OPERATION_ALL_TO_ALL:
        return (struct facts){.dtype = operation->all_to_all.dtype, .root = -1};
    default:
        return (struct facts){.root = -1, .count = operation->bytes};
    }
}

/* Each array has a name of its own, so that ranks whose lists differ find no match for one. */
static void write_frame(const struct ls_operation *operation, const struct ls_group *group, size_t index) {
    struct ls_call_part *part = &operation->parts[index];
    const struct facts facts = facts_of(operation);
    bool adds = operation->kind == LS_OPERATION_ALL_REDUCE;
    part->frame = (struct ls_frame){.count = adds ? part->frame.count : facts.count,
                                    .rank = ls_group_rank(group),
                                    .size = ls_group_size(group),
                                    .root = facts.root,
                                    .kind = (int32_t)kinds[operation->kind].frame,
                                    .op = (int32_t)facts.op,
                                    .dtype = (int32_t)facts.dtype,
                                    .communication = (int32_t)facts.communication};
    ls_frame_name(&part->frame, operation->name);
    if (index) part->frame.name_digest = ls_frame_digest(part->frame.name_digest, index);
    for (int rank = 0; facts.counts && rank < ls_group_size(group); rank++) {
        part->frame.count += facts.counts[rank];
        part->frame.layout = ls_frame_digest(part->frame.layout, facts.counts[rank]);
    }
    if (!adds) return;
    part->frame.total = operation->part_count;
    part->frame.compression = (int32_t)operation->all_reduce.compression;
    part->frame.prescale = ls_scale_factor(operation->all_reduce.prescale);
    part->frame.postscale = ls_scale_factor(operation->all_reduce.postscale);
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

size_t ls_operation_bytes(const struct ls_operation *operation, const struct ls_ranks *ranks) {
    const struct facts facts = facts_of(operation);
    size_t count = facts.counts ? facts.counts[ranks->rank] : facts.count;
    if (operation->kind == LS_OPERATION_SHARE) return 0;
    if (operation->kind == LS_OPERATION_BROADCAST) count = operation->broadcast.count;
    if (operation->kind == LS_OPERATION_ALL_GATHER && operation->all_gather.allocated)
        count = operation->all_gather.count;
    for (int rank = 0; operation->kind == LS_OPERATION_ALL_TO_ALL && rank < ranks->size; rank++)
        count += operation->all_to_all.counts[rank];
    for (size_t i = 0; operation->kind == LS_OPERATION_ALL_REDUCE && i < operation->part_count; i++)
        count += operation->parts[i].frame.count;
    return count * ls_dtype_size(facts.dtype);
}
