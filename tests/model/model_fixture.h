/* What the tests of model share: a network with blobs on cpu:0, a batch, a plan; and comparing. */
#pragma once
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/network.h"
#include "model/optimizer.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline void assert_ok(ls_status status) {
    ck_assert_msg(status == LS_OK, "%s: %s", ls_status_name(status), status ? ls_error() : "");
}

static inline void assert_fails(ls_status status, const char *piece) {
    ck_assert_int_eq(status, LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), piece) != NULL, "'%s' does not say '%s'", ls_error(), piece);
}

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
static inline void run_once(struct replica *replica, ls_loss loss) {
    struct ls_plan_config config = plan_config(replica, loss);
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(&config, &plan));
    assert_ok(ls_plan_run(plan, NULL, NULL));
    ls_plan_free(plan);
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
