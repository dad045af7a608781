/* Fixture of the tests of model: a network with blobs on cpu:0, a batch, a plan; and comparing. */
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/network.h"
#include "model/optimizer.h"
#include "harness.h"
#include "model/plan_run.h"

static inline struct ls_device *open_cpu(void) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_ok(ls_devices_open("cpu:0", 1, devices, &count));
    assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
    return devices[0];
}

/* One replica. Features are normal, labels uniform, parameters initialized with seed 1 and biases made non-zero. */
struct replica {
    struct ls_network *network;
    struct ls_device *device;
    ls_shape input;
    int64_t rows;
    size_t blob;
    float *parameters, *gradients, *features;
    int32_t *labels;
    float scale;
    struct ls_loss_sums sums;
};

static inline float *new_floats(int64_t count) {
    float *floats = ls_alloc_aligned((size_t)count * sizeof(float));
    ck_assert_ptr_nonnull(floats);
    return floats;
}

static inline void fill_batch(struct replica *replica) {
    int64_t width = ls_shape_count(&replica->input);
    for (int64_t i = 0; i < replica->rows * width; i++)
        replica->features[i] = (float)ls_random_normal(5, 1, (uint64_t)i);
    for (int64_t i = 0; i < replica->rows; i++)
        replica->labels[i] =
            (int32_t)(ls_random_bits(5, 2, (uint64_t)i) % (uint64_t)ls_network_outputs(replica->network));
}

static inline void fill_parameters(struct replica *replica) {
    ls_network_initialize(replica->network, 1, replica->parameters);
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        if (variable->initializer != LS_ZEROS) continue;
        for (size_t i = 0; i < variable->count; i++)
            replica->parameters[variable->offset + i] = 0.3F * (float)ls_random_normal(6, (uint64_t)v, i);
    }
}

static inline struct replica new_replica(const ls_layer *layers, size_t count, ls_shape input, int64_t rows) {
    struct replica replica = {.device = open_cpu(), .input = input, .rows = rows, .scale = 1 / (float)rows};
    assert_ok(ls_network_new(layers, count, &input, &replica.network));
    replica.blob = ls_network_blob_count(replica.network);
    replica.parameters = new_floats((int64_t)replica.blob);
    replica.gradients = new_floats((int64_t)replica.blob);
    replica.features = new_floats(rows * ls_shape_count(&input));
    replica.labels = ls_alloc_array((size_t)rows, sizeof(int32_t));
    ck_assert_ptr_nonnull(replica.labels);
    fill_batch(&replica);
    fill_parameters(&replica);
    return replica;
}

static inline void free_replica(struct replica *replica) {
    ls_free(replica->parameters);
    ls_free(replica->gradients);
    ls_free(replica->features);
    ls_free(replica->labels);
    ls_network_free(replica->network);
    ls_device_close(replica->device);
}

static inline struct ls_plan_config plan_config(struct replica *replica, ls_loss loss) {
    return (struct ls_plan_config){.network = replica->network,
                                   .device = replica->device,
                                   .rows = replica->rows,
                                   .training = true,
                                   .objective.loss = loss,
                                   .parameters = replica->parameters,
                                   .gradients = replica->gradients,
                                   .features = replica->features,
                                   .labels = replica->labels,
                                   .loss_scale = &replica->scale,
                                   .sums = &replica->sums};
}

/* Makes a plan, runs it once and frees it. */
static inline void run_plan(const struct ls_plan_config *config) {
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(config, &plan));
    assert_ok(ls_plan_run(plan, NULL, NULL));
    assert_ok(ls_device_synchronize(config->device));
    ls_plan_free(plan);
}

/* ---- the same on another device, with memory of its own ---- */

static inline void *copy_there(struct ls_device *device, const void *from, size_t size) {
    void *memory = NULL;
    assert_ok(device->ops->allocate(device, size, &memory));
    assert_ok(device->ops->copy_in(device, memory, from, size));
    return memory;
}

static inline void copy_back(struct ls_device *device, void *to, void *memory, size_t size) {
    assert_ok(device->ops->copy_out(device, to, memory, size));
    device->ops->release(device, memory);
}

/* The run's results are the replica's afterwards. */
static inline void run_on(struct ls_device *device, struct replica *replica, struct ls_plan_config config) {
    size_t blob = replica->blob * sizeof(float), rows = (size_t)replica->rows;
    size_t features = rows * (size_t)ls_shape_count(&replica->input) * sizeof(float);
    void *host = NULL;
    config.device = device;
    config.parameters = copy_there(device, replica->parameters, blob);
    config.gradients = copy_there(device, replica->gradients, blob);
    config.features = copy_there(device, replica->features, features);
    config.labels = copy_there(device, replica->labels, rows * sizeof(int32_t));
    assert_ok(ls_device_allocate_host(device, sizeof(replica->sums) + sizeof(replica->scale), &host));
    config.sums = host;
    float *scale = (float *)(config.sums + 1);
    *scale = replica->scale;
    config.loss_scale = scale;
    run_plan(&config);
    replica->sums = *config.sums;
    copy_back(device, replica->parameters, config.parameters, blob);
    copy_back(device, replica->gradients, config.gradients, blob);
    device->ops->release(device, (void *)(uintptr_t)config.features);
    device->ops->release(device, (void *)(uintptr_t)config.labels);
    assert_ok(ls_device_synchronize(device));
    ls_device_release_host(device, host);
}

/* Once, on LOCKSTEP_TEST_DEVICE where that is set: the batch as it is, training or not. */
static inline void run_config(struct replica *replica, const struct ls_plan_config *config) {
    const char *name = getenv("LOCKSTEP_TEST_DEVICE");
    struct ls_device *device = NULL;
    int count = 0;
    if (!name) {
        run_plan(config);
        return;
    }
    assert_ok(ls_devices_open(name, 1, &device, &count));
    assert_ok(device->ops->enter(device, &(struct ls_thread_state){0}));
    run_on(device, replica, *config);
    ls_device_close(device);
}

static inline void run_once(struct replica *replica, ls_loss loss) {
    struct ls_plan_config config = plan_config(replica, loss);
    run_config(replica, &config);
}

/* Of one run of training. */
static inline double loss_of(struct replica *replica) {
    run_once(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    return replica->sums.loss / (double)replica->rows;
}

/* On a CPU an evaluation has the loss of a training, to the bit. */
static inline void check_evaluation(struct replica *replica) {
    run_once(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    double trained = replica->sums.loss;
    struct ls_plan_config config = plan_config(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.training = false, config.gradients = NULL;
    replica->sums.loss = 0;
    if (!getenv("LOCKSTEP_TEST_DEVICE")) {
        run_plan(&config);
        ck_assert(replica->sums.loss == trained);
    }
}

/* This CPU's errors by those of one with AVX-512, which the tests name: a lane of a shorter vector adds more numbers
 * one after the other. With AVX2 errors were up to 3.1 times as large, without it up to 5.3 times. */
static inline double rounding(void) {
    return __builtin_cpu_supports("avx512f") ? 1 : __builtin_cpu_supports("avx2") ? 4 : 8;
}

/* Within tolerance of the largest magnitude among the wanted. */
static inline void assert_near(const char *what, const float *values, const float *wanted, int64_t count,
                               double tolerance) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)wanted[i]));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)values[i] - (double)wanted[i]) <= tolerance * largest,
                      "%s[%lld] is %.9g, but must be %.9g", what, (long long)i, (double)values[i], (double)wanted[i]);
}
