/* The emulation itself: that kernels compute, that nothing is done before somebody waits, and that it finds what it is
 * there to find. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/half.h"
#include "emulation_kernels.h"
#include "harness.h"

static void ok(cudaError_t error) {
    ck_assert_msg(error == cudaSuccess, "%s", cudaGetErrorName(error));
}

/* Streams end with their test. */
static cudaStream_t made[2];

static cudaStream_t new_stream(void) {
    cudaStream_t *stream = &made[made[0] != NULL];
    ok(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    return *stream;
}

static void end_streams(void) {
    for (int i = 0; i < 2; i++)
        if (made[i]) (void)cudaStreamDestroy(made[i]);
}

static float *new_memory(size_t count) {
    void *memory;
    ok(cudaMalloc(&memory, count * sizeof(float)));
    return memory;
}

static float *new_pinned(size_t count) {
    void *memory;
    ok(cudaHostAlloc(&memory, count * sizeof(float), 0));
    return memory;
}

TEST(kernels_run_late) {
    cudaStream_t stream = new_stream();
    float *far = new_memory(1000), *near = new_pinned(1000);
    near[0] = -1;
    ok(show_count(far, 1000, 0.5F, stream));
    ok(cudaMemcpyAsync(near, far, 4000, cudaMemcpyDeviceToHost, stream));
    ck_assert(near[0] == -1);
    ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorNotReady);
    ck_assert(near[0] == -1);
    ok(cudaStreamSynchronize(stream));
    for (int i = 0; i < 1000; i++) ck_assert(near[i] == (float)i + 0.5F);
    ok(cudaStreamQuery(stream));
    ok(cudaFree(far));
    ok(cudaFreeHost(near));
}

/* By shuffles and barriers, twice, for threads are run up and down by turns. */
TEST(a_kernel_sums_by_shuffles_and_barriers) {
    cudaStream_t stream = new_stream();
    float *x = new_memory(1024), *sums = new_memory(8), *near = new_pinned(8);
    ok(show_count(x, 1024, 0, stream));
    ok(show_sum(x, sums, 4, 1, stream));
    ok(show_sum(x, sums + 4, 4, 1, stream));
    ok(cudaMemcpyAsync(near, sums, 32, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    for (int b = 0; b < 8; b++) ck_assert(near[b] == (float)(256 * (b % 4) * 256 + 255 * 128));
}

/* A missing barrier shows: a block whose threads run up reads what is not written. */
TEST(a_missing_barrier_shows) {
    cudaStream_t stream = new_stream();
    float *x = new_memory(512), *sums = new_memory(2), *near = new_pinned(2);
    ok(show_count(x, 512, 0, stream));
    ok(show_sum(x, sums, 2, 0, stream));
    ok(cudaMemcpyAsync(near, sums, 8, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    ck_assert(isnan(near[0]) || isnan(near[1]));
}

TEST(types_are_converted) {
    cudaStream_t stream = new_stream();
    float *x = new_pinned(32), *y = new_pinned(64), *votes = new_pinned(3);
    for (int i = 0; i < 32; i++) x[i] = ((float)i - 15.5F) * 1.2345678F;
    ok(show_types(x, y, (unsigned *)(void *)votes, stream));
    ok(cudaStreamSynchronize(stream));
    for (int i = 0; i < 32; i++) {
        ck_assert(y[i] == ls_half_bfloat16_to_float(ls_half_bfloat16_from_float(x[i])));
        ck_assert(y[32 + i] == ls_half_to_float(ls_half_from_float(x[i])));
    }
    const unsigned *seen = (const unsigned *)(const void *)votes;
    ck_assert(seen[0] == 0xFFFF0000U && seen[1] == 31 && seen[2] == 31);
}

TEST(events_tell_times) {
    cudaStream_t stream = new_stream();
    cudaEvent_t before, after, untimed;
    float *far = new_memory(100), milliseconds = -1;
    ok(cudaEventCreateWithFlags(&before, cudaEventDefault)), ok(cudaEventCreateWithFlags(&after, cudaEventDefault));
    ok(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    ck_assert_int_eq(cudaEventElapsedTime(&milliseconds, before, after), cudaErrorInvalidResourceHandle);
    ok(cudaEventRecord(before, stream));
    ok(show_count(far, 100, 1, stream));
    ok(cudaEventRecord(after, stream)), ok(cudaEventRecord(untimed, stream));
    ck_assert_int_eq(cudaEventElapsedTime(&milliseconds, before, after), cudaErrorNotReady);
    ok(cudaStreamSynchronize(stream));
    ck_assert_int_eq(cudaEventElapsedTime(&milliseconds, before, untimed), cudaErrorInvalidResourceHandle);
    ok(cudaEventElapsedTime(&milliseconds, before, after));
    ck_assert(milliseconds > 0 && milliseconds < 10000);
    ok(cudaEventDestroy(before)), ok(cudaEventDestroy(after)), ok(cudaEventDestroy(untimed));
}

TEST(events_order_streams) {
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event;
    float *far = new_memory(100), *near = new_pinned(100);
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ok(cudaStreamWaitEvent(second, event, 0)); /* of nothing */
    ok(show_count(far, 100, 1, first));
    ok(cudaEventRecord(event, first));
    ok(show_count(far, 100, 2, first)); /* not waited for */
    ok(cudaStreamWaitEvent(second, event, 0));
    ok(cudaMemcpyAsync(near, far, 400, cudaMemcpyDeviceToHost, second));
    ok(cudaStreamSynchronize(second));
    ck_assert(near[7] == 8);
    ok(cudaEventQuery(event));
    ck_assert_int_eq(cudaStreamQuery(first), cudaErrorNotReady);
    ok(cudaStreamSynchronize(first));
    ok(cudaEventDestroy(event));
}

/* Pageable memory is read when the call is made, pinned memory later. */
TEST(pageable_memory_is_read_at_the_call) {
    cudaStream_t stream = new_stream();
    float pageable = 1, back[2] = {0}, *pinned = new_pinned(1), *far = new_memory(2);
    *pinned = 1;
    ok(cudaMemcpyAsync(far, &pageable, 4, cudaMemcpyHostToDevice, stream));
    ok(cudaMemcpyAsync(far + 1, pinned, 4, cudaMemcpyHostToDevice, stream));
    pageable = *pinned = 2;
    ok(cudaMemcpyAsync(back, far, 8, cudaMemcpyDeviceToHost, stream));
    ck_assert(back[0] == 1 && back[1] == 2);
}

TEST(a_captured_graph_is_replayed) {
    cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    float *far = new_memory(10), *near = new_pinned(10);
    ok(cudaMemsetAsync(far, 0, 40, stream));
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ok(show_count(far, 10, 3, stream));
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&ready, graph, 0));
    ok(cudaGraphDestroy(graph));
    ok(cudaMemcpyAsync(near, far, 40, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    ck_assert(near[1] == 0); /* captured, not done */
    ok(cudaGraphLaunch(ready, stream));
    ok(cudaGraphExecDestroy(ready));
    ok(cudaMemcpyAsync(near, far, 40, cudaMemcpyDeviceToHost, stream));
    ok(cudaStreamSynchronize(stream));
    ck_assert(near[1] == 4);
    void *memory;
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ck_assert_int_eq(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    ck_assert_ptr_null(graph);
}

TEST(misuse_is_refused) {
    cudaStream_t stream = new_stream();
    float *far = new_memory(10), near[10];
    ck_assert_int_eq(show_count(far, 10, 0, NULL), cudaErrorInvalidResourceHandle);
    ck_assert_int_eq(show_count(far, 0, 0, stream), cudaErrorInvalidConfiguration);
    ck_assert_int_eq(cudaMemcpyAsync(far, near, 44, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaMemcpyAsync(far, near, 40, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidValue);
    ck_assert_int_eq(cudaHostUnregister(near), cudaErrorHostMemoryNotRegistered);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    ok(cudaSetDevice(1));
    ck_assert_int_eq(show_count(far, 10, 0, stream), cudaErrorInvalidResourceHandle);
    ck_assert_int_eq(cudaSetDevice(2), cudaErrorInvalidDevice);
}

/* After a fault nothing works any more. */
TEST(nothing_works_after_a_fault) {
    cudaStream_t stream = new_stream();
    float *far = new_memory(10);
    (void)setenv("LOCKSTEP_EMULATED_FAULT", "2", 1);
    for (int i = 0; i < 3; i++) ok(show_count(far, 10, 0, stream));
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    ck_assert_int_eq(show_count(far, 10, 0, stream), cudaErrorIllegalAddress);
    ck_assert_int_eq(cudaFree(far), cudaErrorIllegalAddress);
}

/* ---- what ends the process; a sanitizer ends it after a wrong address in its own way ---- */

TEST_SIGNAL(a_host_read_of_device_memory_ends_the_process, SIGSEGV, !SANITIZED) {
    volatile float *far = new_memory(10);
    (void)far[0];
}

TEST_SIGNAL(a_write_far_past_the_end_ends_the_process, SIGSEGV, !SANITIZED) {
    cudaStream_t stream = new_stream();
    ok(show_count(new_memory(10), 10 + 1024, 0, stream));
    (void)cudaStreamSynchronize(stream);
}

TEST_SIGNAL(a_write_to_freed_memory_ends_the_process, SIGSEGV, !SANITIZED) {
    cudaStream_t stream = new_stream();
    float *far = new_memory(10);
    ok(cudaFree(far));
    ok(show_count(far, 10, 0, stream));
    (void)cudaStreamSynchronize(stream);
}

TEST_SIGNAL(a_write_just_past_the_end_ends_the_process, SIGABRT, 1) {
    cudaStream_t stream = new_stream();
    float *far = new_memory(10);
    ok(show_count(far, 11, 0, stream));
    ok(cudaStreamSynchronize(stream));
    (void)cudaFree(far);
}

TEST_SIGNAL(lanes_that_never_meet_end_the_process, SIGABRT, 1) {
    cudaStream_t stream = new_stream();
    ok(show_forgotten(stream));
    (void)cudaStreamSynchronize(stream);
}

TEST_SIGNAL(a_wrong_launch_ends_the_process, SIGABRT, 1) {
    cudaStream_t stream = new_stream();
    ok(show_wrong_launch(stream));
    (void)cudaStreamSynchronize(stream);
}

TESTS("emulation", .after = end_streams)
