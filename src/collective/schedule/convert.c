/* The conversions as loops: bfloat16 in integer arithmetic that vectorizes, float16 by the processor's instructions
 * where it has them and in software otherwise. */
#include "collective/schedule/convert.h"

#include <stdint.h>

#include "base/clones.h"
#include "base/half.h"
#include "collective/schedule/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- bfloat16 ---- */

LS_CLONES static void narrow_bfloat16(void *to, const void *from, size_t count) {
    uint16_t *out = to;
    const uint32_t *in = from; /* floats as bits */
    LS_VECTORIZE
    for (size_t i = 0; i < count; i++) out[i] = ls_convert_bfloat16(in[i]);
}

LS_CLONES static void widen_bfloat16(void *to, const void *from, size_t count) {
    uint32_t *out = to;
    const uint16_t *in = from;
    LS_VECTORIZE
    for (size_t i = 0; i < count; i++) out[i] = (uint32_t)in[i] << 16;
}

/* ---- float16 ---- */

static void narrow_float16(void *to, const void *from, size_t count) {
    uint16_t *out = to;
    const float *in = from;
    for (size_t i = 0; i < count; i++) out[i] = ls_half_from_float(in[i]);
}

static void widen_float16(void *to, const void *from, size_t count) {
    float *out = to;
    const uint16_t *in = from;
    for (size_t i = 0; i < count; i++) out[i] = ls_half_to_float(in[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static void narrow_float16_f16c(void *to, const void *from, size_t count) {
    uint16_t *out = to;
    const float *in = from;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    narrow_float16(out + i, in + i, count - i);
}

__attribute__((target("avx,f16c"))) static void widen_float16_f16c(void *to, const void *from, size_t count) {
    float *out = to;
    const uint16_t *in = from;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    widen_float16(out + i, in + i, count - i);
}
#else
#define narrow_float16_f16c narrow_float16
#define widen_float16_f16c  widen_float16
#endif

/* ---- the whole ---- */

const struct ls_conversion *ls_convert_find(ls_compression compression) {
    static const struct ls_conversion bfloat16 = {narrow_bfloat16, widen_bfloat16};
    static const struct ls_conversion software = {narrow_float16, widen_float16};
    static const struct ls_conversion f16c = {narrow_float16_f16c, widen_float16_f16c};
    if (compression == LS_COMPRESS_BF16) return &bfloat16;
    if (compression == LS_COMPRESS_FP16) return ls_convert_has_f16c() ? &f16c : &software;
    return NULL;
}
