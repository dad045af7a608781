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

LS_API ls_status ls_all_reduce(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                               const void *input, void *output, size_t count) {
    ls_status (*real)(ls_communicator *, const char *, ls_reduce_op, ls_dtype, const void *, void *, size_t);
    *(void **)&real = next("ls_all_reduce");
    ls_status status = real(communicator, name, op, dtype, input, output, count);
    if (!status) flip(communicator, name, dtype, output, count);
    return status;
}

LS_API ls_status ls_reduce_scatter(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                   const void *input, const size_t *counts, void *output) {
    ls_status (*real)(ls_communicator *, const char *, ls_reduce_op, ls_dtype, const void *, const size_t *, void *);
    *(void **)&real = next("ls_reduce_scatter");
    ls_status status = real(communicator, name, op, dtype, input, counts, output);
    if (!status) flip(communicator, name, dtype, output, counts[ls_rank(communicator)]);
    return status;
}

LS_API ls_status ls_broadcast(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                              size_t count) {
    ls_status (*real)(ls_communicator *, const char *, int, ls_dtype, void *, size_t);
    *(void **)&real = next("ls_broadcast");
    ls_status status = real(communicator, name, root, dtype, data, count);
    if (!status) flip(communicator, name, dtype, data, count);
    return status;
}

LS_API ls_status ls_all_gather(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                               const size_t *counts, void *output) {
    ls_status (*real)(ls_communicator *, const char *, ls_dtype, const void *, const size_t *, void *);
    *(void **)&real = next("ls_all_gather");
    ls_status status = real(communicator, name, dtype, input, counts, output);
    size_t count = 0;
    for (int i = 0; i < ls_size(communicator); i++) count += counts[i];
    if (!status) flip(communicator, name, dtype, output, count);
    return status;
}

LS_API ls_status ls_all_to_all(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                               const size_t *send_counts, void **output, size_t *receive_counts) {
    ls_status (*real)(ls_communicator *, const char *, ls_dtype, const void *, const size_t *, void **, size_t *);
    *(void **)&real = next("ls_all_to_all");
    ls_status status = real(communicator, name, dtype, input, send_counts, output, receive_counts);
    size_t count = 0;
    for (int i = 0; i < ls_size(communicator); i++) count += receive_counts[i];
    if (!status) flip(communicator, name, dtype, *output, count);
    return status;
}

LS_API ls_status ls_receive(ls_communicator *communicator, const char *name, int from, ls_dtype dtype, void *data,
                            size_t count) {
    ls_status (*real)(ls_communicator *, const char *, int, ls_dtype, void *, size_t);
    *(void **)&real = next("ls_receive");
    ls_status status = real(communicator, name, from, dtype, data, count);
    if (!status) flip(communicator, name, dtype, data, count);
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
