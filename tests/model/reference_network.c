/* Walks the layers forward and backward with the reference ops; every tensor has memory of its own. */
#include "model/reference_network.h"

#include <stdlib.h>

#include "base/shape.h"
#include "device/reference.h"
#include "harness.h"

#define MAX_LAYERS 16

struct walk {
    const struct reference_network *run;
    const double *parameters;
    double *gradients;
    int64_t widths[MAX_LAYERS + 1];
    int first_variable[MAX_LAYERS];
    double *values[MAX_LAYERS + 1], *slopes[MAX_LAYERS + 1];
};

static double *new_array(int64_t count) {
    double *array = calloc((size_t)count, sizeof(double));
    ck_assert_ptr_nonnull(array);
    return array;
}

static void start(struct walk *walk) {
    const struct reference_network *run = walk->run;
    int variables = 0;
    ck_assert_uint_le(run->count, MAX_LAYERS);
    walk->widths[0] = ls_shape_count(&run->input);
    for (size_t i = 0; i < run->count; i++) {
        bool dense = run->layers[i].kind == LS_LAYER_DENSE;
        walk->widths[i + 1] = dense ? run->layers[i].units : walk->widths[i];
        walk->first_variable[i] = variables;
        variables += !dense ? 0 : run->layers[i].no_bias ? 1 : 2;
    }
    for (size_t i = 0; i <= run->count; i++) {
        walk->values[i] = new_array(run->rows * walk->widths[i]);
        walk->slopes[i] = new_array(run->rows * walk->widths[i]);
    }
    for (int64_t i = 0; i < run->rows * walk->widths[0]; i++) walk->values[0][i] = run->features[i];
}

static void finish(struct walk *walk) {
    for (size_t i = 0; i <= walk->run->count; i++) {
        free(walk->values[i]);
        free(walk->slopes[i]);
    }
}

static struct reference_dense dense_at(const struct walk *walk, size_t i) {
    bool biased = !walk->run->layers[i].no_bias;
    size_t kernel = ls_network_variable(walk->run->network, walk->first_variable[i])->offset;
    size_t bias = biased ? ls_network_variable(walk->run->network, walk->first_variable[i] + 1)->offset : 0;
    return (struct reference_dense){.rows = walk->run->rows,
                                    .in = walk->widths[i],
                                    .out = walk->widths[i + 1],
                                    .relu = walk->run->layers[i].activation == LS_RELU,
                                    .x = walk->values[i],
                                    .w = walk->parameters + kernel,
                                    .b = biased ? walk->parameters + bias : NULL,
                                    .y = walk->values[i + 1],
                                    .dy = walk->slopes[i + 1],
                                    .dx = walk->slopes[i],
                                    .dw = walk->gradients ? walk->gradients + kernel : NULL,
                                    .db = walk->gradients && biased ? walk->gradients + bias : NULL};
}

static bool is_relu(const ls_layer *layer) {
    return layer->kind == LS_LAYER_ACTIVATION && layer->activation == LS_RELU;
}

static void forward(struct walk *walk, size_t i) {
    int64_t count = walk->run->rows * walk->widths[i];
    if (walk->run->layers[i].kind == LS_LAYER_DENSE) {
        struct reference_dense dense = dense_at(walk, i);
        reference_dense_forward(&dense);
    } else if (is_relu(&walk->run->layers[i])) {
        reference_relu_forward(walk->values[i], walk->values[i + 1], count);
    } else {
        for (int64_t k = 0; k < count; k++) walk->values[i + 1][k] = walk->values[i][k];
    }
}

static void backward(struct walk *walk, size_t i) {
    int64_t count = walk->run->rows * walk->widths[i];
    if (walk->run->layers[i].kind == LS_LAYER_DENSE) {
        struct reference_dense dense = dense_at(walk, i);
        reference_dense_backward(&dense);
    } else if (is_relu(&walk->run->layers[i])) {
        reference_relu_backward(walk->values[i + 1], walk->slopes[i + 1], walk->slopes[i], count);
    } else {
        for (int64_t k = 0; k < count; k++) walk->slopes[i][k] = walk->slopes[i + 1][k];
    }
}

static double run_loss(struct walk *walk) {
    const struct reference_network *run = walk->run;
    int64_t classes = walk->widths[run->count];
    struct reference_loss loss = {.rows = run->rows,
                                  .classes = classes,
                                  .logits = walk->values[run->count],
                                  .labels = run->labels,
                                  .scale = run->scale,
                                  .dlogits = walk->slopes[run->count]};
    double *one_hot = new_array(run->rows * classes);
    reference_one_hot(run->labels, run->rows, classes, one_hot);
    if (run->loss == LS_CATEGORICAL_CROSSENTROPY) loss.one_hot = one_hot;
    double sum = reference_softmax_crossentropy(&loss).loss;
    free(one_hot);
    return sum * run->scale;
}

double reference_network_run(const struct reference_network *run, const double *parameters, double *gradients) {
    struct walk walk = {.run = run, .parameters = parameters, .gradients = gradients};
    start(&walk);
    for (size_t i = 0; i < run->count; i++) forward(&walk, i);
    double loss = run_loss(&walk);
    for (size_t i = gradients ? run->count : 0; i-- > 0;) backward(&walk, i);
    finish(&walk);
    return loss;
}
