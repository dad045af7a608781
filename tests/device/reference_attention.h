/* The oracle of attention: one score at a time, in double precision, with angles by libm. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/op.h"

struct reference_attention {
    struct ls_attention asked;
    int64_t rows, length, width;
    const double *x;  /* (rows, length, (heads + 2 kv_heads) width) */
    double *y;        /* (rows, length, heads width) */
    const double *dy; /* NULL: forward alone */
    double *dx;
};
/* y, and with dy also dx. */
void reference_attention_run(const struct reference_attention *run);
