/* Loops that multiply by one number: a rounding an element, nothing contracted, so that all processors give the same
 * bits. */
#include "collective/schedule/reduce.h"

#include <math.h>
#include <stdint.h>

#include "base/clones.h"
#include "base/half.h"
#include "base/status.h"

ls_status ls_scale_check(const char *field, double factor, ls_dtype dtype) {
    if (!isfinite(factor)) return ls_fail(LS_INVALID_ARGUMENT, "%s %g is no finite number", field, factor);
    if (dtype <= LS_BFLOAT16 || ls_scale_factor(factor) == 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s %g is for floats, not for %s: scale after a conversion, or leave it out",
                   field, factor, ls_dtype_name(dtype));
}

LS_CLONES static void scale_float32(float *out, const float *in, size_t count, float factor) {
    LS_VECTORIZE
    for (size_t i = 0; i < count; i++) out[i] = in[i] * factor;
}

LS_CLONES static void scale_float64(double *out, const double *in, size_t count, double factor) {
    LS_VECTORIZE
    for (size_t i = 0; i < count; i++) out[i] = in[i] * factor;
}

static void scale_float16(uint16_t *out, const uint16_t *in, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) out[i] = ls_half_from_float(ls_half_to_float(in[i]) * factor);
}

static void scale_bfloat16(uint16_t *out, const uint16_t *in, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) out[i] = ls_half_bfloat16_from_float(ls_half_bfloat16_to_float(in[i]) * factor);
}

void ls_scale(ls_dtype dtype, void *out, const void *in, size_t count, double factor) {
    switch (dtype) {
    case LS_FLOAT32:
        scale_float32(out, in, count, (float)factor);
        break;
    case LS_FLOAT64:
        scale_float64(out, in, count, factor);
        break;
    case LS_FLOAT16:
        scale_float16(out, in, count, (float)factor);
        break;
    case LS_BFLOAT16:
        scale_bfloat16(out, in, count, (float)factor);
        break;
    default: /* no other type has factors */
        break;
    }
}
