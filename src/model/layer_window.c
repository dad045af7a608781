/* Windows of convolutions and pools over an image: sizes, and Keras' padding. A sequence is an image of one column. */
#include "model/layer.h"

#include "base/status.h"
#include "device/op_layers.h"

static bool is_sequence_kind(ls_layer_kind kind) {
    return kind == LS_LAYER_CONV1D || kind == LS_LAYER_MAX_POOLING1D || kind == LS_LAYER_AVERAGE_POOLING1D ||
           kind == LS_LAYER_GLOBAL_MAX_POOLING1D || kind == LS_LAYER_GLOBAL_AVERAGE_POOLING1D;
}

ls_shape ls_layer_window_image(const struct ls_node *node) {
    const int64_t *dims = node->input.dims;
    return is_sequence_kind(node->layer.kind) ? LS_SHAPE(dims[0], 1, dims[1]) : node->input;
}

ls_shape ls_layer_window_output(const struct ls_node *node, const struct ls_window *window, int64_t channels) {
    const ls_shape image = ls_layer_window_image(node);
    int64_t height = ls_op_layers_positions(window, 0, image.dims[0]);
    if (is_sequence_kind(node->layer.kind)) return LS_SHAPE(height, channels);
    return LS_SHAPE(height, ls_op_layers_positions(window, 1, image.dims[1]), channels);
}

struct ls_tensor ls_layer_window_as_image(struct ls_tensor tensor) {
    const int64_t *dims = tensor.shape.dims;
    if (tensor.shape.rank == 3) tensor.shape = LS_SHAPE(dims[0], dims[1], 1, dims[2]);
    if (tensor.shape.rank == 2) tensor.shape = LS_SHAPE(dims[0], 1, 1, dims[1]);
    return tensor;
}

ls_status ls_layer_window_check_image(const struct ls_node *node, size_t position) {
    bool sequence = is_sequence_kind(node->layer.kind);
    if (node->input.rank == (sequence ? 2 : 3)) return LS_OK;
    if (sequence)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): it takes (n, channels), and gets %d axes", position,
                       node->title.name, node->input.rank);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "layer %zu (%s): its input has %d axes, but must be an image (height, width, channels)", position,
                   node->title.name, node->input.rank);
}

static ls_status check_field(const struct ls_node *node, size_t position, const char *name, int64_t value) {
    if (value >= 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): %s %lld must be 1 or more", position, node->title.name, name,
                   (long long)value);
}

static bool is_pool(const ls_layer *layer) {
    return layer->kind == LS_LAYER_MAX_POOLING2D || layer->kind == LS_LAYER_AVERAGE_POOLING2D ||
           layer->kind == LS_LAYER_MAX_POOLING1D || layer->kind == LS_LAYER_AVERAGE_POOLING1D;
}

/* Without padding, which needs the image. */
static struct ls_window window_of(const ls_layer *layer) {
    int64_t height = layer->kernel_size ? layer->kernel_size : is_pool(layer) ? 2 : 0;
    int64_t width = layer->kernel_width ? layer->kernel_width : height;
    int64_t stride = layer->strides ? layer->strides : is_pool(layer) ? height : 1;
    int64_t dilation = layer->dilation_rate ? layer->dilation_rate : 1;
    struct ls_window window = {.kernel = {height, width},
                               .strides = {stride, is_pool(layer) && !layer->strides ? width : stride},
                               .dilation = {dilation, dilation},
                               .groups = layer->groups ? layer->groups : 1};
    if (is_sequence_kind(layer->kind)) window.kernel[1] = window.strides[1] = window.dilation[1] = 1;
    return window;
}

ls_status ls_layer_window_check(const struct ls_node *node, size_t position) {
    const struct ls_window window = window_of(&node->layer);
    ls_status status = check_field(node, position, "kernel_size", window.kernel[0]);
    if (!status) status = check_field(node, position, "kernel_width", window.kernel[1]);
    if (!status) status = check_field(node, position, "strides", window.strides[0]);
    if (!status) status = check_field(node, position, "dilation_rate", window.dilation[0]);
    if (!status) status = check_field(node, position, "groups", window.groups);
    if (status || node->layer.padding == LS_VALID || node->layer.padding == LS_SAME) return status;
    if (node->layer.padding == LS_CAUSAL && node->layer.kind == LS_LAYER_CONV1D) return LS_OK;
    if (node->layer.padding == LS_CAUSAL)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): LS_CAUSAL padding is for conv1d; take LS_VALID or LS_SAME",
                       position, node->title.name);
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): padding %d is no ls_padding", position, node->title.name,
                   (int)node->layer.padding);
}

/* So many zeros that there are as many outputs as inputs over the stride, rounded up; the odd one comes after. outputs
 * = ceil(size / stride). The last window ends at (outputs - 1) stride + reach, and zeros fills the difference to size;
 * a stride larger than the kernel may leave none. */
static void pad_same(struct ls_window *window, int axis, int64_t size) {
    int64_t stride = window->strides[axis], reach = (window->kernel[axis] - 1) * window->dilation[axis] + 1;
    int64_t zeros = ((size + stride - 1) / stride - 1) * stride + reach - size;
    if (zeros < 0) zeros = 0;
    window->before[axis] = zeros / 2;
    window->after[axis] = zeros - zeros / 2;
}

ls_status ls_layer_window(const struct ls_node *node, size_t position, struct ls_window *window) {
    struct ls_window made = window_of(&node->layer);
    ls_status status = ls_layer_window_check_image(node, position);
    if (status) return status;
    const ls_shape image = ls_layer_window_image(node);
    if (node->layer.padding == LS_CAUSAL) made.before[0] = (made.kernel[0] - 1) * made.dilation[0];
    for (int axis = 0; axis < 2; axis++) {
        int64_t size = image.dims[axis];
        if (node->layer.padding == LS_SAME) pad_same(&made, axis, size);
        if (ls_op_layers_positions(&made, axis, size) < 1)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "layer %zu (%s): its window of %lld by %lld does not fit into an image of %lld by %lld",
                           position, node->title.name, (long long)made.kernel[0], (long long)made.kernel[1],
                           (long long)image.dims[0], (long long)image.dims[1]);
    }
    *window = made;
    return LS_OK;
}
