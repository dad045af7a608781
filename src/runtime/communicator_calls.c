/* The collectives of a bare communicator, each as a call that returns when it has ended and as one that begins. */
#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "runtime/communicator.h"
#include "runtime/pending.h"

/* ---- all-reduce ---- */

static ls_status request_reduce(const ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                const ls_all_reduce_options *options, struct ls_operation *operation) {
    ls_all_reduce_options copy;
    ls_status status = ls_options_copy("ls_all_reduce_options", &copy, sizeof(copy), options);
    if (status) return status;
    *operation = (struct ls_operation){.kind = LS_OPERATION_ALL_REDUCE,
                                       .name = name,
                                       .reduce = {.name = name,
                                                  .communication = communicator->runtime->communication,
                                                  .op = op,
                                                  .dtype = dtype,
                                                  .compression = copy.compression,
                                                  .prescale = copy.prescale,
                                                  .postscale = copy.postscale}};
    return LS_OK;
}

ls_status ls_all_reduce_with(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                             const ls_all_reduce_options *options, const void *input, void *output, size_t count) {
    LS_NEED(communicator);
    struct ls_operation operation;
    ls_status status = request_reduce(communicator, name, op, dtype, options, &operation);
    if (status) return status;
    operation.only = (struct ls_call_part){.frame.count = count, .input = input, .output = output};
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_all_reduce_compressed(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                   ls_compression compression, const void *input, void *output, size_t count) {
    return ls_all_reduce_with(communicator, name, op, dtype, LS_ALL_REDUCE(.compression = compression), input, output,
                              count);
}

ls_status ls_all_reduce(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                        const void *input, void *output, size_t count) {
    return ls_all_reduce_with(communicator, name, op, dtype, NULL, input, output, count);
}

ls_status ls_all_reduce_begin(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                              const ls_all_reduce_options *options, const void *input, void *output, size_t count,
                              ls_pending **pending) {
    LS_NEED(communicator, pending);
    struct ls_operation operation;
    ls_status status = request_reduce(communicator, name, op, dtype, options, &operation);
    if (status) return status;
    operation.only = (struct ls_call_part){.frame.count = count, .input = input, .output = output};
    return ls_pending_begin(communicator, &operation, pending);
}

/* ---- all-reduce of several arrays ---- */

static ls_status request_group(const ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                               const ls_all_reduce_options *options, const void *const *inputs, void *const *outputs,
                               const size_t *counts, size_t n, struct ls_operation *operation) {
    ls_status status = request_reduce(communicator, name, op, dtype, options, operation);
    if (status) return status;
    size_t least = n ? n : 1; /* an empty group is one array of no elements: all ranks must call it */
    operation->part_count = least;
    operation->parts = ls_alloc_array(least, sizeof(struct ls_call_part));
    if (!operation->parts) return ls_fail_memory("a group of arrays", least * sizeof(struct ls_call_part));
    for (size_t i = 0; i < n; i++)
        operation->parts[i] = (struct ls_call_part){.frame.count = counts[i], .input = inputs[i], .output = outputs[i]};
    return LS_OK;
}

ls_status ls_all_reduce_group(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                              const ls_all_reduce_options *options, const void *const *inputs, void *const *outputs,
                              const size_t *counts, size_t n) {
    LS_NEED(communicator, inputs, outputs, counts);
    struct ls_operation operation;
    ls_status status = request_group(communicator, name, op, dtype, options, inputs, outputs, counts, n, &operation);
    if (status) return status;
    status = ls_communicator_make(communicator, &operation);
    ls_free(operation.parts);
    return status;
}

ls_status ls_all_reduce_group_begin(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                    const ls_all_reduce_options *options, const void *const *inputs,
                                    void *const *outputs, const size_t *counts, size_t n, ls_pending **pending) {
    LS_NEED(communicator, inputs, outputs, counts, pending);
    struct ls_operation operation;
    ls_status status = request_group(communicator, name, op, dtype, options, inputs, outputs, counts, n, &operation);
    return status ? status : ls_pending_begin(communicator, &operation, pending);
}

/* ---- the others ---- */

static struct ls_operation request_broadcast(const char *name, int root, ls_dtype dtype, void *data, size_t count) {
    return (struct ls_operation){.kind = LS_OPERATION_BROADCAST,
                                 .name = name,
                                 .reduce.dtype = dtype,
                                 .root = root,
                                 .count = count,
                                 .only.output = data};
}

ls_status ls_broadcast(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                       size_t count) {
    LS_NEED(communicator);
    struct ls_operation operation = request_broadcast(name, root, dtype, data, count);
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_broadcast_begin(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count, ls_pending **pending) {
    LS_NEED(communicator, pending);
    struct ls_operation operation = request_broadcast(name, root, dtype, data, count);
    return ls_pending_begin(communicator, &operation, pending);
}

static struct ls_operation request_gather(const char *name, ls_dtype dtype, const void *input, const size_t *counts,
                                          void *output) {
    return (struct ls_operation){.kind = LS_OPERATION_ALL_GATHER,
                                 .name = name,
                                 .reduce.dtype = dtype,
                                 .counts = counts,
                                 .only = {.input = input, .output = output}};
}

ls_status ls_all_gather(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                        const size_t *counts, void *output) {
    LS_NEED(communicator);
    struct ls_operation operation = request_gather(name, dtype, input, counts, output);
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_all_gather_begin(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                              const size_t *counts, void *output, ls_pending **pending) {
    LS_NEED(communicator, counts, pending);
    struct ls_operation operation = request_gather(name, dtype, input, counts, output);
    return ls_pending_begin(communicator, &operation, pending);
}

ls_status ls_reduce_scatter(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                            const void *input, const size_t *counts, void *output) {
    LS_NEED(communicator);
    struct ls_operation operation = {
        .kind = LS_OPERATION_REDUCE_SCATTER,
        .name = name,
        .reduce = {.communication = communicator->runtime->communication, .op = op, .dtype = dtype},
        .counts = counts,
        .only = {.input = input, .output = output}};
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_barrier(ls_communicator *communicator, const char *name) {
    LS_NEED(communicator);
    struct ls_operation operation = {.kind = LS_OPERATION_BARRIER, .name = name};
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_join(ls_communicator *communicator, int *last) {
    LS_NEED(communicator, last);
    if (!communicator->async)
        return ls_fail(LS_FAILED_PRECONDITION, "ls_join needs calls that are matched by name: all ranks call "
                                               "ls_communicator_negotiate first");
    struct ls_operation operation = {.kind = LS_OPERATION_JOIN, .name = "ls_join"};
    ls_status status = ls_communicator_make(communicator, &operation);
    if (!status) *last = operation.last;
    return status;
}
