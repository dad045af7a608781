/* The oracle of recurrent layers: one number at a time, in double precision, with libm. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/op.h"

struct reference_recurrent {
    enum ls_cell cell;
    int64_t rows, length, units;
    const double *x, *w, *b; /* as of LS_OP_RECURRENT_FORWARD; b may be NULL */
    double *y;               /* (rows, length, units) */
    const double *dy;        /* the same; NULL: forward alone */
    double *dx, *dr;         /* (rows, length, gates units) */
};
/* y, and with dy also dx and dr, the gradient of the product of w and the output before. */
void reference_recurrent_run(const struct reference_recurrent *run);
