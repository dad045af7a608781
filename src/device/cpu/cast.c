/* Casts between float32 and the 16-bit floats, and bytes by a table. The CPU computes in float32 only: casts serve data
 * of other devices. */
#include "base/half.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"

static float load(const struct ls_tensor *x, int64_t i) {
    if (x->dtype == LS_FLOAT16) return ls_half_to_float(((const uint16_t *)x->data)[i]);
    if (x->dtype == LS_BFLOAT16) return ls_half_bfloat16_to_float(((const uint16_t *)x->data)[i]);
    return ((const float *)x->data)[i];
}

static void store(const struct ls_tensor *y, int64_t i, float value) {
    if (y->dtype == LS_FLOAT16)
        ((uint16_t *)y->data)[i] = ls_half_from_float(value);
    else if (y->dtype == LS_BFLOAT16)
        ((uint16_t *)y->data)[i] = ls_half_bfloat16_from_float(value);
    else
        ((float *)y->data)[i] = value;
}

ls_status ls_cpu_cast(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    for (int64_t i = 0, count = ls_shape_count(&x->shape); i < count; i++) store(y, i, load(x, i));
    return LS_OK;
}

ls_status ls_cpu_expand(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *w = &op->tensors[LS_ARG_W];
    const uint8_t *bytes = x->data;
    const float *table = w->data;
    float *y = op->tensors[LS_ARG_Y].data;
    int64_t channels = w->shape.dims[0], count = ls_shape_count(&x->shape);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = c; i < count; i += channels) y[i] = table[c * LS_BYTE_VALUES + bytes[i]];
    return LS_OK;
}
