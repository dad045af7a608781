/* Checks of the ops of layers: windows over images, batch norm, and ops on elements and columns. */
#include "device/op_layers.h"

#include <stdio.h>

#include "base/shape.h"
#include "base/status.h"
#include "device/op_private.h"

/* reach is the extent of a dilated kernel. The last position is the last multiple of the stride at which the window
 * still ends in the padded image; 0 where it fits nowhere. */
int64_t ls_op_layers_positions(const struct ls_window *window, int axis, int64_t size) {
    int64_t reach = (window->kernel[axis] - 1) * window->dilation[axis] + 1;
    int64_t room = size + window->before[axis] + window->after[axis] - reach;
    return room < 0 ? 0 : room / window->strides[axis] + 1;
}

static ls_status check_window(const struct ls_op *op, bool kernel_fits) {
    const struct ls_window *w = &op->window;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilation[i] < 1 || w->before[i] < 0 || w->after[i] < 0 ||
            (kernel_fits && (w->before[i] >= w->kernel[i] || w->after[i] >= w->kernel[i])))
            return ls_fail(LS_INVALID_ARGUMENT, "%s: the window is impossible along axis %d", ls_op_name(op->kind),
                           i + 1);
    return LS_OK;
}

/* The shape that a window over image yields, for so many channels. */
static ls_shape positions(const struct ls_op *op, const ls_shape *image, int64_t channels) {
    return LS_SHAPE(image->dims[0], ls_op_layers_positions(&op->window, 0, image->dims[1]),
                    ls_op_layers_positions(&op->window, 1, image->dims[2]), channels);
}

ls_status ls_op_layers_check_convolution(const struct ls_op *op) {
    bool data = op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA, weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    bool both = op->kind == LS_OP_DEPTHWISE_BACKWARD;
    int image = data ? LS_ARG_DX : LS_ARG_X, kernel = weights ? LS_ARG_DW : LS_ARG_W;
    ls_status status = check_window(op, false);
    if (!status) status = ls_op_check_leading(op, image, data ? "dx" : "x", 4);
    if (!status) status = ls_op_check_leading(op, kernel, weights ? "dw" : "w", 4);
    if (status) return status;
    ls_shape in = op->tensors[image].shape;
    int64_t groups = op->window.groups, channels = in.dims[3], filters = op->tensors[kernel].shape.dims[3];
    if (groups < 1 || channels % groups || filters % groups)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: %lld groups do not divide %lld channels and %lld filters",
                       ls_op_name(op->kind), (long long)groups, (long long)channels, (long long)filters);
    if (both && groups != channels)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: %lld groups are not the %lld channels", ls_op_name(op->kind),
                       (long long)groups, (long long)channels);
    ls_shape w = LS_SHAPE(op->window.kernel[0], op->window.kernel[1], channels / groups, filters);
    ls_shape out = positions(op, &in, filters);
    ls_dtype type = ls_op_type(op, image);
    if (data)
        return LS_CHECK_ARGUMENTS(op, {LS_ARG_W, "w", type, false, w}, {LS_ARG_DY, "dy", type, false, out},
                                  {LS_ARG_DX, "dx", type, false, in});
    if (both)
        return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, in}, {LS_ARG_W, "w", type, false, w},
                                  {LS_ARG_DY, "dy", type, false, out}, {LS_ARG_DX, "dx", type, false, in},
                                  {LS_ARG_DW, "dw", LS_FLOAT32, false, w},
                                  {LS_ARG_DB, "db", LS_FLOAT32, true, LS_SHAPE(filters)});
    if (weights)
        return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, in}, {LS_ARG_DY, "dy", type, false, out},
                                  {LS_ARG_DW, "dw", LS_FLOAT32, false, w},
                                  {LS_ARG_DB, "db", LS_FLOAT32, true, LS_SHAPE(filters)});
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, in}, {LS_ARG_W, "w", type, false, w},
                              {LS_ARG_B, "b", LS_FLOAT32, true, LS_SHAPE(filters)}, {LS_ARG_Y, "y", type, false, out});
}

ls_status ls_op_layers_check_pool(const struct ls_op *op) {
    bool backward = op->kind == LS_OP_POOL_BACKWARD, maximum = op->pool == LS_POOL_MAX;
    int image = backward ? LS_ARG_DX : LS_ARG_X;
    ls_status status = check_window(op, true);
    if (!status) status = ls_op_check_leading(op, image, backward ? "dx" : "x", 4);
    if (status) return status;
    ls_shape in = op->tensors[image].shape, out = positions(op, &in, in.dims[3]);
    ls_dtype type = ls_op_type(op, image);
    if (!backward) return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, in}, {LS_ARG_Y, "y", type, false, out});
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, !maximum, in}, {LS_ARG_Y, "y", type, !maximum, out},
                              {LS_ARG_DY, "dy", type, false, out}, {LS_ARG_DX, "dx", type, false, in});
}

ls_status ls_op_layers_check_pad(const struct ls_op *op) {
    bool crop = op->kind == LS_OP_CROP;
    int small = crop ? LS_ARG_Y : LS_ARG_X, large = crop ? LS_ARG_X : LS_ARG_Y;
    const struct ls_window *w = &op->window;
    ls_status status = check_window(op, false);
    if (!status) status = ls_op_check_leading(op, small, crop ? "y" : "x", 4);
    if (status) return status;
    ls_shape in = op->tensors[small].shape, out = in;
    for (int i = 0; i < 2; i++) out.dims[i + 1] += w->before[i] + w->after[i];
    ls_dtype type = ls_op_type(op, small);
    return LS_CHECK_ARGUMENTS(op, {small, crop ? "y" : "x", type, false, in},
                              {large, crop ? "x" : "y", type, false, out});
}

ls_status ls_op_layers_check_batch_norm(const struct ls_op *op) {
    bool forward = op->kind == LS_OP_BATCH_NORM_FORWARD, backward = op->kind == LS_OP_BATCH_NORM_BACKWARD;
    bool inference = op->kind == LS_OP_BATCH_NORM_INFERENCE, linear = op->activation == LS_LINEAR;
    bool data = op->kind == LS_OP_BATCH_NORM_BACKWARD_DATA;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 0);
    if (status) return status;
    if ((unsigned)op->activation > LS_RELU6)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: activation %d is none that this op has", ls_op_name(op->kind),
                       (int)op->activation);
    if (forward && !op->scale) return ls_fail(LS_INVALID_ARGUMENT, "%s: scale is missing", ls_op_name(op->kind));
    ls_shape x = op->tensors[LS_ARG_X].shape, c = LS_SHAPE(x.dims[x.rank - 1]), two = LS_SHAPE(2, x.dims[x.rank - 1]);
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    bool masked = backward && !linear && op->tensors[LS_ARG_DR].data;
    if (op->parts > 1 && (forward || backward) && op->tensors[forward ? LS_ARG_Y : LS_ARG_DX].data)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: %s needs the sums of all parts", ls_op_name(op->kind),
                       forward ? "y" : "dx");
    return LS_CHECK_ARGUMENTS(
        op, {LS_ARG_X, "x", type, false, x}, {LS_ARG_GAMMA, "gamma", LS_FLOAT32, true, c},
        {LS_ARG_BETA, "beta", LS_FLOAT32, true, c}, {LS_ARG_Y, "y", type, forward || data || (backward && !masked), x},
        {LS_ARG_R, "residual", type, true, x}, {LS_ARG_SAVED, "saved", LS_FLOAT32, inference, two},
        {LS_ARG_MEAN, "mean", LS_FLOAT32, !forward && !inference, c},
        {LS_ARG_VARIANCE, "variance", LS_FLOAT32, !forward && !inference, c},
        {LS_ARG_DMEAN, "dmean", LS_FLOAT32, !forward, c}, {LS_ARG_DVARIANCE, "dvariance", LS_FLOAT32, !forward, c},
        {LS_ARG_DY, "dy", type, !backward && !data, x}, {LS_ARG_DX, "dx", type, !data, x},
        {LS_ARG_SHIFTS, "shifts", LS_FLOAT32, !data && !(backward && op->tensors[LS_ARG_DX].data), two},
        {LS_ARG_DR, "dresidual", type, true, x}, {LS_ARG_DGAMMA, "dgamma", LS_FLOAT32, true, c},
        {LS_ARG_DBETA, "dbeta", LS_FLOAT32, true, c});
}

ls_status ls_op_layers_check_layer_norm(const struct ls_op *op) {
    bool forward = op->kind == LS_OP_LAYER_NORM_FORWARD;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", op->tensors[LS_ARG_X].shape.rank < 1 ? 1 : 0);
    if (status) return status;
    const ls_shape x = op->tensors[LS_ARG_X].shape, c = LS_SHAPE(ls_op_channels(op));
    const ls_shape saved = LS_SHAPE(ls_shape_count(&x) / c.dims[0], 2);
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, x}, {LS_ARG_GAMMA, "gamma", LS_FLOAT32, true, c},
                              {LS_ARG_BETA, "beta", LS_FLOAT32, true, c}, {LS_ARG_Y, "y", type, !forward, x},
                              {LS_ARG_SAVED, "saved", LS_FLOAT32, forward, saved}, {LS_ARG_DY, "dy", type, forward, x},
                              {LS_ARG_DX, "dx", type, true, x}, {LS_ARG_DGAMMA, "dgamma", LS_FLOAT32, true, c},
                              {LS_ARG_DBETA, "dbeta", LS_FLOAT32, true, c});
}

ls_status ls_op_layers_check_elements(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 0);
    if (status) return status;
    if (op->kind == LS_OP_DROPOUT && !(op->alpha >= 0 && op->alpha < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "dropout: rate %g must be at least 0 and below 1", (double)op->alpha);
    if (op->kind == LS_OP_MERGE && !op->scale) return ls_fail(LS_INVALID_ARGUMENT, "merge: scale is missing");
    if (op->kind == LS_OP_DROPOUT && !op->step) return ls_fail(LS_INVALID_ARGUMENT, "dropout: step is missing");
    ls_shape shape = op->tensors[LS_ARG_X].shape;
    ls_dtype type = op->kind == LS_OP_MERGE ? LS_FLOAT32 : ls_op_type(op, LS_ARG_X);
    bool takes_two = op->kind == LS_OP_ADD || op->kind == LS_OP_MULTIPLY;
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, shape}, {LS_ARG_W, "w", type, !takes_two, shape},
                              {LS_ARG_Y, "y", type, false, shape});
}

ls_status ls_op_layers_check_columns(const struct ls_op *op) {
    bool place = op->kind == LS_OP_PLACE;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 2);
    if (!status) status = ls_op_check_leading(op, LS_ARG_Y, "y", 2);
    if (status) return status;
    ls_shape x = op->tensors[LS_ARG_X].shape, y = op->tensors[LS_ARG_Y].shape;
    int64_t narrow = place ? x.dims[1] : y.dims[1], wide = place ? y.dims[1] : x.dims[1];
    if (op->column < 0 || narrow > wide - op->column)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: columns %lld to %lld are not all in %lld", ls_op_name(op->kind),
                       (long long)op->column, (long long)(op->column + narrow - 1), (long long)wide);
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, x},
                              {LS_ARG_Y, "y", type, false, LS_SHAPE(x.dims[0], y.dims[1])});
}

ls_status ls_op_layers_check_embedding(const struct ls_op *op) {
    bool backward = op->kind == LS_OP_EMBEDDING_BACKWARD;
    int table = backward ? LS_ARG_DW : LS_ARG_W, rows = backward ? LS_ARG_DY : LS_ARG_Y;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 2);
    if (!status) status = ls_op_check_leading(op, table, backward ? "dw" : "w", 2);
    if (status) return status;
    ls_shape x = op->tensors[LS_ARG_X].shape, w = op->tensors[table].shape;
    ls_dtype type = ls_op_type(op, rows), ids = op->tensors[LS_ARG_X].dtype == LS_INT32 ? LS_INT32 : LS_FLOAT32;
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", ids, false, x},
                              {table, backward ? "dw" : "w", backward ? LS_FLOAT32 : type, false, w},
                              {rows, backward ? "dy" : "y", type, false, LS_SHAPE(x.dims[0], x.dims[1], w.dims[1])});
}

/* Two doubles a channel, sums and sums of squares (or of products, backward), and one for the number of values. */
size_t ls_op_layers_exchanged(const struct ls_op *op) {
    const ls_shape *x = &op->tensors[LS_ARG_X].shape;
    bool sums = op->kind == LS_OP_BATCH_NORM_FORWARD || op->kind == LS_OP_BATCH_NORM_BACKWARD;
    return sums && op->exchange ? 2 * (size_t)x->dims[x->rank - 1] + 1 : 0;
}
