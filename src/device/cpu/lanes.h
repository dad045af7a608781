/* Functions of one float32 for element loops under LS_CLONES: exp, the logistic function, tanh, and erfc. Each is a
 * polynomial and has no branch, so that a compiler makes vectors of it. Every operation is rounded once, so all
 * instruction sets and all libcs give the same bits. Errors are a few units in the last place. NaN stays NaN. */
#pragma once
#include <math.h>
#include <stdbool.h>

#include "base/float_bits.h"

#define LS_LANES_ROUNDER    12582912.0F /* 1.5 2^23: a sum with it is rounded to a whole number, its lowest bits */
#define LS_LANES_EXP_LEAST  (-87.3F)    /* below it exp is no normal number, and 0 here */
#define LS_LANES_EXP_MOST   88.8F       /* from it on exp is infinite */
#define LS_LANES_TANH_SMALL 0.625F      /* below it tanh is an odd polynomial, which keeps small values exact */
#define LS_LANES_ERFC_SLOPE 0.4F        /* of t in ls_lanes_erfc_over */

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

/* 1 / (1 + exp(-x)) */
static inline float ls_lanes_logistic(float x) {
    return 1 / (1 + ls_lanes_exp(-x));
}

/* The polynomial is that of Cephes' tanhf (Moshier). */
static inline float ls_lanes_tanh(float x) {
    float size = fabsf(x), square = x * x, large = 1 - 2 / (ls_lanes_exp(2 * size) + 1);
    float p = -5.70498872745e-3F;
    p = p * square + 2.06390887954e-2F;
    p = p * square - 5.37397155531e-2F;
    p = p * square + 1.33314422036e-1F;
    p = p * square - 3.33332819422e-1F;
    float small = p * square * x + x;
    return ls_lanes_choose(size < LS_LANES_TANH_SMALL, small, ls_lanes_choose(x < 0, -large, large));
}

/* erfc(a) exp(a^2) for a from 0 to 9.4, above which erfc is 0: a polynomial of t = 1 / (1 + 0.4 a). Its form is that of
 * Abramowitz and Stegun 7.1.26. The coefficients are those of a Chebyshev interpolation of degree 8, whose error is
 * 4e-8. The caller has exp(-a^2) for other uses too, and the product has no cancellation, as 1 - erf(a) has. */
static inline float ls_lanes_erfc_over(float a) {
    float t = 1 / (1 + LS_LANES_ERFC_SLOPE * a);
    float p = 0.03714254564F;
    p = p * t - 0.12062577355F;
    p = p * t + 0.04395472302F;
    p = p * t + 0.13294119029F;
    p = p * t + 0.04929216413F;
    p = p * t + 0.20609887667F;
    p = p * t + 0.19870832831F;
    p = p * t + 0.22687875543F;
    p = p * t + 0.22560922430F;
    return p * t;
}
