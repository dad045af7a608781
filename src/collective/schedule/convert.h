/* float32 to the 16 bits that cross a link and back: rounding to nearest even as in base/half.h, the same bits on
 * every processor and in every denormal mode. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_NARROW_ELEMENT sizeof(uint16_t) /* bytes */
/* Bytes of compressed elements, by those of float32. */
static inline size_t ls_narrow_size(size_t size) {
    return size / sizeof(float) * LS_NARROW_ELEMENT;
}

/* Equal to ls_half_bfloat16_from_float, by the float's bits and without a branch. Adding 0x7FFF and the lowest bit that
 * stays carries into bit 16 exactly when the value rounds up, to even on a tie. The carry may run into the exponent,
 * which is right: the next binade, or infinity. A NaN would become infinity by it, so a NaN keeps its top bits and gets
 * the quiet bit 0x40. */
static inline uint16_t ls_convert_bfloat16(uint32_t bits) {
    uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16, quiet = bits >> 16 | 0x40U;
    return (uint16_t)((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}
/* Every processor with AVX2 has F16C. */
static inline bool ls_convert_has_f16c(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

struct ls_conversion {
    void (*narrow)(void *to, const void *from, size_t count); /* not in place */
    void (*widen)(void *to, const void *from, size_t count);
};
/* NULL for LS_COMPRESS_NONE. */
const struct ls_conversion *ls_convert_find(ls_compression compression);
