/* Replicas with weights and inputs that are functions of their names, as record_images.py has them. */
#pragma once
#include <stdio.h>

#include "model/model_fixture.h"

static inline double draw(const char *name, int64_t i) {
    return 2 * ((double)(ls_random_bits(1, ls_random_stream(name), (uint64_t)i) >> 11) * 0x1p-53) - 1;
}

static inline bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), own = strlen(end);
    return length >= own && !strcmp(name + length - own, end);
}

static inline void fill_variable(const struct ls_network_variable *variable, float *values) {
    const ls_shape *shape = &variable->shape;
    int64_t last = shape->dims[shape->rank - 1];
    double fan_in = 12;
    if (ends_with(variable->name, "/kernel")) fan_in = (double)(ls_shape_count(shape) / last);
    if (ends_with(variable->name, "/kernel") && shape->rank == 4 && last == 1)
        fan_in = (double)(shape->dims[0] * shape->dims[1]);
    bool positive = ends_with(variable->name, "/gamma") || ends_with(variable->name, "/moving_variance");
    for (size_t i = 0; i < variable->count; i++) {
        double drawn = draw(variable->name, (int64_t)i);
        values[i] = (float)(positive ? 1 + 0.5 * drawn : drawn * sqrt(3 / fan_in));
    }
}

/* The batch is the recorded one, so many times over: means over the batch do not change with that. */
static inline struct replica repeated_replica(const ls_layer *layers, size_t count, ls_shape input, int64_t rows,
                                              int64_t times) {
    struct replica replica = new_replica(layers, count, input, rows * times);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        fill_variable(variable, replica.parameters + variable->offset);
    }
    int64_t floats = rows * ls_shape_count(&input);
    for (int64_t i = 0; i < floats; i++) replica.features[i] = 2 * (float)(draw("x", i) * sqrt(3.0 / 12));
    for (int64_t i = floats; i < times * floats; i++) replica.features[i] = replica.features[i - floats];
    for (int64_t i = 0; i < rows * times; i++)
        replica.labels[i] = (int32_t)(i % rows * 7 % ls_network_outputs(replica.network));
    return replica;
}

static inline struct replica keras_replica(const ls_layer *layers, size_t count, ls_shape input, int64_t rows) {
    return repeated_replica(layers, count, input, rows, 1);
}

static inline struct replica new_application(const char *name, float alpha, ls_shape input, int64_t rows) {
    ls_layer *layers = NULL;
    size_t count = 0;
    int classes = strcmp(name, "lenet") ? 2 : 10;
    assert_ok(ls_application(name, LS_APPLICATION(.classes = classes, .alpha = alpha), &layers, &count));
    struct replica replica = keras_replica(layers, count, input, rows);
    ls_free(layers);
    return replica;
}

/* Length, and length along a direction that follows from the name: see record_images.py. */
static inline void measure(const struct ls_network_variable *variable, const float *values, double lengths[2]) {
    double squares = 0, product = 0, norm = 0;
    char name[128];
    (void)snprintf(name, sizeof(name), "direction/%s", variable->name);
    for (size_t i = 0; i < variable->count; i++) {
        double along = draw(name, (int64_t)i);
        squares += (double)values[i] * (double)values[i];
        product += (double)values[i] * along;
        norm += along * along;
    }
    lengths[0] = sqrt(squares);
    lengths[1] = product / sqrt(norm);
}

/* Trainable ones first. */
static inline int by_name(const void *a, const void *b) {
    const struct ls_network_variable *const *left = a, *const *right = b;
    if ((*left)->trained != (*right)->trained) return (*left)->trained ? -1 : 1;
    return strcmp((*left)->name, (*right)->name);
}
