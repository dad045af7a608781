/* Fixture of the tests of ops: a device, tensors of random numbers with a double copy, and comparing. */
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "device/device.h"
#include "device/mirror.h"
#include "harness.h"

#define TOLERANCE 1e-5 /* of the tensor's largest magnitude */

/* float32 on the device, and the same numbers in double for the oracle. */
struct pair {
    float *device;
    double *oracle;
    int64_t count;
};

/* LOCKSTEP_TEST_DEVICE, such as gpu:0; else the CPU. */
static inline struct ls_device *open_device(void) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    const char *name = getenv("LOCKSTEP_TEST_DEVICE");
    int count = 0;
    assert_ok(ls_devices_open(name ? name : "cpu:0", 1, devices, &count));
    ck_assert_int_eq(count, 1);
    assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
    return devices[0];
}

static inline struct pair make_pair(int64_t count) {
    struct pair pair = {ls_alloc_aligned((size_t)count * sizeof(float)), ls_alloc((size_t)count * sizeof(double)),
                        count};
    ck_assert(pair.device && pair.oracle);
    for (int64_t i = 0; i < count; i++) pair.device[i] = NAN, pair.oracle[i] = (double)NAN; /* must be overwritten */
    return pair;
}

/* Values repeat after a prime number of them: to draw takes longer than most ops. */
static inline struct pair make_random(uint64_t stream, int64_t count) {
    enum { DRAWN = 8191 };
    struct pair pair = make_pair(count);
    for (int64_t i = 0; i < count; i++) {
        pair.device[i] = i < DRAWN ? (float)ls_random_normal(7, stream, (uint64_t)i) : pair.device[i - DRAWN];
        pair.oracle[i] = (double)pair.device[i];
    }
    return pair;
}

static inline struct pair make_zeros(int64_t count) {
    struct pair pair = make_pair(count);
    memset(pair.device, 0, (size_t)count * sizeof(float));
    memset(pair.oracle, 0, (size_t)count * sizeof(double));
    return pair;
}

static inline void free_pair(struct pair *pair) {
    ls_free(pair->device);
    ls_free(pair->oracle);
}

static inline struct ls_tensor tensor(const struct pair *pair, ls_shape shape) {
    return (struct ls_tensor){pair->device, LS_FLOAT32, shape};
}

static inline void assert_close(const char *what, const float *values, const double *oracle, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(oracle[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)values[i] - oracle[i]) <= TOLERANCE * largest))
            ck_abort_msg("%s[%lld] is %.9g, but must be %.9g", what, (long long)i, (double)values[i], oracle[i]);
}

static inline void assert_pair(const char *what, const struct pair *pair) {
    assert_close(what, pair->device, pair->oracle, pair->count);
}

/* Builds, runs and discards. */
static inline ls_status run_op(struct ls_device *device, struct ls_op *op) {
    struct mirror mirror;
    ls_status status = mirror_build(&mirror, device, op);
    if (status) return status;
    status = mirror_run(&mirror);
    mirror_discard(&mirror);
    return status;
}
