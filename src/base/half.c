/* Integer arithmetic that follows IEEE 754: round to nearest, ties to even. */
#include "base/half.h"

#include "base/clones.h"
#include "base/float_bits.h"

float ls_half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16, exponent = (half >> 10) & 0x1FU, fraction = half & 0x3FFU;
    if (exponent == 0x1F) return ls_float_bits_value(sign | 0x7F800000U | fraction << 13);
    if (exponent) return ls_float_bits_value(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction) return ls_float_bits_value(sign);
    int shift = __builtin_clz(fraction) - 21; /* a denormal half is a normal float */
    fraction = (fraction << shift) & 0x3FFU;
    return ls_float_bits_value(sign | (uint32_t)(113 - shift) << 23 | fraction << 13);
}

uint16_t ls_half_from_float(float value) {
    uint32_t bits = ls_float_bits_of(value), magnitude = bits & 0x7FFFFFFFU;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
    if (magnitude > 0x7F800000U) return (uint16_t)(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
    if (magnitude >= 0x477FF000U) return (uint16_t)(sign | 0x7C00U); /* rounds to 65536 or more */
    if (magnitude < 0x33000001U) return sign;                        /* half the smallest denormal, or less */
    uint32_t exponent = magnitude >> 23, fraction = magnitude & 0x7FFFFFU, drop = 13, base = 0;
    if (exponent >= 113) {
        base = (exponent - 112) << 10;
    } else {
        fraction |= 0x800000U;
        drop = 126 - exponent;
    }
    uint32_t kept = fraction >> drop, rest = fraction & ((1U << drop) - 1), half = 1U << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1U));
    return (uint16_t)(sign | (base + kept));
}

float ls_half_bfloat16_to_float(uint16_t value) {
    return ls_float_bits_value((uint32_t)value << 16);
}

/* Without a branch, so that a compiler makes vectors of it. */
static inline uint16_t round_bfloat16(float value) {
    uint32_t bits = ls_float_bits_of(value), number = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFFU) > 0x7F800000U ? bits >> 16 | 0x40U : number);
}

uint16_t ls_half_bfloat16_from_float(float value) {
    return round_bfloat16(value);
}

LS_CLONES static void half_round(uint16_t *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = round_bfloat16(from[i]);
}

void ls_half_bfloat16_from_floats(uint16_t *to, const float *from, size_t count) {
    half_round(to, from, count);
}
