/* A device that computes behind the calling threads: memory, copies beside the ops, host memory, errors and limits. On
 * LOCKSTEP_TEST_DEVICE, which is a GPU or an emulated one; then two of them, and what only an emulation can show. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "device/gpu.h"
#include "device/op_fixture.h"
#include "harness.h"

#define COUNT 100000
#define SIZE  (COUNT * sizeof(float))

static bool emulated(void) {
    char text[2048] = "";
    ls_gpu_kind.describe(text, sizeof(text));
    return strstr(text, "emulated") != NULL;
}

static float *new_pinned(struct ls_device *device, float first) {
    float *memory = new_host(device, "", SIZE);
    for (int i = 0; i < COUNT; i++) {
        ck_assert(memory[i] == 0);
        memory[i] = first + (float)i;
    }
    return memory;
}

static void wait_for(struct ls_device *device, int mark) {
    bool done = false;
    for (int i = 0; i < 10000 && !done; i++) {
        assert_ok(device->ops->queue->sent(device, mark, &done));
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    ck_assert(done);
}

static void assert_counts(const float *memory, float first) {
    for (int i = 0; i < COUNT; i++) ck_assert(memory[i] == first + (float)i);
}

TEST(copies_go_out_and_come_back) {
    struct ls_device *device = open_device();
    const struct ls_device_queue_ops *queue = device->ops->queue;
    float *far = new_far(device, SIZE), *in = new_pinned(device, 1), *out = new_pinned(device, 0);
    float *back = ls_alloc(SIZE);
    ck_assert(!device->host_memory && queue && back);
    for (int round = 0; round < 3; round++) {
        in[0] = 1;
        assert_ok(device->ops->copy_in(device, far, in, SIZE));
        in[0] = 99; /* it may be used again */
        assert_ok(queue->send(device, 7 * round, out, far, SIZE));
        wait_for(device, 7 * round);
        assert_counts(out, 1);
        for (int i = 0; i < COUNT; i++) out[i] += 5;
        assert_ok(queue->receive(device, far, out, SIZE));
        assert_ok(queue->settle(device));
        assert_ok(device->ops->copy_out(device, back, far, SIZE));
        assert_counts(back, 6);
    }
    assert_ok(ls_device_synchronize(device));
    ls_device_release_host(device, in), ls_device_release_host(device, out);
    device->ops->release(device, far);
    ls_free(back);
    ls_device_close(device);
}

/* A copy that waits for nobody has not come yet. Only an emulation is slow enough for that to be sure. */
TEST(a_copy_waits_only_when_asked) {
    struct ls_device *device = open_device();
    bool done = true;
    if (!emulated()) {
        ls_device_close(device);
        return;
    }
    float *far = new_far(device, SIZE), *in = new_pinned(device, 1), *back = ls_alloc(SIZE);
    assert_ok(ls_device_synchronize(device));
    assert_ok(device->ops->queue->receive(device, far, in, SIZE));
    assert_ok(device->ops->copy_out(device, back, far, SIZE)); /* not settled */
    ck_assert(back[5] == 0);
    assert_ok(device->ops->queue->send(device, 0, in, far, SIZE));
    assert_ok(device->ops->queue->sent(device, 0, &done));
    ck_assert(!done && in[5] == 6);
    assert_ok(device->ops->queue->settle(device));
    assert_ok(ls_device_synchronize(device));
    ls_device_release_host(device, in);
    device->ops->release(device, far);
    ls_free(back);
    ls_device_close(device);
}

/* A wait for the ops does not wait for data received beside them. */
TEST(a_wait_for_ops_skips_later_copies) {
    struct ls_device *device = open_device();
    float *far = new_far(device, SIZE), *beside = new_far(device, SIZE), *in = new_pinned(device, 1);
    float *back = ls_alloc(SIZE);
    assert_ok(ls_device_synchronize(device));
    assert_ok(device->ops->queue->receive(device, far, in, SIZE));
    assert_ok(device->ops->queue->settle(device));
    assert_ok(device->ops->queue->receive(device, beside, in, SIZE));
    assert_ok(ls_device_wait(device));
    if (emulated()) in[5] = 17; /* to be read later by the second one */
    assert_ok(ls_device_synchronize(device));
    assert_ok(device->ops->copy_out(device, back, far, SIZE));
    ck_assert(back[5] == 6);
    assert_ok(device->ops->copy_out(device, back, beside, SIZE));
    ck_assert(back[5] == (emulated() ? 17 : 6));
    ls_device_release_host(device, in);
    device->ops->release(device, far), device->ops->release(device, beside);
    ls_free(back);
    ls_device_close(device);
}

TEST(wrong_marks_are_refused) {
    struct ls_device *device = open_device();
    bool done;
    ck_assert_int_eq(device->ops->queue->sent(device, 3, &done), LS_INTERNAL);
    ck_assert_int_eq(device->ops->queue->sent(device, -1, &done), LS_INTERNAL);
    ck_assert_int_eq(device->ops->queue->send(device, LS_DEVICE_MARKS, NULL, NULL, 0), LS_INTERNAL);
    assert_ok(device->ops->queue->send(device, 3, NULL, NULL, 0)); /* of nothing */
    wait_for(device, 3);
    ls_device_close(device);
}

TEST(a_device_tells_its_times) {
    struct ls_device *device = open_device();
    const struct ls_device_queue_ops *queue = device->ops->queue;
    float *far = new_far(device, SIZE), *near = new_pinned(device, 0);
    int64_t all = -1, part = -1, none = -1;
    assert_ok(queue->stamp(device, 0));
    assert_ok(device->ops->copy_in(device, far, near, SIZE));
    assert_ok(queue->stamp(device, 5));
    assert_ok(device->ops->copy_in(device, far, near, SIZE));
    assert_ok(queue->stamp(device, LS_DEVICE_STAMPS - 1));
    assert_ok(queue->wait(device));
    assert_ok(queue->elapsed(device, 0, LS_DEVICE_STAMPS - 1, &all));
    assert_ok(queue->elapsed(device, 0, 5, &part));
    assert_ok(queue->elapsed(device, 5, 5, &none));
    ck_assert(part > 0 && part < all && all < 10 * LS_SECOND && none == 0);
    ck_assert_int_eq(queue->stamp(device, LS_DEVICE_STAMPS), LS_INTERNAL);
    ck_assert_int_eq(queue->elapsed(device, 0, 7, &all), LS_INTERNAL);
    queue->release_host(device, near);
    device->ops->release(device, far);
    ls_device_close(device);
}

TEST(pinned_memory_is_sent) {
    struct ls_device *device = open_device();
    float *memory = ls_alloc_aligned(SIZE), *far = new_far(device, SIZE);
    assert_ok(device->ops->queue->pin(device, memory, SIZE));
    assert_ok(device->ops->queue->pin(device, memory, SIZE)); /* another device has done it */
    memory[1] = 5;
    assert_ok(device->ops->queue->send(device, 1, memory, far, SIZE));
    wait_for(device, 1);
    ck_assert(memory[1] == 0);
    device->ops->queue->unpin(device, memory);
    device->ops->queue->unpin(device, memory);
    assert_ok(ls_device_synchronize(device));
    device->ops->release(device, far);
    ls_free(memory);
    ls_device_close(device);
}

/* Released memory is used again without a word to the driver, and zeroed again. */
TEST(released_memory_comes_back_zeroed) {
    struct ls_device *device = open_device();
    float *back = ls_alloc(SIZE);
    for (int i = 0; i < 20; i++) {
        float *far = new_far(device, SIZE);
        assert_ok(device->ops->copy_out(device, back, far, SIZE));
        ck_assert(back[0] == 0 && back[COUNT - 1] == 0);
        back[0] = back[COUNT - 1] = 3;
        assert_ok(device->ops->copy_in(device, far, back, SIZE));
        device->ops->release(device, far);
    }
    device->ops->release(device, NULL);
    device->ops->release(device, new_far(device, 0));
    assert_ok(ls_device_synchronize(device));
    ls_free(back);
    ls_device_close(device);
}

TEST(all_devices_open_and_compute) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_ok(ls_devices_open("gpu", 1, devices, &count));
    ck_assert_int_eq(count, ls_gpu_kind.count());
    for (int i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "gpu:%d", i);
        ck_assert_str_eq(devices[i]->name, name);
    }
    if (count > 1) {
        float *here = new_pinned(devices[0], 1), *far = new_far(devices[1], SIZE), *back = ls_alloc(SIZE);
        assert_ok(devices[1]->ops->queue->receive(devices[1], far, here, SIZE)); /* pinned by the first: known to all */
        assert_ok(devices[1]->ops->queue->settle(devices[1]));
        assert_ok(devices[1]->ops->copy_out(devices[1], back, far, SIZE));
        assert_counts(back, 1);
        devices[1]->ops->release(devices[1], far);
        ls_free(back);
        ls_device_release_host(devices[0], here);
    }
    for (int i = 0; i < count; i++) ls_device_close(devices[i]);
    assert_ok(ls_devices_open("auto", 1, devices, &count));
    ck_assert_str_eq(devices[0]->name, "gpu:0");
    for (int i = 0; i < count; i++) ls_device_close(devices[i]);
    char past[16];
    (void)snprintf(past, sizeof(past), "gpu:%d", count);
    assert_refused(ls_devices_open(past, 1, devices, &count), "the index is past the last one, gpu:");
}

TEST(a_device_describes_itself) {
    char text[2048] = "", print[512] = "", both[512] = "";
    struct ls_device *device = open_device();
    ls_gpu_kind.describe(text, sizeof(text));
    ck_assert_msg(strstr(text, "gpu:0 ") && strstr(text, "GiB, compute capability ") && strstr(text, "cuDNN "), "%s",
                  text);
    ls_gpu_fingerprint(print, sizeof(print));
    ck_assert_ptr_nonnull(strstr(print, " sm_"));
    ls_devices_fingerprint(&device, 1, both, sizeof(both));
    ck_assert_msg(strstr(both, print) && strstr(both, "oneDNN"), "%s", both);
    ls_device_close(device);
}

TEST(missing_memory_is_named) {
    struct ls_device *device = open_device();
    void *memory = NULL;
    assert_fails(device->ops->allocate(device, (size_t)1 << 46, &memory), LS_RESOURCE_EXHAUSTED,
                 "gpu:0: no memory for a tensor or blob (70368744177664 bytes)");
    assert_ok(ls_device_synchronize(device)); /* and nothing else is wrong */
    ls_device_close(device);
}

/* x = 2 x + 1 in place, on the device. */
static struct ls_op build_scale(struct ls_device *device, float *x) {
    struct ls_op op = {.kind = LS_OP_SCALE, .alpha = 2, .beta = 1};
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] = (struct ls_tensor){x, LS_FLOAT32, LS_SHAPE(COUNT)};
    assert_ok(device->ops->build(device, &op));
    ck_assert_uint_eq(op.workspace_size, 0);
    return op;
}

TEST(captured_ops_are_replayed) {
    struct ls_device *device = open_device();
    float *far = new_far(device, SIZE), *back = ls_alloc(SIZE);
    struct ls_op op = build_scale(device, far);
    struct ls_program *program = NULL;
    assert_ok(device->ops->compile(device, (const struct ls_op *[]){&op, &op}, 2, &program));
    assert_ok(device->ops->copy_out(device, back, far, SIZE));
    ck_assert(program && back[COUNT - 1] == 0); /* kept, not done */
    for (int i = 0; i < 3; i++) assert_ok(program->run(program));
    assert_ok(op.run(&op)); /* behind them */
    program->drop(program);
    assert_ok(device->ops->copy_out(device, back, far, SIZE));
    for (int i = 0; i < COUNT; i++) ck_assert(back[i] == 127); /* 2^7 - 1 */
    device->ops->discard(device, &op);
    device->ops->release(device, far);
    ls_free(back);
    ls_device_close(device);
}

static ls_status wait_in_program(const struct ls_op *op) {
    ls_status status = ls_device_synchronize(op->handle);
    ck_assert_int_eq(status, LS_INTERNAL);
    return LS_OK;
}

/* A call that may not be captured ends the capture, and nothing else. */
TEST(a_failed_capture_ends_alone) {
    struct ls_device *device = open_device();
    float *far = new_far(device, SIZE), *back = ls_alloc(SIZE);
    struct ls_op op = build_scale(device, far), waits = {.run = wait_in_program, .handle = device};
    struct ls_program *program = NULL;
    assert_fails(device->ops->compile(device, (const struct ls_op *[]){&op, &waits}, 2, &program), LS_INTERNAL,
                 "gpu:0: capturing ops: ");
    ck_assert_ptr_null(program);
    assert_ok(op.run(&op));
    assert_ok(device->ops->copy_out(device, back, far, SIZE));
    ck_assert(back[0] == 1);
    device->ops->discard(device, &op);
    device->ops->release(device, far);
    ls_free(back);
    ls_device_close(device);
}

/* Another thread's copies go on while one captures. */
static void *copy_beside(void *device) {
    float *far = new_far(device, SIZE), *near = new_pinned(device, 1);
    struct ls_device *used = device;
    assert_ok(used->ops->queue->receive(device, far, near, SIZE));
    assert_ok(used->ops->queue->send(device, 9, near, far, SIZE));
    wait_for(device, 9);
    assert_ok(ls_device_synchronize(device));
    ls_device_release_host(device, near);
    return far;
}

/* An op's handle. */
struct beside {
    struct ls_device *device;
    void *far;
};

static ls_status copy_in_program(const struct ls_op *op) {
    struct beside *beside = op->handle;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, copy_beside, beside->device), 0);
    ck_assert_int_eq(pthread_join(thread, &beside->far), 0);
    return LS_OK;
}

TEST(a_capture_allows_copies_of_another_device) {
    struct ls_device *devices[2];
    int count = 0;
    if (ls_gpu_kind.count() < 2) return;
    assert_ok(ls_devices_open("gpu:0,gpu:1", 1, devices, &count));
    float *far = new_far(devices[0], SIZE);
    struct beside beside = {devices[1], NULL};
    struct ls_op op = build_scale(devices[0], far), copies = {.run = copy_in_program, .handle = &beside};
    struct ls_program *program = NULL;
    assert_ok(devices[0]->ops->compile(devices[0], (const struct ls_op *[]){&op, &copies, &op}, 3, &program));
    program->drop(program);
    devices[0]->ops->discard(devices[0], &op);
    devices[0]->ops->release(devices[0], far);
    devices[1]->ops->release(devices[1], beside.far);
    for (int i = 0; i < 2; i++) {
        assert_ok(ls_device_synchronize(devices[i]));
        ls_device_close(devices[i]);
    }
}

TEST(the_op_that_failed_is_named) {
    (void)setenv("LOCKSTEP_CUDA_SYNC", "1", 1);
    struct ls_device *device = open_device();
    if (!emulated()) {
        ls_device_close(device);
        return;
    }
    struct ls_op op = build_scale(device, new_far(device, SIZE));
    assert_ok(op.run(&op));
    (void)setenv("LOCKSTEP_EMULATED_FAULT", "1", 1);
    ck_assert_int_eq(op.run(&op), LS_INTERNAL);
    ck_assert_str_eq(ls_error(), "gpu:0: scale: an illegal memory access was encountered (cudaErrorIllegalAddress)");
    device->ops->discard(device, &op);
    ls_device_close(device);
}

TEST(a_device_that_does_not_answer_is_given_up) {
    (void)setenv("LOCKSTEP_EMULATED_HANG", "1", 1);
    (void)setenv("LOCKSTEP_DEVICE_TIMEOUT", "0.2", 1);
    struct ls_device *device = open_device();
    if (!emulated()) {
        ls_device_close(device);
        return;
    }
    (void)new_far(device, 8);
    ck_assert_int_eq(ls_device_synchronize(device), LS_DEADLINE_EXCEEDED);
    ck_assert_str_eq(ls_error(), "gpu:0: computing has not ended for 0.2 s (LOCKSTEP_DEVICE_TIMEOUT)");
    ls_device_close(device); /* without another wait */
}

TEST(a_fault_is_told) {
    (void)setenv("LOCKSTEP_EMULATED_FAULT", "1", 1);
    struct ls_device *device = open_device();
    void *memory = NULL;
    if (!emulated()) {
        ls_device_close(device);
        return;
    }
    (void)new_far(device, 8);
    ck_assert_int_eq(ls_device_synchronize(device), LS_INTERNAL);
    ck_assert_str_eq(ls_error(),
                     "gpu:0: computing: an illegal memory access was encountered (cudaErrorIllegalAddress)");
    ck_assert_int_eq(device->ops->allocate(device, 8, &memory), LS_INTERNAL);
    ls_device_close(device);
}

TEST(an_unknown_op_is_refused) {
    struct ls_device *device = open_device();
    struct ls_op op = {.kind = LS_OP_KIND_COUNT};
    assert_refused(device->ops->build(device, &op), "is no ls_op_kind"); /* the plugin's messages are lockstep's */
    ls_device_close(device);
}

TESTS("queue", .seconds = 60)
