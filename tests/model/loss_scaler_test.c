/* The loss scale's rule, as keras.optimizers.LossScaleOptimizer has it, and its limits. */
#include "model/loss_scaler.h"

#include "harness.h"

static void run(struct ls_loss_scaler *scaler, int steps) {
    for (int i = 0; i < steps; i++) ls_loss_scaler_update(scaler, true);
}

TEST(only_float16_is_scaled) {
    const ls_precision others[] = {LS_PRECISION_FLOAT32, LS_PRECISION_TF32, LS_MIXED_BFLOAT16};
    ck_assert(ls_loss_scaler_initial(LS_MIXED_FLOAT16).scale == 32768);
    for (int i = 0; i < 3; i++) {
        struct ls_loss_scaler scaler = ls_loss_scaler_initial(others[i]);
        run(&scaler, 5000);
        ls_loss_scaler_update(&scaler, false);
        ck_assert(scaler.scale == 0 && scaler.good_steps == 0 && scaler.skipped == 0);
    }
}

TEST(the_scale_doubles_after_2000_good_steps) {
    struct ls_loss_scaler scaler = ls_loss_scaler_initial(LS_MIXED_FLOAT16);
    run(&scaler, 1999);
    ck_assert(scaler.scale == 0x1p15F && scaler.good_steps == 1999);
    run(&scaler, 1);
    ck_assert(scaler.scale == 0x1p16F && scaler.good_steps == 0);
    run(&scaler, 2000);
    ck_assert(scaler.scale == 0x1p17F);
}

TEST(the_scale_halves_at_once) {
    struct ls_loss_scaler scaler = ls_loss_scaler_initial(LS_MIXED_FLOAT16);
    run(&scaler, 1999);
    ls_loss_scaler_update(&scaler, false);
    ck_assert(scaler.scale == 0x1p14F && scaler.good_steps == 0 && scaler.skipped == 1);
    run(&scaler, 1999); /* it counts anew */
    ck_assert(scaler.scale == 0x1p14F);
    ls_loss_scaler_update(&scaler, false);
    ls_loss_scaler_update(&scaler, false);
    ck_assert(scaler.scale == 0x1p12F && scaler.skipped == 3);
}

/* The scale and its inverse always are normal numbers, and growing again is possible. */
TEST(the_scale_has_limits) {
    struct ls_loss_scaler scaler = ls_loss_scaler_initial(LS_MIXED_FLOAT16);
    for (int i = 0; i < 100; i++) ls_loss_scaler_update(&scaler, false);
    ck_assert(scaler.scale == 1 && scaler.skipped == 100);
    run(&scaler, 2000);
    ck_assert(scaler.scale == 2);
    run(&scaler, 200 * 2000);
    ck_assert(scaler.scale == 0x1p64F && 1 / scaler.scale == 0x1p-64F);
}

TEST(a_result_tells_the_scale) {
    const struct ls_loss_scaler scaler = {.scale = 0x1p14F, .good_steps = 3, .skipped = 7};
    ls_result result = {.steps = 9};
    ls_loss_scaler_tell(&scaler, &result);
    ck_assert(result.loss_scale == 16384 && result.skipped_steps == 7 && result.steps == 9);
}

TESTS("loss_scaler")
