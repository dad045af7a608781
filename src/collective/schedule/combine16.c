/* Loops over float16 and bfloat16. bfloat16 converts inline, so that the loop vectorizes; float16 uses the processor's
 * conversions where it has them (they round as base/half.h does) and base's otherwise. MIN and MAX choose one of the
 * two operands and so never round. */
#include "collective/schedule/reduce.h"

#include <stdint.h>

#include "base/clones.h"
#include "base/float_bits.h"
#include "base/half.h"
#include "collective/schedule/convert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static inline float widen(uint16_t value) {
    return ls_float_bits_value((uint32_t)value << 16);
}

static inline uint16_t bfloat16_of(float value) {
    return ls_convert_bfloat16(ls_float_bits_of(value));
}

#define LOOP(linkage, name, expression)                                                                                \
    linkage void name(void *out, const void *a, const void *b, size_t count) {                                         \
        uint16_t *o = out;                                                                                             \
        const uint16_t *x = a, *y = b;                                                                                 \
        LS_VECTORIZE                                                                                                   \
        for (size_t i = 0; i < count; i++) o[i] = expression;                                                          \
    }
LOOP(LS_CLONES static, sum_bfloat16, bfloat16_of(widen(x[i]) + widen(y[i])))
LOOP(static, product_bfloat16, bfloat16_of(widen(x[i]) * widen(y[i])))
LOOP(static, sum_float16, ls_half_from_float(ls_half_to_float(x[i]) + ls_half_to_float(y[i])))
LOOP(static, product_float16, ls_half_from_float(ls_half_to_float(x[i]) * ls_half_to_float(y[i])))

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static void sum_float16_f16c(void *out, const void *a, const void *b,
                                                                 size_t count) {
    uint16_t *o = out;
    const uint16_t *x = a, *y = b;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 left = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
        __m256 right = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(y + i)));
        __m128i sum = _mm256_cvtps_ph(_mm256_add_ps(left, right), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(o + i), sum);
    }
    sum_float16(o + i, x + i, y + i, count - i);
}
#else
#define sum_float16_f16c sum_float16
#endif

/* NaN wins; of equals the first is kept. */
#define CHOOSE(name, to_float, better)                                                                                 \
    static void name(void *out, const void *a, const void *b, size_t count) {                                          \
        uint16_t *o = out;                                                                                             \
        const uint16_t *x = a, *y = b;                                                                                 \
        for (size_t i = 0; i < count; i++) {                                                                           \
            float p = to_float(x[i]), q = to_float(y[i]);                                                              \
            o[i] = q better p || q != q ? y[i] : x[i];                                                                 \
        }                                                                                                              \
    }
CHOOSE(min_float16, ls_half_to_float, <)
CHOOSE(max_float16, ls_half_to_float, >)
CHOOSE(min_bfloat16, widen, <)
CHOOSE(max_bfloat16, widen, >)

ls_combine_fn *ls_combine16(ls_reduce_op op, ls_dtype dtype) {
    bool half = dtype == LS_FLOAT16;
    if (op == LS_MIN) return half ? min_float16 : min_bfloat16;
    if (op == LS_MAX) return half ? max_float16 : max_bfloat16;
    if (op == LS_PRODUCT) return half ? product_float16 : product_bfloat16;
    if (!half) return sum_bfloat16;
    return ls_convert_has_f16c() ? sum_float16_f16c : sum_float16;
}

void ls_combine16_divide(ls_dtype dtype, void *data, size_t count, int n) {
    uint16_t *values = data;
    float divisor = (float)n;
    if (dtype == LS_BFLOAT16)
        for (size_t i = 0; i < count; i++) values[i] = bfloat16_of(widen(values[i]) / divisor);
    else
        for (size_t i = 0; i < count; i++) values[i] = ls_half_from_float(ls_half_to_float(values[i]) / divisor);
}
