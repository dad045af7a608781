/* ReLU as an op of its own. y may be x, and dx may be dy. Mirrors tf.nn.relu. */
#include <stddef.h>

#include "base/dtype.h"
#include "base/clones.h"
#include "device/cpu/cpu.h"

LS_CLONES static void forward(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = x[i] <= 0 ? 0 : x[i]; /* NaN stays */
}

LS_CLONES static void backward(float *dx, const float *dy, const float *y, size_t count) {
    for (size_t i = 0; i < count; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

ls_status ls_cpu_relu_forward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X];
    forward(op->tensors[LS_ARG_Y].data, x->data, (size_t)ls_shape_count(&x->shape));
    return LS_OK;
}

ls_status ls_cpu_relu_backward(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_Y];
    backward(op->tensors[LS_ARG_DX].data, op->tensors[LS_ARG_DY].data, y->data, (size_t)ls_shape_count(&y->shape));
    return LS_OK;
}
