/* The rule of the loss scale, with Keras' numbers. */
#include "model/loss_scaler.h"

#define INITIAL      0x1p15F
#define GROWTH_STEPS 2000
#define SMALLEST     1.0F    /* below it there is nothing to gain */
#define LARGEST      0x1p64F /* gradients that are all zero fit any scale; its inverse is to be a normal number */

struct ls_loss_scaler ls_loss_scaler_initial(ls_precision precision) {
    return (struct ls_loss_scaler){.scale = precision == LS_MIXED_FLOAT16 ? INITIAL : 0};
}

/* The scale is halved after each step with gradients that are not finite, and doubled after 2000 good ones in a row, as
 * keras.optimizers.LossScaleOptimizer does with its initial_scale and dynamic_growth_steps. The step itself is skipped
 * then: iteration counts it, Adam's correction does not (skipped). */
void ls_loss_scaler_update(struct ls_loss_scaler *scaler, bool finite) {
    if (scaler->scale == 0) return;
    if (!finite) {
        scaler->skipped++;
        scaler->good_steps = 0;
        if (scaler->scale > SMALLEST) scaler->scale /= 2;
    } else if (++scaler->good_steps == GROWTH_STEPS) {
        scaler->good_steps = 0;
        if (scaler->scale < LARGEST) scaler->scale *= 2;
    }
}

void ls_loss_scaler_tell(const struct ls_loss_scaler *scaler, ls_result *result) {
    result->loss_scale = (double)scaler->scale;
    result->skipped_steps = scaler->skipped;
}
