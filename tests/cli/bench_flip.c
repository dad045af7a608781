/* Preloaded into lockstep bench by its test: one rank's results come out with one bit flipped, so that --check has
 * something to find. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include <lockstep/tools.h>

static void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) __builtin_trap();
    return function;
}

/* The last bit of the last element, on the last rank. */
static void flip(const ls_communicator *communicator, const char *name, ls_dtype dtype, void *data, size_t count) {
    unsigned char *last = (unsigned char *)data + count * ls_dtype_size(dtype);
    if (!strcmp(name, "bench") && count && ls_rank(communicator) == ls_size(communicator) - 1)
        last[-(ptrdiff_t)ls_dtype_size(dtype)] ^= 1;
}

/* The function that is preloaded over, on the same arguments. */
#define REAL(name, type)                                                                                               \
    ls_status (*real)(ls_communicator *, const type *);                                                                \
    *(void **)&real = next(#name);                                                                                     \
    ls_status status = real(communicator, call)

LS_API ls_status ls_all_reduce(ls_communicator *communicator, const ls_all_reduce_options *call) {
    REAL(ls_all_reduce, ls_all_reduce_options);
    if (!status) flip(communicator, call->name, call->dtype, call->output, call->count);
    return status;
}

LS_API ls_status ls_reduce_scatter(ls_communicator *communicator, const ls_reduce_scatter_options *call) {
    REAL(ls_reduce_scatter, ls_reduce_scatter_options);
    if (!status) flip(communicator, call->name, call->dtype, call->output, call->counts[ls_rank(communicator)]);
    return status;
}

LS_API ls_status ls_broadcast(ls_communicator *communicator, const ls_broadcast_options *call) {
    REAL(ls_broadcast, ls_broadcast_options);
    if (!status) flip(communicator, call->name, call->dtype, call->data, call->count);
    return status;
}

static size_t sum_of(const ls_communicator *communicator, const size_t *counts) {
    size_t sum = 0;
    for (int i = 0; i < ls_size(communicator); i++) sum += counts[i];
    return sum;
}

LS_API ls_status ls_all_gather(ls_communicator *communicator, const ls_all_gather_options *call) {
    REAL(ls_all_gather, ls_all_gather_options);
    if (!status) flip(communicator, call->name, call->dtype, call->output, sum_of(communicator, call->counts));
    return status;
}

LS_API ls_status ls_all_to_all(ls_communicator *communicator, const ls_all_to_all_options *call) {
    REAL(ls_all_to_all, ls_all_to_all_options);
    if (!status) flip(communicator, call->name, call->dtype, *call->allocated, sum_of(communicator, call->received));
    return status;
}

LS_API ls_status ls_receive(ls_communicator *communicator, const ls_receive_options *call) {
    REAL(ls_receive, ls_receive_options);
    if (!status) flip(communicator, call->name, call->dtype, call->data, call->count);
    return status;
}

/* A bit of the last element's last byte, on the last GPU. */
LS_API ls_status ls_tools_gpus_read(ls_tools_gpus *gpus, int index, void *data, size_t size) {
    int first, here, total;
    ls_status (*real)(ls_tools_gpus *, int, void *, size_t);
    *(void **)&real = next("ls_tools_gpus_read");
    ls_status status = real(gpus, index, data, size);
    ls_tools_gpus_count(gpus, &first, &here, &total);
    if (!status && size && first + index == total - 1) ((unsigned char *)data)[size - 1] ^= 1;
    return status;
}
