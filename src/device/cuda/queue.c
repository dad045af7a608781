/* Work of a GPU behind the calling threads: waits for it, host memory that it reaches, and copies beside the ops. */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "device/cuda/cuda.h"

/* ---- waiting ---- */

#define EAGER     (50 * LS_MICROSECOND)  /* asks without a pause */
#define NEAR      (150 * LS_MICROSECOND) /* likewise, before and after the time that the last wait took */
#define PAUSE     (20 * LS_MICROSECOND)  /* the first one, */
#define PAUSE_MAX (500 * LS_MICROSECOND) /* and the longest */

cudaError_t ls_cuda_answer(cudaError_t error) {
    if (error == cudaErrorNotReady) (void)cudaGetLastError();
    return error;
}

/* NotReady, Success, or an error. cudaStreamSynchronize has no limit, so the stream is asked. Pauses double up to half
 * a millisecond. There are none in the first 50 microseconds, nor about the time that the last wait took: a step takes
 * as long as the one before, and its end is seen at once. */
static cudaError_t poll_stream(cudaStream_t stream, int64_t deadline, int64_t usual) {
    int64_t began = ls_now(), pause = PAUSE;
    for (;;) {
        cudaError_t error = ls_cuda_answer(cudaStreamQuery(stream));
        int64_t now = ls_now(), taken = now - began, early = usual - NEAR - taken;
        if (error != cudaErrorNotReady || now >= deadline) return error;
        if (taken < EAGER || (early <= 0 && taken < usual + NEAR)) {
            (void)sched_yield();
            continue;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)(early > 0 && early < pause ? early : pause)}, NULL);
        pause = 2 * pause < PAUSE_MAX ? 2 * pause : PAUSE_MAX;
    }
}

ls_status ls_cuda_wait(struct ls_cuda_device *device, cudaStream_t stream, const char *what) {
    double limit = ls_cuda_host()->timeout;
    int64_t began = ls_now(), usual = stream == device->stream ? atomic_load(&device->usual_wait) : 0;
    cudaError_t error = poll_stream(stream, device->lost ? began : ls_deadline_in(limit), usual);
    int64_t taken = ls_now() - began;
    if (stream == device->stream && taken > EAGER) atomic_store(&device->usual_wait, taken);
    if (error == cudaSuccess) return LS_OK;
    if (error != cudaErrorNotReady) return ls_cuda_check(device, error, what);
    device->lost = true;
    return ls_fail(LS_DEADLINE_EXCEEDED, "%s: %s has not ended for %g s (LOCKSTEP_DEVICE_TIMEOUT)", device->device.name,
                   what, limit);
}

static ls_status synchronize(struct ls_device *base) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (!status) status = ls_cuda_wait(device, device->stream, "computing");
    if (!status) status = ls_cuda_wait(device, device->sends, "copying from the device");
    if (!status) status = ls_cuda_wait(device, device->receives, "copying to the device");
    return status ? status : ls_cuda_fault_report(device);
}

static ls_status wait_for_ops(struct ls_device *base) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (!status) status = ls_cuda_wait(device, device->stream, "computing");
    return status ? status : ls_cuda_fault_report(device);
}

/* ---- memory ---- */

static ls_status find_peak(struct ls_device *base, size_t *bytes) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    cudaMemPool_t pool;
    uint64_t most = 0;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device->index);
    if (error == cudaSuccess) error = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most);
    status = ls_cuda_check(device, error, "asking for the most memory that was used");
    if (!status) *bytes = (size_t)most;
    return status;
}

static ls_status find_available(struct ls_device *base, size_t *bytes) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    size_t total;
    ls_status status = ls_cuda_enter(device);
    return status ? status : ls_cuda_check(device, cudaMemGetInfo(bytes, &total), "asking for free memory");
}

static ls_status allocate_host(struct ls_device *base, size_t size, void **memory) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    void *made = NULL;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaHostAlloc(&made, size ? size : 1, cudaHostAllocPortable | cudaHostAllocMapped);
    status = ls_cuda_check(device, error, "allocating pinned host memory");
    if (status) return status;
    memset(made, 0, size);
    *memory = made;
    return LS_OK;
}

/* CUDA waits for running work before it gives up pinned memory: a GPU that is lost keeps it, ... */
static bool is_lost(struct ls_device *base) {
    return ((struct ls_cuda_device *)base)->lost;
}

/* ... and so does one on which NCCL may run for ever. */
static void release_host(struct ls_device *base, void *memory) {
    if (!memory || is_lost(base) || base->left || ls_cuda_enter((struct ls_cuda_device *)base)) return;
    (void)cudaFreeHost(memory);
}

/* Memory that another device of this process has pinned is pinned for all. */
static ls_status pin(struct ls_device *base, void *memory, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (status || !size) return status;
    cudaError_t error = cudaHostRegister(memory, size, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaErrorHostMemoryAlreadyRegistered) return ls_cuda_check(device, error, "pinning host memory");
    (void)cudaGetLastError();
    return LS_OK;
}

static void unpin(struct ls_device *base, void *memory) {
    if (is_lost(base) || ls_cuda_enter((struct ls_cuda_device *)base)) return;
    if (cudaHostUnregister(memory) != cudaSuccess) (void)cudaGetLastError();
}

/* ---- copies beside the ops ---- */

static ls_status make_mark(struct ls_cuda_device *device, int mark) {
    if (mark < 0 || mark >= LS_DEVICE_MARKS)
        return ls_fail(LS_INTERNAL, "%s: mark %d is none", device->device.name, mark);
    if (device->sent[mark]) return LS_OK;
    cudaError_t error = cudaEventCreateWithFlags(&device->sent[mark], cudaEventDisableTiming);
    return ls_cuda_check(device, error, "making an event");
}

struct sending {
    cudaStream_t behind;
    int mark;
    void *host;
    const void *from;
    size_t size;
};

/* A mark alone waits for nothing that is still to be copied. Copies run on streams of their own, sends and receives, so
 * the copy engines work beside the kernels. An event orders a copy behind the ops that were queued before it, and
 * behind no later ones. */
static ls_status send_behind(struct ls_cuda_device *device, const struct sending *sending) {
    cudaStream_t stream = sending->size ? device->sends : sending->behind;
    ls_status status = ls_cuda_enter(device);
    if (!status) status = make_mark(device, sending->mark);
    if (!status && sending->size) status = ls_cuda_join(device, sending->behind, stream);
    if (status) return status;
    cudaError_t error = cudaSuccess;
    if (sending->size)
        error = cudaMemcpyAsync(sending->host, sending->from, sending->size, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaEventRecord(device->sent[sending->mark], stream);
    return ls_cuda_check(device, error, "copying from the device");
}

static ls_status begin_send(struct ls_device *base, int mark, void *host, const void *from, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    return send_behind(device, &(struct sending){device->stream, mark, host, from, size});
}

static ls_status begin_forward(struct ls_device *base, int mark, void *host, const void *from, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    return send_behind(device, &(struct sending){device->receives, mark, host, from, size});
}

static ls_status is_sent(struct ls_device *base, int mark, bool *done) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    if (mark < 0 || mark >= LS_DEVICE_MARKS || !device->sent[mark])
        return ls_fail(LS_INTERNAL, "%s: nothing was sent with mark %d", base->name, mark);
    cudaError_t error = ls_cuda_answer(cudaEventQuery(device->sent[mark]));
    if (error != cudaErrorNotReady) status = ls_cuda_check(device, error, "computing, or copying from the device");
    if (!status) *done = error == cudaSuccess;
    return status;
}

static ls_status begin_receive(struct ls_device *base, void *to, const void *host, size_t size) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (status || !size) return status;
    cudaError_t error = cudaMemcpyAsync(to, host, size, cudaMemcpyHostToDevice, device->receives);
    return ls_cuda_check(device, error, "copying to the device");
}

static ls_status settle_receives(struct ls_device *base) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    return status ? status : ls_cuda_join(device, device->receives, device->stream);
}

/* ---- times ---- */

static ls_status stamp(struct ls_device *base, int number) {
    struct ls_cuda_device *device = (struct ls_cuda_device *)base;
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    if (number < 0 || number >= LS_DEVICE_STAMPS)
        return ls_fail(LS_INTERNAL, "%s: stamp %d is none", base->name, number);
    cudaEvent_t *event = &device->stamps[number];
    cudaError_t error = *event ? cudaSuccess : cudaEventCreateWithFlags(event, cudaEventDefault);
    if (error == cudaSuccess) error = cudaEventRecord(*event, device->stream);
    return ls_cuda_check(device, error, "noting the time");
}

static ls_status elapsed(struct ls_device *base, int from, int to, int64_t *nanoseconds) {
    const struct ls_cuda_device *device = (const struct ls_cuda_device *)base;
    float milliseconds = 0;
    cudaError_t error = cudaEventElapsedTime(&milliseconds, device->stamps[from], device->stamps[to]);
    ls_status status = ls_cuda_check(device, ls_cuda_answer(error), "reading the time");
    if (!status) *nanoseconds = (int64_t)((double)milliseconds * LS_MILLISECOND);
    return status;
}

const struct ls_device_queue_ops ls_cuda_queue_ops = {.synchronize = synchronize,
                                                      .wait = wait_for_ops,
                                                      .allocate_host = allocate_host,
                                                      .release_host = release_host,
                                                      .peak = find_peak,
                                                      .available = find_available,
                                                      .pin = pin,
                                                      .unpin = unpin,
                                                      .send = begin_send,
                                                      .sent = is_sent,
                                                      .receive = begin_receive,
                                                      .fetch = ls_cuda_fetch,
                                                      .add = ls_cuda_add_beside,
                                                      .forward = begin_forward,
                                                      .settle = settle_receives,
                                                      .stamp = stamp,
                                                      .elapsed = elapsed};
