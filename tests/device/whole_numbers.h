/* Whole numbers below 64, which every type holds and adds exactly: what collectives between devices are tested with. */
#pragma once
#include <lockstep/lockstep.h>
#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

static inline double value(int rank, size_t i) {
    return (double)((i * 7 + (size_t)rank * 13) % 61);
}

static inline void put(ls_dtype dtype, void *array, size_t i, double number) {
    if (dtype == LS_FLOAT32) ((float *)array)[i] = (float)number;
    if (dtype == LS_FLOAT64) ((double *)array)[i] = number;
    if (dtype == LS_INT32) ((int32_t *)array)[i] = (int32_t)number;
    if (dtype == LS_INT64) ((int64_t *)array)[i] = (int64_t)number;
    if (dtype == LS_FLOAT16) ((uint16_t *)array)[i] = ls_half_from_float((float)number);
    if (dtype == LS_BFLOAT16) ((uint16_t *)array)[i] = ls_half_bfloat16_from_float((float)number);
}

static inline double get(ls_dtype dtype, const void *array, size_t i) {
    if (dtype == LS_FLOAT32) return (double)((const float *)array)[i];
    if (dtype == LS_FLOAT64) return ((const double *)array)[i];
    if (dtype == LS_INT32) return (double)((const int32_t *)array)[i];
    if (dtype == LS_INT64) return (double)((const int64_t *)array)[i];
    uint16_t bits = ((const uint16_t *)array)[i];
    return (double)(dtype == LS_FLOAT16 ? ls_half_to_float(bits) : ls_half_bfloat16_to_float(bits));
}
