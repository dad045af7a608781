/* Copies between GPUs of a process, and sums of the copies. A copy goes straight if the two GPUs reach each other, else
 * through the driver's own staging. All of it is queued on receives. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels_elements.h"

#define KNOWN 64 /* devices, one bit each; devices beyond them are asked each time */

/* With device the current one. Memory of the pool is opened by the pool, all other memory by this. A GPU reaches so
 * many others only, where there is no switch; the driver copies from the rest as from those out of reach. */
static cudaError_t enable(const struct ls_cuda_device *device, const struct ls_cuda_device *peer) {
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, device->index, peer->index);
    if (error != cudaSuccess || !can) return error;
    error = cudaDeviceEnablePeerAccess(peer->index, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled && error != cudaErrorTooManyPeers) return error;
    (void)cudaGetLastError();
    return cudaSuccess;
}

/* Lets device at peer's memory, where it can. */
static ls_status open_way(struct ls_cuda_device *device, const struct ls_cuda_device *peer) {
    uint64_t bit = peer->index < KNOWN ? UINT64_C(1) << peer->index : 0;
    ls_status status = LS_OK;
    if (peer->index == device->index) return LS_OK;
    (void)pthread_mutex_lock(&device->joining);
    if (!(device->opened & bit)) {
        status = ls_cuda_check(device, enable(device, peer), "reaching for another GPU");
        if (!status) status = ls_cuda_admit(peer, device);
        if (!status) device->opened |= bit;
    }
    (void)pthread_mutex_unlock(&device->joining);
    return status;
}

static cudaError_t copy(struct ls_cuda_device *device, void *to, const struct ls_cuda_device *peer, const void *from,
                        size_t size) {
    if (peer->index == device->index)
        return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, device->receives);
    return cudaMemcpyPeerAsync(to, device->index, from, peer->index, size, device->receives);
}

ls_status ls_cuda_fetch(struct ls_device *base, void *to, const struct ls_device *from_device, int mark,
                        const void *from, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    const struct ls_cuda_device *peer = (const struct ls_cuda_device *)from_device;
    if (mark < 0 || mark >= LS_DEVICE_MARKS || !peer->sent[mark])
        return ls_fail(LS_INTERNAL, "%s: %s has no mark %d", base->name, from_device->name, mark);
    ls_status status = ls_cuda_enter(device);
    if (!status && size) status = open_way(device, peer);
    if (status) return status;
    cudaError_t error = cudaStreamWaitEvent(device->receives, peer->sent[mark], 0);
    if (error == cudaSuccess && size) error = copy(device, to, peer, from, size);
    return ls_cuda_check(device, error, "copying from another GPU");
}

ls_status ls_cuda_add_beside(struct ls_device *base, float *to, const float *a, const float *b, size_t count) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    const struct ls_cuda_elements elements = {.y = to, .x = a, .w = b, .dtype = LS_FLOAT32, .count = (int64_t)count};
    ls_status status = count ? ls_cuda_enter(device) : LS_OK;
    if (status || !count) return status;
    return ls_cuda_check(device, ls_cuda_add(&elements, device->receives), "adding what other GPUs have");
}
