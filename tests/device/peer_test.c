/* Devices of one process that take from each other's memory, by the plugin that LOCKSTEP_PLUGIN names: copies behind a
 * peer's mark, sums to the bit, and what is forwarded to the host. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/denormal.h"
#include "base/memory.h"
#include "base/random.h"
#include "device/gpu.h"
#include "harness.h"

enum { DEVICES = 2, COUNT = 20003, BYTES = COUNT * sizeof(float), GIVEN = 0, SUMMED = 1 };

static struct {
    struct ls_device *devices[DEVICES];
    float *own[DEVICES], *slot; /* device memory; slot: of the first */
    float *values[DEVICES], *sums, *back;
} at;

static const struct ls_device_queue_ops *queue_of(int i) {
    return at.devices[i]->ops->queue;
}

static float *new_far(struct ls_device *device) {
    void *memory = NULL;
    assert_ok(device->ops->allocate(device, BYTES, &memory));
    return memory;
}

static float *new_pinned(void) {
    void *memory = NULL;
    assert_ok(ls_device_allocate_host(at.devices[0], BYTES, &memory));
    return memory;
}

/* Each fourth sum is of denormals. */
static float value(uint64_t device, size_t i) {
    float normal = (float)ls_random_normal(3, device, i);
    return i % 4 ? normal : normal * 1e-39F;
}

static struct ls_device *open_device(const char *name) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_ok(ls_devices_open(name, 1, devices, &count));
    return devices[0];
}

/* A single GPU is opened twice. */
static void setup(void) {
    at.devices[0] = open_device("gpu:0");
    at.devices[1] = open_device(ls_gpu_kind.count() > 1 ? "gpu:1" : "gpu:0");
    (void)ls_denormals_keep();
    for (int d = 0; d < DEVICES; d++) {
        at.own[d] = new_far(at.devices[d]);
        at.values[d] = ls_alloc(BYTES);
        for (size_t i = 0; i < COUNT; i++) at.values[d][i] = value((uint64_t)d, i);
    }
    at.slot = new_far(at.devices[0]);
    at.sums = new_pinned();
    at.back = ls_alloc(BYTES);
}

static void teardown(void) {
    for (int d = 0; d < DEVICES; d++) assert_ok(ls_device_synchronize(at.devices[d]));
    at.devices[0]->ops->release(at.devices[0], at.slot);
    ls_device_release_host(at.devices[0], at.sums);
    ls_free(at.back);
    for (int d = 0; d < DEVICES; d++) {
        at.devices[d]->ops->release(at.devices[d], at.own[d]);
        ls_free(at.values[d]);
        ls_device_close(at.devices[d]);
    }
}

/* An op that writes the device's values as late as ops are done: halves are copied there, and it doubles them. */
static struct ls_op queue_values(int d) {
    struct ls_device *device = at.devices[d];
    struct ls_op op = {.kind = LS_OP_SCALE, .alpha = 2};
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] = (struct ls_tensor){at.own[d], LS_FLOAT32, LS_SHAPE(COUNT), 0};
    assert_ok(device->ops->build(device, &op));
    for (size_t i = 0; i < COUNT; i++) at.back[i] = at.values[d][i] * 0.5F;
    assert_ok(device->ops->copy_in(device, at.own[d], at.back, BYTES));
    assert_ok(op.run(&op));
    return op;
}

static void wait_for(int device, int mark) {
    bool done = false;
    for (int i = 0; i < 10000 && !done; i++) {
        assert_ok(queue_of(device)->sent(at.devices[device], mark, &done));
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    ck_assert(done);
}

/* Halving loses bits of denormals, and a far device's ops lose all. */
static void assert_sums(const float *sums) {
    for (size_t i = 0; i < COUNT; i++) {
        float wanted = at.values[0][i] + at.values[1][i];
        if (i % 4)
            ck_assert_msg(!memcmp(&sums[i], &wanted, sizeof(wanted)), "%zu: %a, not %a", i, (double)sums[i],
                          (double)wanted);
    }
}

/* own 0 += own 1, to the host and to both devices. waits: the first one for its own ops too, as it must. */
static void add_in_node(bool waits) {
    for (int d = 0; d < DEVICES; d++) assert_ok(queue_of(d)->send(at.devices[d], GIVEN, NULL, NULL, 0));
    if (waits) assert_ok(queue_of(0)->fetch(at.devices[0], NULL, at.devices[0], GIVEN, NULL, 0));
    assert_ok(queue_of(0)->fetch(at.devices[0], at.slot, at.devices[1], GIVEN, at.own[1], BYTES));
    assert_ok(queue_of(0)->add(at.devices[0], at.own[0], at.own[0], at.slot, COUNT));
    assert_ok(queue_of(0)->forward(at.devices[0], SUMMED, at.sums, at.own[0], BYTES));
    assert_ok(queue_of(1)->fetch(at.devices[1], at.own[1], at.devices[0], SUMMED, at.own[0], BYTES));
    wait_for(0, SUMMED);
}

TEST(sums_and_hands_out) {
    for (int round = 0; round < 3; round++) {
        struct ls_op ops[DEVICES];
        for (int d = 0; d < DEVICES; d++) ops[d] = queue_values(d);
        add_in_node(true);
        assert_sums(at.sums);
        for (int d = 0; d < DEVICES; d++) {
            assert_ok(queue_of(d)->settle(at.devices[d]));
            assert_ok(at.devices[d]->ops->copy_out(at.devices[d], at.back, at.own[d], BYTES));
            assert_sums(at.back);
            at.devices[d]->ops->discard(at.devices[d], &ops[d]);
        }
    }
}

/* As the host adds them. */
TEST(denormals_are_added) {
    for (int d = 0; d < DEVICES; d++)
        assert_ok(at.devices[d]->ops->copy_in(at.devices[d], at.own[d], at.values[d], BYTES));
    add_in_node(true);
    for (size_t i = 0; i < COUNT; i++) ck_assert(at.sums[i] == at.values[0][i] + at.values[1][i]);
    ck_assert(at.sums[4] != 0 && at.sums[4] < 1e-37F && at.sums[4] > -1e-37F);
}

/* Without waits an emulated GPU adds values that are not there yet, so a missing wait shows. */
TEST(a_missing_wait_shows) {
    struct ls_op ops[DEVICES];
    char text[2048] = "";
    ls_gpu_kind.describe(text, sizeof(text));
    if (!strstr(text, "emulated")) return;
    for (int d = 0; d < DEVICES; d++) ops[d] = queue_values(d);
    add_in_node(false);
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) wrong += at.sums[i] != at.values[0][i] + at.values[1][i];
    ck_assert_uint_gt(wrong, COUNT / 2);
    for (int d = 0; d < DEVICES; d++) {
        assert_ok(ls_device_synchronize(at.devices[d]));
        at.devices[d]->ops->discard(at.devices[d], &ops[d]);
    }
}

/* A device may be its own peer, and two devices may be one GPU. */
TEST(one_gpu_twice) {
    struct ls_device *again = open_device("gpu:0");
    assert_ok(at.devices[0]->ops->copy_in(at.devices[0], at.own[0], at.values[0], BYTES));
    assert_ok(queue_of(0)->send(at.devices[0], GIVEN, NULL, NULL, 0));
    assert_ok(queue_of(0)->fetch(at.devices[0], at.slot, at.devices[0], GIVEN, at.own[0], BYTES));
    float *third = new_far(again);
    assert_ok(queue_of(0)->forward(at.devices[0], SUMMED, NULL, NULL, 0));
    assert_ok(again->ops->queue->fetch(again, third, at.devices[0], SUMMED, at.slot, BYTES));
    assert_ok(again->ops->queue->settle(again));
    assert_ok(again->ops->copy_out(again, at.back, third, BYTES));
    ck_assert_int_eq(memcmp(at.back, at.values[0], BYTES), 0);
    again->ops->release(again, third);
    ls_device_close(again);
}

TESTS("peer", .seconds = 120, .before = setup, .after = teardown)
