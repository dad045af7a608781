/* Tensors' numbers as doubles and back. */
#include "numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

static float to_tf32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits = (bits + 0x0FFFU + (bits >> 13 & 1)) & ~0x1FFFU; /* to nearest even */
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

double *ls_numbers_load(const void *from, ls_dtype dtype, size_t count, bool tf32) {
    const float *singles = from;
    const uint16_t *halves = from;
    double *made = malloc((count ? count : 1) * sizeof(*made));
    if (!made) abort();
    for (size_t i = 0; i < count; i++)
        made[i] = (double)(dtype == LS_BFLOAT16  ? ls_half_bfloat16_to_float(halves[i])
                           : dtype == LS_FLOAT16 ? ls_half_to_float(halves[i])
                           : tf32                ? to_tf32(singles[i])
                                                 : singles[i]);
    return made;
}

void ls_numbers_store(void *to, ls_dtype dtype, const double *from, size_t count) {
    float *singles = to;
    uint16_t *halves = to;
    for (size_t i = 0; i < count; i++)
        if (dtype == LS_BFLOAT16)
            halves[i] = ls_half_bfloat16_from_float((float)from[i]);
        else if (dtype == LS_FLOAT16)
            halves[i] = ls_half_from_float((float)from[i]);
        else
            singles[i] = (float)from[i];
}

size_t ls_numbers_size(ls_dtype dtype) {
    return dtype == LS_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}
