/* Functions of one float32 for element loops under LS_CLONES. Each is a polynomial and has no branch, so that a
 * compiler makes vectors of it. Every operation is rounded once, so all instruction sets and all libcs give the same
 * bits. Errors are a few units in the last place. NaN stays NaN. */
#pragma once
#include <stdbool.h>

#include "base/float_bits.h"

#define LS_LANES_ROUNDER   12582912.0F /* 1.5 2^23: a sum with it is rounded to a whole number, its lowest bits */
#define LS_LANES_EXP_LEAST (-87.3F)    /* below it exp is no normal number, and 0 here */
#define LS_LANES_EXP_MOST  88.8F       /* from it on exp is infinite */

/* yes where the condition holds, else no. Both are made: a compiler would move the work for one into a branch. */
static inline float ls_lanes_choose(bool condition, float yes, float no) {
    uint32_t mask = 0 - (uint32_t)condition;
    return ls_float_bits_value((ls_float_bits_of(yes) & mask) | (ls_float_bits_of(no) & ~mask));
}

/* exp(x) = 2^n exp(r), with |r| at most ln(2) / 2. ln(2) is split so that n times its upper part is exact. The
 * coefficients are those of Cephes' expf (Moshier). 2^n is two factors, for n may be 128. */
static inline float ls_lanes_exp(float x) {
    float bounded = ls_lanes_choose(x > LS_LANES_EXP_MOST, LS_LANES_EXP_MOST, x);
    float shifted = bounded * 1.44269504F + LS_LANES_ROUNDER, n = shifted - LS_LANES_ROUNDER;
    float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1;
    int32_t power = (int32_t)(ls_float_bits_of(shifted) - ls_float_bits_of(LS_LANES_ROUNDER)), half = power / 2;
    float low = ls_float_bits_value(((uint32_t)half + 127) << 23);
    float high = ls_float_bits_value(((uint32_t)power - (uint32_t)half + 127) << 23);
    return ls_lanes_choose(x < LS_LANES_EXP_LEAST, 0, p * low * high);
}
