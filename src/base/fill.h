/* Values by rule, each a function of (seed, stream, element) alone: initial values of variables, whole or in parts. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum ls_fill_kind {
    LS_FILL_CONSTANT,     /* reach */
    LS_FILL_UNIFORM,      /* in [-reach, reach) */
    LS_FILL_NORMAL,       /* cut at two deviations, which makes the deviation reach times 0.88 */
    LS_FILL_WHOLE_NORMAL, /* not cut; reach is the deviation */
    LS_FILL_KINDS
};
struct ls_fill {
    enum ls_fill_kind kind;
    double reach;
    uint64_t seed, stream;
};
/* Writes elements [first, first + count), of many with all processors: the bits are the same for any number. */
void ls_fill(const struct ls_fill *fill, uint64_t first, float *values, size_t count);
