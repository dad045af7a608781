/* Windows of convolutions and pools over an image: sizes, and Keras' padding. */
#include "model/layer.h"

#include "base/status.h"
#include "device/op_layers.h"

ls_status ls_layer_window_check_image(const struct ls_node *node, size_t position) {
    if (node->input.rank == 3) return LS_OK;
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
    return layer->kind == LS_LAYER_MAX_POOLING2D || layer->kind == LS_LAYER_AVERAGE_POOLING2D;
}

/* Without padding, which needs the image. */
static struct ls_window window_of(const ls_layer *layer) {
    int64_t height = layer->kernel_size ? layer->kernel_size : is_pool(layer) ? 2 : 0;
    int64_t width = layer->kernel_width ? layer->kernel_width : height;
    int64_t stride = layer->strides ? layer->strides : is_pool(layer) ? height : 1;
    int64_t dilation = layer->dilation_rate ? layer->dilation_rate : 1;
    return (struct ls_window){.kernel = {height, width},
                              .strides = {stride, is_pool(layer) && !layer->strides ? width : stride},
                              .dilation = {dilation, dilation},
                              .groups = layer->groups ? layer->groups : 1};
}

ls_status ls_layer_window_check(const struct ls_node *node, size_t position) {
    const struct ls_window window = window_of(&node->layer);
    ls_status status = check_field(node, position, "kernel_size", window.kernel[0]);
    if (!status) status = check_field(node, position, "kernel_width", window.kernel[1]);
    if (!status) status = check_field(node, position, "strides", window.strides[0]);
    if (!status) status = check_field(node, position, "dilation_rate", window.dilation[0]);
    if (!status) status = check_field(node, position, "groups", window.groups);
    if (status || node->layer.padding == LS_VALID || node->layer.padding == LS_SAME) return status;
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
    for (int axis = 0; axis < 2; axis++) {
        int64_t size = node->input.dims[axis];
        if (node->layer.padding == LS_SAME) pad_same(&made, axis, size);
        if (ls_op_layers_positions(&made, axis, size) < 1)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "layer %zu (%s): its window of %lld by %lld does not fit into an image of %lld by %lld",
                           position, node->title.name, (long long)made.kernel[0], (long long)made.kernel[1],
                           (long long)node->input.dims[0], (long long)node->input.dims[1]);
    }
    *window = made;
    return LS_OK;
}
