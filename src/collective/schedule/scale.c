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

#define SCALE(suffix, type, wide, load, store)                                                                         \
    LS_CLONES static void scale_##suffix(void *out, const void *in, size_t count, double factor) {                     \
        type *o = out;                                                                                                 \
        const type *x = in;                                                                                            \
        wide by = (wide)factor;                                                                                        \
        LS_VECTORIZE                                                                                                   \
        for (size_t i = 0; i < count; i++) o[i] = store(load(x[i]) * by);                                              \
    }
#define SAME(value) (value)
SCALE(float32, float, float, SAME, SAME)
SCALE(float64, double, double, SAME, SAME)
SCALE(float16, uint16_t, float, ls_half_to_float, ls_half_from_float)
SCALE(bfloat16, uint16_t, float, ls_half_bfloat16_to_float, ls_half_bfloat16_from_float)

/* No other type has factors. */
void ls_scale(ls_dtype dtype, void *out, const void *in, size_t count, double factor) {
    static void (*const scale[])(void *out, const void *in, size_t count,
                                 double factor) = {[LS_FLOAT32] = scale_float32,
                                                   [LS_FLOAT64] = scale_float64,
                                                   [LS_FLOAT16] = scale_float16,
                                                   [LS_BFLOAT16] = scale_bfloat16};
    if (dtype <= LS_BFLOAT16) scale[dtype](out, in, count, factor);
}
