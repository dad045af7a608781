/* Ops on images: the table, and the arguments of the kernels of pools, padding and activations. Mirrors device/cpu's
 * pool.c, place.c and activation.c. */
#include "device/cuda/image.h"

#include "base/shape.h"

struct ls_cuda_windows ls_cuda_windows_of(const struct ls_op *op, int image, int out) {
    const int64_t *in = op->tensors[image].shape.dims, *to = op->tensors[out].shape.dims;
    struct ls_cuda_windows w = {.images = (int)in[0], .channels = (int)in[3]};
    for (int i = 0; i < 2; i++) {
        w.image[i] = (int)in[i + 1];
        w.out[i] = (int)to[i + 1];
        w.kernel[i] = (int)op->window.kernel[i];
        w.strides[i] = (int)op->window.strides[i];
        w.dilation[i] = (int)op->window.dilation[i];
        w.before[i] = (int)op->window.before[i];
    }
    return w;
}

/* ---- pools ---- */

static struct ls_cuda_pool pool_of(const struct ls_op *op, int image, int out) {
    static const int places[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, -1};
    const struct ls_tensor *t = op->tensors;
    struct ls_cuda_pool pool = {.at = ls_cuda_windows_of(op, image, out), .maximum = op->pool == LS_POOL_MAX};
    pool.dtype = t[out].dtype;
    pool.vector = ls_cuda_vector(op, pool.at.channels, pool.dtype, places);
    pool.x = t[LS_ARG_X].data;
    pool.y = t[LS_ARG_Y].data;
    pool.dy = t[LS_ARG_DY].data;
    return pool;
}

static ls_status run_pool(const struct ls_op *op) {
    bool back = op->kind == LS_OP_POOL_BACKWARD;
    struct ls_cuda_pool pool = pool_of(op, back ? LS_ARG_DX : LS_ARG_X, back ? LS_ARG_DY : LS_ARG_Y);
    pool.out = op->tensors[back ? LS_ARG_DX : LS_ARG_Y].data;
    return ls_cuda_launched(op, (back ? ls_cuda_pool_dx : ls_cuda_pool_y)(&pool, ls_cuda_stream(op)));
}

/* ---- padding ---- */

static ls_status place_pixels(const struct ls_op *op) {
    static const int places[] = {LS_ARG_X, LS_ARG_Y, -1};
    int sign = op->kind == LS_OP_PAD ? 1 : -1;
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    struct ls_cuda_place c = {.images = (int)x->shape.dims[0], .channels = (int)x->shape.dims[3], .dtype = x->dtype};
    for (int i = 0; i < 2; i++) {
        c.in[i] = (int)x->shape.dims[i + 1];
        c.out_size[i] = (int)y->shape.dims[i + 1];
    }
    c.down = sign * (int)op->window.before[0];
    c.right = sign * (int)op->window.before[1];
    c.vector = ls_cuda_vector(op, c.channels, c.dtype, places);
    c.x = x->data;
    c.out = y->data;
    return ls_cuda_launched(op, ls_cuda_place_image(&c, ls_cuda_stream(op)));
}

/* ---- activations ---- */

static ls_status launch_activation(const struct ls_op *op) {
    static const int places[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, -1};
    bool back = op->kind == LS_OP_ACTIVATION_BACKWARD;
    int from = back && !ls_op_activation_takes_x(op->activation) ? LS_ARG_Y : LS_ARG_X;
    const struct ls_tensor *t = op->tensors, *like = &t[from];
    struct ls_cuda_activation a = {.kind = op->activation, .dtype = like->dtype, .slope = op->alpha};
    a.count = ls_shape_count(&like->shape);
    a.columns = like->shape.rank ? like->shape.dims[like->shape.rank - 1] : 1;
    a.vector = ls_cuda_vector(op, 0, a.dtype, places); /* the elements that are left over are done one by one */
    a.x = t[LS_ARG_X].data;
    a.y = like->data;
    a.dy = t[LS_ARG_DY].data;
    a.out = t[back ? LS_ARG_DX : LS_ARG_Y].data;
    return ls_cuda_launched(op, (back ? ls_cuda_activation_dx : ls_cuda_activation_y)(&a, ls_cuda_stream(op)));
}

const struct ls_cuda_kind ls_cuda_image_kinds[LS_OP_KIND_COUNT] = {
    [LS_OP_POOL_FORWARD] = {.run = run_pool},
    [LS_OP_POOL_BACKWARD] = {.run = run_pool},
    [LS_OP_BATCH_NORM_FORWARD] = {ls_cuda_batch_norm_forward, ls_cuda_batch_norm_build, ls_cuda_batch_norm_discard},
    [LS_OP_BATCH_NORM_INFERENCE] = {ls_cuda_batch_norm_inference, ls_cuda_batch_norm_build, NULL},
    [LS_OP_BATCH_NORM_AGAIN] = {ls_cuda_batch_norm_again, ls_cuda_batch_norm_build, NULL},
    [LS_OP_BATCH_NORM_BACKWARD] = {ls_cuda_batch_norm_backward, ls_cuda_batch_norm_build, ls_cuda_batch_norm_discard},
    [LS_OP_BATCH_NORM_BACKWARD_DATA] = {ls_cuda_batch_norm_backward_data, ls_cuda_batch_norm_build, NULL},
    [LS_OP_LAYER_NORM_FORWARD] = {ls_cuda_layer_norm_forward, ls_cuda_layer_norm_build, NULL},
    [LS_OP_LAYER_NORM_BACKWARD] = {ls_cuda_layer_norm_backward, ls_cuda_layer_norm_build, NULL},
    [LS_OP_ACTIVATION_FORWARD] = {.run = launch_activation},
    [LS_OP_ACTIVATION_BACKWARD] = {.run = launch_activation},
    [LS_OP_PAD] = {.run = place_pixels},
    [LS_OP_CROP] = {.run = place_pixels},
};
