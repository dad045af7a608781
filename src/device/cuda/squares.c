/* Which convolutions cuDNN gets over squares of 2 x 2 places: those of stride 2 over up to four channels, such as the
 * first of a network for images. cuDNN's kernels for tensor cores work on many channels at a time, and would leave most
 * of each idle. The gradient of such an image is rarely wanted; it is computed as it is. */
#include "device/cuda/products.h"

#define MOST_CHANNELS 4
#define SIDE          2 /* of a square */

/* As many channels as fill whole accesses of 16 bytes. */
static int64_t pitch_of(const struct ls_op *op, int64_t channels) {
    int64_t all = channels * SIDE * SIDE, access = op->tensors[LS_ARG_X].dtype == LS_FLOAT32 ? 4 : 8;
    return (all + access - 1) / access * access;
}

bool ls_cuda_squares_fit(const struct ls_op *op) {
    const struct ls_window *w = &op->window;
    if (op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA || w->groups != 1) return false;
    for (int i = 0; i < 2; i++)
        if (w->strides[i] != SIDE || w->dilation[i] != 1 || w->kernel[i] < SIDE) return false;
    return op->tensors[LS_ARG_X].shape.dims[3] <= MOST_CHANNELS;
}

struct ls_cuda_squares ls_cuda_squares_of(const struct ls_op *op) {
    const int64_t *x = op->tensors[LS_ARG_X].shape.dims, *kernel = op->tensors[ls_op_kernel(op)].shape.dims;
    const int64_t *out = op->tensors[ls_op_out(op)].shape.dims;
    struct ls_cuda_squares made = {.rows = x[0], .channels = x[3], .filters = kernel[3]};
    for (int i = 0; i < 2; i++) {
        made.image[i] = x[i + 1];
        made.before[i] = op->window.before[i];
        made.kernel[i] = op->window.kernel[i];
        made.taps[i] = (made.kernel[i] + SIDE - 1) / SIDE;
        made.squares[i] = out[i + 1] + made.taps[i] - 1;
    }
    made.pitch = pitch_of(op, made.channels);
    return made;
}
