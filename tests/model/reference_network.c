/* Walks the layers forward and backward with the reference ops; every tensor has memory of its own. */
#include "model/reference_network.h"

#include <stdlib.h>

#include "base/shape.h"
#include "device/reference.h"
#include "device/reference_image.h"
#include "device/reference_position.h"
#include "harness.h"
#include "model/layer.h"

#define MAX_LAYERS 16

struct walk {
    const struct reference_network *run;
    const double *parameters;
    double *gradients;
    int64_t widths[MAX_LAYERS + 1];
    int first_variable[MAX_LAYERS];
    double *values[MAX_LAYERS + 1], *slopes[MAX_LAYERS + 1];
    double *before[MAX_LAYERS]; /* the activation of a dense layer */
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
        variables += ls_network_node(run->network, i)->variable_count;
    }
    for (size_t i = 0; i <= run->count; i++) {
        walk->values[i] = new_array(run->rows * walk->widths[i]);
        walk->slopes[i] = new_array(run->rows * walk->widths[i]);
        if (i) walk->before[i - 1] = new_array(run->rows * walk->widths[i]);
    }
    for (int64_t i = 0; i < run->rows * walk->widths[0]; i++) walk->values[0][i] = run->features[i];
}

static void finish(struct walk *walk) {
    for (size_t i = 0; i <= walk->run->count; i++) {
        free(walk->values[i]);
        free(walk->slopes[i]);
        if (i) free(walk->before[i - 1]);
    }
}

static bool is_smooth(const ls_layer *layer) {
    return layer->activation != LS_LINEAR && layer->activation != LS_RELU;
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
                                    .y = is_smooth(&walk->run->layers[i]) ? walk->before[i] : walk->values[i + 1],
                                    .dy = walk->slopes[i + 1],
                                    .dx = walk->slopes[i],
                                    .dw = walk->gradients ? walk->gradients + kernel : NULL,
                                    .db = walk->gradients && biased ? walk->gradients + bias : NULL};
}

static bool is_norm(const ls_layer *layer) {
    return layer->kind == LS_LAYER_LAYER_NORMALIZATION || layer->kind == LS_LAYER_RMS_NORMALIZATION;
}

/* Of the model's input, or of what a dense layer gives. */
static struct reference_layer_norm norm_at(const struct walk *walk, size_t i) {
    const struct ls_node *node = ls_network_node(walk->run->network, i);
    const ls_layer *layer = &walk->run->layers[i];
    bool centered = layer->kind == LS_LAYER_LAYER_NORMALIZATION;
    int64_t columns = i ? walk->widths[i] : walk->run->input.dims[walk->run->input.rank - 1];
    size_t offsets[2] = {0};
    bool has[2] = {!layer->no_scale, centered && !layer->no_center};
    for (int k = 0; k < node->variable_count; k++)
        offsets[has[0] ? k : 1] = ls_network_variable(walk->run->network, walk->first_variable[i] + k)->offset;
    return (struct reference_layer_norm){.rows = walk->run->rows * walk->widths[i] / columns,
                                         .columns = columns,
                                         .centered = centered,
                                         .epsilon = layer->epsilon > 0 ? (double)layer->epsilon
                                                    : centered         ? 1e-3
                                                                       : 1e-6,
                                         .x = walk->values[i],
                                         .gamma = has[0] ? walk->parameters + offsets[0] : NULL,
                                         .beta = has[1] ? walk->parameters + offsets[1] : NULL,
                                         .y = walk->values[i + 1],
                                         .dy = walk->slopes[i + 1],
                                         .dx = walk->slopes[i],
                                         .dgamma = walk->gradients && has[0] ? walk->gradients + offsets[0] : NULL,
                                         .dbeta = walk->gradients && has[1] ? walk->gradients + offsets[1] : NULL};
}

static void dense_forward(struct walk *walk, size_t i) {
    struct reference_dense dense = dense_at(walk, i);
    const ls_layer *layer = &walk->run->layers[i];
    reference_dense_forward(&dense);
    for (int64_t k = 0; is_smooth(layer) && k < dense.rows * dense.out; k++)
        walk->values[i + 1][k] = reference_activation(layer->activation, walk->before[i][k]);
}

static void dense_backward(struct walk *walk, size_t i) {
    struct reference_dense dense = dense_at(walk, i);
    const ls_layer *layer = &walk->run->layers[i];
    for (int64_t k = 0; is_smooth(layer) && k < dense.rows * dense.out; k++)
        walk->slopes[i + 1][k] *= reference_activation_slope(layer->activation, walk->before[i][k]);
    reference_dense_backward(&dense);
}

static void forward(struct walk *walk, size_t i) {
    int64_t count = walk->run->rows * walk->widths[i];
    const ls_layer *layer = &walk->run->layers[i];
    if (layer->kind == LS_LAYER_DENSE) {
        dense_forward(walk, i);
    } else if (is_norm(layer)) {
        struct reference_layer_norm norm = norm_at(walk, i);
        reference_layer_norm_forward(&norm);
    } else {
        for (int64_t k = 0; k < count; k++)
            walk->values[i + 1][k] = reference_activation(layer->activation, walk->values[i][k]);
    }
}

static void backward(struct walk *walk, size_t i) {
    int64_t count = walk->run->rows * walk->widths[i];
    const ls_layer *layer = &walk->run->layers[i];
    if (layer->kind == LS_LAYER_DENSE) {
        dense_backward(walk, i);
    } else if (is_norm(layer)) {
        struct reference_layer_norm norm = norm_at(walk, i);
        reference_layer_norm_backward(&norm);
    } else {
        for (int64_t k = 0; k < count; k++)
            walk->slopes[i][k] =
                walk->slopes[i + 1][k] * reference_activation_slope(layer->activation, walk->values[i][k]);
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
