/* Copies and fills of memory, and graphs. */
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "streams.h"

struct copy {
    void *to;
    const void *from;
    size_t size;
    int value;
};

static int run_copy(void *work) {
    const struct copy *copy = work;
    memmove(copy->to, copy->from, copy->size);
    return 1;
}

static int run_kept(void *work) {
    const struct copy *copy = work;
    memcpy(copy->to, copy + 1, copy->size);
    return 1;
}

static int run_fill(void *work) {
    const struct copy *copy = work;
    memset(copy->to, copy->value, copy->size);
    return 1;
}

static bool suits(enum cudaMemcpyKind kind, enum ls_emulated_place to, enum ls_emulated_place from) {
    bool into = to == LS_EMULATED_DEVICE, out = from == LS_EMULATED_DEVICE;
    if (to == LS_EMULATED_BAD || from == LS_EMULATED_BAD) return false;
    return kind == cudaMemcpyDefault || kind == (into  ? out ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
                                                 : out ? cudaMemcpyDeviceToHost
                                                       : cudaMemcpyHostToHost);
}

/* From pageable memory: taken now. Into it: it is there when the call returns. */
static cudaError_t queue_copy(const struct copy *copy, enum cudaMemcpyKind kind, cudaStream_t stream) {
    enum ls_emulated_place to = ls_emulated_place_of(copy->to, copy->size);
    enum ls_emulated_place from = ls_emulated_place_of(copy->from, copy->size);
    cudaError_t error = ls_emulated_check_stream(stream, false);
    if (error != cudaSuccess) return error;
    bool pageable = to == LS_EMULATED_PAGEABLE || from == LS_EMULATED_PAGEABLE;
    if (!suits(kind, to, from)) return cudaErrorInvalidValue;
    if (pageable && ls_emulated_is_captured(stream)) return ls_emulated_refusal(false);
    if (from == LS_EMULATED_PAGEABLE) {
        struct copy *kept = malloc(sizeof(*kept) + copy->size);
        if (!kept) return cudaErrorMemoryAllocation;
        *kept = *copy;
        memcpy(kept + 1, copy->from, copy->size);
        error = ls_emulated_put(stream, run_kept, kept, sizeof(*kept) + copy->size);
        free(kept);
    } else {
        error = ls_emulated_put(stream, run_copy, copy, sizeof(*copy));
    }
    while (error == cudaSuccess && to == LS_EMULATED_PAGEABLE && !ls_emulated_drive(stream)) {
        error = ls_emulated_refusal(true);
        ls_emulated_yield();
    }
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    if (!size) return cudaSuccess;
    ls_emulated_lock();
    cudaError_t error = queue_copy(&(struct copy){to, from, size, 0}, kind, stream);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* Between two devices, each of which has all of its part. */
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
                                cudaStream_t stream) {
    if (!size) return cudaSuccess;
    ls_emulated_lock();
    bool there = ls_emulated_memory_device(to) == to_device && ls_emulated_memory_device(from) == from_device;
    cudaError_t error = there ? cudaSuccess : cudaErrorInvalidValue;
    if (error == cudaSuccess) error = queue_copy(&(struct copy){to, from, size, 0}, cudaMemcpyDeviceToDevice, stream);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    if (!size) return cudaSuccess;
    ls_emulated_lock();
    enum ls_emulated_place place = ls_emulated_place_of(to, size);
    bool there = place == LS_EMULATED_DEVICE || place == LS_EMULATED_PINNED;
    cudaError_t error = there ? cudaSuccess : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = ls_emulated_put(stream, run_fill, &(struct copy){to, NULL, size, value}, sizeof(struct copy));
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* ---- graphs: a graph and what is made of it are one list each ---- */

static struct ls_emulated_list *copy_list(const struct ls_emulated_list *from) {
    struct ls_emulated_list *list = calloc(1, sizeof(*list));
    for (const struct ls_emulated_item *item = from->first; list && item; item = item->next)
        ls_emulated_append(list, ls_emulated_item_new(item->run, item->work, item->size));
    return list;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    if (!graph || flags) return ls_emulated_answer(cudaErrorInvalidValue);
    *made = (cudaGraphExec_t)copy_list((const struct ls_emulated_list *)graph);
    return ls_emulated_answer(*made ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ls_emulated_free_list((struct ls_emulated_list *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    ls_emulated_free_list((struct ls_emulated_list *)graph);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
    (void)graph;
    ls_emulated_lock();
    cudaError_t error = ls_emulated_check_stream(stream, false);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    ls_emulated_lock();
    const struct ls_emulated_item *item = ((const struct ls_emulated_list *)graph)->first;
    for (; item && error == cudaSuccess; item = item->next)
        error = ls_emulated_put(stream, item->run, item->work, item->size);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}
