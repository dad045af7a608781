/* Element i has its own random numbers, so a part of a variable can be drawn anywhere. Threads: any. */
#include "base/fill.h"

#include <math.h>

#include "base/random.h"

/* A uniform value in [-limit, limit) has the variance limit^2 / 3. The shift by 11 leaves 53 bits, as many as a double
 * holds, so unit is in [0, 1) and never 1. */
static double draw_uniform(const struct ls_fill *fill, uint64_t element) {
    double unit = (double)(ls_random_bits(fill->seed, fill->stream, element) >> 11) * 0x1p-53;
    return (2 * unit - 1) * fill->reach;
}

/* Draws again what falls outside two deviations; each attempt has its own numbers, 2^40 elements apart. */
static double draw_normal(const struct ls_fill *fill, uint64_t element) {
    for (uint64_t attempt = 0;; attempt++) {
        double value = ls_random_normal(fill->seed, fill->stream, element + (attempt << 40));
        if (fabs(value) <= 2) return value * fill->reach;
    }
}

static double draw(const struct ls_fill *fill, uint64_t element) {
    switch (fill->kind) {
    case LS_FILL_UNIFORM:
        return draw_uniform(fill, element);
    case LS_FILL_NORMAL:
        return draw_normal(fill, element);
    case LS_FILL_WHOLE_NORMAL:
        return ls_random_normal(fill->seed, fill->stream, element) * fill->reach;
    default:
        return fill->reach;
    }
}

void ls_fill(const struct ls_fill *fill, uint64_t first, float *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = (float)draw(fill, first + i);
}
