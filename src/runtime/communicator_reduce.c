/* The all-reduces of a bare communicator: of one array, with options, and of several arrays. Horovod's allreduce and
 * grouped_allreduce. */
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "collective/all_reduce.h"
#include "collective/all_reduce_list.h"
#include "runtime/communicator.h"

static ls_status read_call(const ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                           const ls_all_reduce_options *options, struct ls_all_reduce *call) {
    ls_all_reduce_options copy;
    ls_status status = ls_options_copy("ls_all_reduce_options", &copy, sizeof(copy), options);
    if (status) return status;
    *call = (struct ls_all_reduce){.name = name,
                                   .communication = communicator->runtime->communication,
                                   .op = op,
                                   .dtype = dtype,
                                   .compression = copy.compression,
                                   .prescale = copy.prescale,
                                   .postscale = copy.postscale};
    return LS_OK;
}

ls_status ls_all_reduce_with(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                             const ls_all_reduce_options *options, const void *input, void *output, size_t count) {
    LS_NEED(communicator);
    struct ls_all_reduce call;
    ls_status status = read_call(communicator, name, op, dtype, options, &call);
    if (status) return status;
    call.count = count;
    call.inputs = &input;
    call.outputs = &output;
    int64_t begun = ls_track_begin(communicator->track);
    status = ls_group_all_reduce(communicator->runtime->group, &call);
    return ls_communicator_note(communicator, begun, "all-reduce", name, count * ls_dtype_size(dtype), status);
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

ls_status ls_all_reduce_group(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                              const ls_all_reduce_options *options, const void *const *inputs, void *const *outputs,
                              const size_t *counts, size_t n) {
    LS_NEED(communicator, inputs, outputs, counts);
    struct ls_all_reduce_list list = {.count = n, .counts = counts, .inputs = inputs, .outputs = outputs};
    ls_status status = read_call(communicator, name, op, dtype, options, &list.call);
    if (status) return status;
    int64_t begun = ls_track_begin(communicator->track);
    status = ls_group_all_reduce_list(communicator->runtime->group, &list);
    size_t sum = 0;
    for (size_t i = 0; counts && i < n; i++) sum += counts[i];
    return ls_communicator_note(communicator, begun, "all-reduce", name, sum * ls_dtype_size(dtype), status);
}
