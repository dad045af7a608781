/* Convolutions of images and of sequences, which are images of one column, and the depthwise kind that has filters for
 * each channel alone. Mirrors tf.keras.layers.Conv2D, DepthwiseConv2D and Conv1D. */
#include "base/status.h"
#include "device/op_layers.h"
#include "model/plan_builder.h"
#include "model/layer.h"
#include "model/network.h"
#include "model/layer_fields.h"

enum { KERNEL = 0, BIAS };

static bool is_depthwise(const struct ls_node *node) {
    return node->layer.kind == LS_LAYER_DEPTHWISE_CONV2D;
}

static int64_t channels(const struct ls_node *node) {
    return node->input.dims[node->input.rank - 1];
}

static int64_t multiplier(const struct ls_node *node) {
    return node->layer.units ? node->layer.units : 1;
}

static int64_t filters(const struct ls_node *node) {
    return is_depthwise(node) ? channels(node) * multiplier(node) : node->layer.units;
}

static int64_t groups(const struct ls_node *node) {
    if (is_depthwise(node)) return channels(node);
    return node->layer.groups ? node->layer.groups : 1;
}

static ls_status conv2d_check(const struct ls_node *node, size_t position) {
    ls_status status = ls_layer_window_check(node, position);
    return status ? status : ls_layer_fields_check_kernel(node, position, "filters", is_depthwise(node) ? 0 : 1);
}

static ls_status check_groups(const struct ls_node *node, size_t position) {
    if (channels(node) % groups(node) == 0 && filters(node) % groups(node) == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): %lld groups do not divide %lld channels and %lld filters",
                   position, node->title.name, (long long)groups(node), (long long)channels(node),
                   (long long)filters(node));
}

/* Keras' shapes and fans: those of a depthwise kernel count all channels as inputs. */
static ls_status add_variables(struct ls_network *network, struct ls_node *node, const struct ls_window *window) {
    int64_t height = window->kernel[0], width = window->kernel[1], area = height * width;
    int64_t in = is_depthwise(node) ? channels(node) : channels(node) / groups(node);
    int64_t out = is_depthwise(node) ? multiplier(node) : filters(node);
    bool sequence = node->input.rank == 2;
    const struct ls_variable_spec kernel = {"kernel",
                                            sequence ? LS_SHAPE(height, in, out) : LS_SHAPE(height, width, in, out),
                                            node->layer.kernel_initializer,
                                            area * in,
                                            area * out,
                                            false};
    const struct ls_variable_spec bias = {"bias", LS_SHAPE(filters(node)), LS_ZEROS, in, out, false};
    ls_status status = ls_network_add_variable(network, node, &kernel);
    return status || node->layer.no_bias ? status : ls_network_add_variable(network, node, &bias);
}

static ls_status conv2d_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    struct ls_window window;
    ls_status status = ls_layer_window(node, position, &window);
    if (!status) status = check_groups(node, position);
    if (status) return status;
    node->output = ls_layer_window_output(node, &window, filters(node));
    return add_variables(network, node, &window);
}

/* An op over the node's window; its kernel is w(height, width, channels / groups, filters) for both kinds. */
static ls_status start_layer_conv2d_op(const struct ls_node *node, enum ls_op_kind kind, struct ls_op *op) {
    *op = (struct ls_op){.kind = kind};
    ls_status status = ls_layer_window(node, node->index, &op->window);
    op->window.groups = groups(node);
    return status;
}

static struct ls_tensor as_kernel(const struct ls_node *node, struct ls_tensor kernel) {
    const int64_t *d = kernel.shape.dims;
    if (node->input.rank == 2) kernel.shape = LS_SHAPE(d[0], 1, d[1], d[2]);
    if (is_depthwise(node)) kernel.shape = LS_SHAPE(d[0], d[1], 1, d[2] * d[3]);
    return kernel;
}

static ls_status conv2d_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                const struct ls_node_tensors *at) {
    struct ls_op op;
    ls_status status = start_layer_conv2d_op(node, LS_OP_CONVOLUTION_FORWARD, &op);
    if (status) return status;
    op.tensors[LS_ARG_X] = ls_layer_window_as_image(at->x[0]);
    op.tensors[LS_ARG_W] = as_kernel(node, ls_plan_builder_kernel(builder, node, KERNEL));
    bool folds = node->folds && ls_plan_builder_config(builder)->training;
    if (!node->layer.no_bias && !folds) op.tensors[LS_ARG_B] = ls_plan_builder_parameter(builder, node, BIAS);
    op.tensors[LS_ARG_Y] = ls_layer_window_as_image(ls_layer_activation_place(builder, node, &at->y));
    status = ls_plan_builder_append(builder, &op);
    return status ? status : ls_layer_activation_append(builder, node, &at->y);
}

/* A GPU reads x and dy once for both gradients. A CPU goes over a batch in parts, one convolution after the other. */
static bool does_both(const struct ls_plan_builder *builder, const struct ls_node *node,
                      const struct ls_node_tensors *at) {
    return is_depthwise(node) && !node->layer.frozen && ls_tensor_exists(&at->dx[0]) &&
           !ls_plan_builder_config(builder)->device->host_memory;
}

/* The kernel's gradient first: then x is no longer needed when dx comes. */
static ls_status conv2d_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                 struct ls_node_tensors *at) {
    struct ls_op weights, data;
    ls_status status = start_layer_conv2d_op(node, LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, &weights);
    if (!status) status = start_layer_conv2d_op(node, LS_OP_CONVOLUTION_BACKWARD_DATA, &data);
    if (!status) status = ls_layer_activation_append_back(builder, node, &at->y, &at->dy);
    if (status) return status;
    weights.tensors[LS_ARG_X] = ls_layer_window_as_image(at->x[0]);
    weights.tensors[LS_ARG_DY] = data.tensors[LS_ARG_DY] = ls_layer_window_as_image(at->dy);
    weights.tensors[LS_ARG_DW] = as_kernel(node, ls_plan_builder_gradient(builder, node, KERNEL));
    if (!node->layer.no_bias && !node->folds)
        weights.tensors[LS_ARG_DB] = ls_plan_builder_gradient(builder, node, BIAS);
    data.tensors[LS_ARG_W] = as_kernel(node, ls_plan_builder_kernel(builder, node, KERNEL));
    data.tensors[LS_ARG_DX] = ls_layer_window_as_image(at->dx[0]);
    if (does_both(builder, node, at)) {
        weights.kind = LS_OP_DEPTHWISE_BACKWARD;
        weights.tensors[LS_ARG_W] = data.tensors[LS_ARG_W];
        weights.tensors[LS_ARG_DX] = data.tensors[LS_ARG_DX];
        return ls_plan_builder_append(builder, &weights);
    }
    if (!node->layer.frozen) status = ls_plan_builder_append(builder, &weights);
    return status || !ls_tensor_exists(&at->dx[0]) ? status : ls_plan_builder_append(builder, &data);
}

#define CONVOLUTION_CALLS                                                                                              \
    .check = conv2d_check, .infer = conv2d_infer, .forward = conv2d_forward, .backward = conv2d_backward,              \
    .again = ls_layer_activation_again, .reads_x = true

const struct ls_layer_type ls_conv2d_type = {
    .kind = LS_LAYER_CONV2D,
    .title = {"conv2d", "Conv2D"},
    .takes = {LS_LAYER_KERNEL_FIELDS, LS_LAYER_WINDOW_FIELDS, .dilation_rate = 1, .groups = 1},
    CONVOLUTION_CALLS,
};

const struct ls_layer_type ls_depthwise_conv2d_type = {
    .kind = LS_LAYER_DEPTHWISE_CONV2D,
    .title = {"depthwise_conv2d", "DepthwiseConv2D"},
    .takes = {LS_LAYER_KERNEL_FIELDS, LS_LAYER_WINDOW_FIELDS, .dilation_rate = 1},
    .described_units = "multiplier",
    CONVOLUTION_CALLS,
};

const struct ls_layer_type ls_conv1d_type = {
    .kind = LS_LAYER_CONV1D,
    .title = {"conv1d", "Conv1D"},
    .takes = {LS_LAYER_KERNEL_FIELDS, LS_LAYER_SEQUENCE_FIELDS, .dilation_rate = 1, .groups = 1},
    CONVOLUTION_CALLS,
};
