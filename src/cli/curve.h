/* The losses of a training's epochs, drawn as a row of blocks when it has ended: Tufte's sparkline. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_curve {
    double (*losses)[2]; /* [capacity] owns: of training and of validation, an epoch each */
    int count, capacity;
};
/* An ls_epoch_fn, whose context is the curve. */
ls_epoch_fn ls_curve_take;
/* Prints a line on a terminal, also one behind lockstep run; nothing elsewhere, and nothing of fewer than two epochs.
 */
void ls_curve_print(const struct ls_curve *curve);
void ls_curve_free(struct ls_curve *curve);
