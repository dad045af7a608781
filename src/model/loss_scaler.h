/* Dynamic loss scaling: float16 has no place for small gradients, so those of a scaled loss are computed. The scale is
 * as large as it can be without an overflow, which is found by trying. All replicas have the same sums and so the same
 * verdict. Pure. Mirrors keras.optimizers.LossScaleOptimizer. */
#pragma once
#include <lockstep/lockstep.h>

/* Part of the model's state. */
struct ls_loss_scaler {
    float scale;        /* of the next step; 0: losses are not scaled */
    int64_t good_steps; /* that were applied since the scale was changed */
    int64_t skipped;    /* steps, since compile, whose gradients were not finite, and which changed nothing */
};
struct ls_loss_scaler ls_loss_scaler_initial(ls_precision precision);
/* After a step. */
void ls_loss_scaler_update(struct ls_loss_scaler *scaler, bool finite);
/* loss_scale and skipped_steps. */
void ls_loss_scaler_tell(const struct ls_loss_scaler *scaler, ls_result *result);
