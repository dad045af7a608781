/* A GPU: its streams, and its memory. The memory is that of the driver's pool: allocating and releasing are queued as
 * all other work is, and released memory is kept for the next caller. */
#include <stdio.h>

#include "base/new.h"
#include "device/cuda/cuda.h"

ls_status ls_cuda_enter(const struct ls_cuda_device *device) {
    return ls_cuda_check(device, cudaSetDevice(device->index), "cudaSetDevice");
}

ls_status ls_cuda_join(struct ls_cuda_device *device, cudaStream_t earlier, cudaStream_t later) {
    (void)pthread_mutex_lock(&device->joining);
    cudaError_t error = cudaEventRecord(device->joint, earlier);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(later, device->joint, 0);
    (void)pthread_mutex_unlock(&device->joining);
    return ls_cuda_check(device, error, "ordering two streams");
}

/* ---- opening ---- */

/* Memory that was released stays with this process. */
static cudaError_t prepare_pool(int index) {
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, index);
    return error == cudaSuccess ? cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) : error;
}

ls_status ls_cuda_admit(const struct ls_cuda_device *device, const struct ls_cuda_device *peer) {
    cudaMemPool_t pool;
    int can = 0;
    const struct cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, peer->index}, cudaMemAccessFlagsProtReadWrite};
    if (peer->index == device->index) return LS_OK;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, peer->index, device->index);
    if (error == cudaSuccess && can) error = cudaDeviceGetDefaultMemPool(&pool, device->index);
    if (error == cudaSuccess && can) error = cudaMemPoolSetAccess(pool, &access, 1);
    return ls_cuda_check(device, error, "letting another GPU at its memory");
}

static cudaError_t open_streams(struct ls_cuda_device *device) {
    cudaError_t error = cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&device->sends, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&device->receives, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&device->joint, cudaEventDisableTiming);
    return error;
}

static ls_status open_parts(struct ls_cuda_device *device) {
    ls_status status = ls_cuda_enter(device);
    if (!status) status = ls_cuda_check(device, prepare_pool(device->index), "preparing the memory pool");
    if (!status) status = ls_cuda_check(device, open_streams(device), "making streams");
    if (!status) status = ls_cuda_fault_open(device);
    if (status) return status;
    cudaError_t error = cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, device->index);
    return ls_cuda_check(device, error, "counting multiprocessors");
}

static bool is_drained(struct ls_cuda_device *device) {
    cudaStream_t streams[] = {device->stream, device->sends, device->receives};
    for (int i = 0; i < 3 && !device->lost; i++)
        if (streams[i]) (void)ls_cuda_wait(device, streams[i], "closing");
    return !device->lost && !device->device.left;
}

/* Closes the device. Memory that a lost device, or NCCL, may still use is left to the end of the process: freeing it
 * could wait for ever. */
static void cuda_close(struct ls_device *base) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    cudaStream_t streams[] = {device->stream, device->sends, device->receives};
    (void)ls_cuda_enter(device);
    if (is_drained(device)) {
        ls_cuda_products_close(device);
        ls_cuda_fault_close(device);
    }
    for (int i = 0; i < LS_DEVICE_MARKS; i++)
        if (device->sent[i]) (void)cudaEventDestroy(device->sent[i]);
    for (int i = 0; i < LS_DEVICE_STAMPS; i++)
        if (device->stamps[i]) (void)cudaEventDestroy(device->stamps[i]);
    if (device->joint) (void)cudaEventDestroy(device->joint);
    for (int i = 0; i < 3; i++)
        if (streams[i]) (void)cudaStreamDestroy(streams[i]);
    (void)pthread_mutex_destroy(&device->joining);
    ls_free(device);
}

ls_status ls_cuda_open(int index, int threads, struct ls_device **device) {
    LS_NEW(struct ls_cuda_device, made, "a device");
    made->device = (struct ls_device){.ops = &ls_cuda_device_ops, .threads = threads > 0 ? threads : 1};
    (void)snprintf(made->device.name, sizeof(made->device.name), "gpu:%d", index);
    made->index = index;
    (void)pthread_mutex_init(&made->joining, NULL);
    ls_status status = open_parts(made);
    return LS_HAND_OVER(status, device, &made->device, cuda_close(&made->device));
}

/* The calling thread's device; its arithmetic stays as it is. */
static ls_status enter(struct ls_device *base, struct ls_thread_state *before) {
    *before = (struct ls_thread_state){0};
    return ls_cuda_enter((struct ls_cuda_device *)base);
}

static void leave(struct ls_device *base, const struct ls_thread_state *before) {
    (void)base, (void)before;
}

/* ---- memory ---- */

/* On the stream of ops; copies beside it may use the memory from now on too. */
static ls_status allocate_memory(struct ls_device *base, size_t size, void **memory) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    void *made = NULL;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    size_t bytes = size ? size : 1;
    cudaError_t error =
        bytes > SIZE_MAX / 2 ? cudaErrorMemoryAllocation : cudaMallocAsync(&made, bytes, device->stream);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return ls_fail(LS_RESOURCE_EXHAUSTED, "%s: no memory for a tensor or blob (%zu bytes)", base->name, size);
    }
    if (error == cudaSuccess) error = cudaMemsetAsync(made, 0, bytes, device->stream);
    status = ls_cuda_check(device, error, "allocating memory");
    if (!status) status = ls_cuda_join(device, device->stream, device->sends);
    if (!status) status = ls_cuda_join(device, device->stream, device->receives);
    if (!status) *memory = made;
    return status;
}

/* Behind all that has been queued, on any of the streams. */
static void release_memory(struct ls_device *base, void *memory) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    if (!memory || ls_cuda_enter(device)) return;
    if (ls_cuda_join(device, device->sends, device->stream) || ls_cuda_join(device, device->receives, device->stream))
        return;
    (void)cudaFreeAsync(memory, device->stream);
}

static bool is_pinned(const void *host) {
    struct cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, host) == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

/* CUDA reads pinned memory later. It has read other memory when the call returns, which may be long after; earlier work
 * is waited for here first then, since this wait has a limit. */
static ls_status copy_in(struct ls_device *base, void *to, const void *from, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = size ? ls_cuda_enter(device) : LS_OK;
    if (status || !size) return status;
    bool pinned = is_pinned(from);
    if (!pinned) status = ls_cuda_wait(device, device->stream, "computing");
    if (status) return status;
    cudaError_t error = cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, device->stream);
    status = ls_cuda_check(device, error, "copying to the device");
    return status ? status : ls_cuda_wait(device, device->stream, "copying to the device");
}

/* The same rules hold as for copy_in. */
static ls_status copy_out(struct ls_device *base, void *to, const void *from, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (!status) status = ls_cuda_wait(device, device->stream, "computing");
    if (status || !size) return status;
    cudaError_t error = cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, device->stream);
    status = ls_cuda_check(device, error, "copying from the device");
    return status ? status : ls_cuda_wait(device, device->stream, "copying from the device");
}

const struct ls_device_ops ls_cuda_device_ops = {.close = cuda_close,
                                                 .enter = enter,
                                                 .leave = leave,
                                                 .allocate = allocate_memory,
                                                 .release = release_memory,
                                                 .copy_in = copy_in,
                                                 .copy_out = copy_out,
                                                 .build = ls_cuda_build,
                                                 .discard = ls_cuda_discard,
                                                 .compile = ls_cuda_compile,
                                                 .queue = &ls_cuda_queue_ops};
