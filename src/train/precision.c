/* Mixed precision in training: whether the devices have it, and the loss scale of float16. A step's gradients are
 * looked at when they are summed over all replicas: then all see the same numbers, and all apply them or none does. The
 * scale is part of the model's state; it moves when the step commits. */
#include "train/step.h"

#include "base/options.h"
#include "base/memory.h"
#include "train/model.h"

/* The device is asked for an op of the type, or for a product with factors of it, and says why not. */
static ls_status try_device(struct ls_device *device, ls_dtype dtype) {
    bool rounds = dtype == LS_BFLOAT16 && device->rounds_factors;
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, LS_ALIGNMENT, &memory);
    if (status) return status;
    struct ls_op op = {.kind = rounds ? LS_OP_DENSE_FORWARD : LS_OP_ADD, .bfloat16 = rounds};
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_W] = op.tensors[LS_ARG_Y] =
        (struct ls_tensor){memory, rounds ? LS_FLOAT32 : dtype, rounds ? LS_SHAPE(1, 1) : LS_SHAPE(1), 0};
    status = device->ops->build(device, &op);
    if (!status) device->ops->discard(device, &op);
    device->ops->release(device, memory);
    return status;
}

ls_status ls_precision_try(const ls_strategy *strategy, ls_precision precision) {
    ls_dtype dtype = ls_option_names_precision_dtype(precision);
    ls_status status = LS_OK;
    for (int i = 0; !status && dtype != LS_FLOAT32 && i < strategy->local_count; i++)
        status = try_device(strategy->replicas[i].device, dtype);
    return status ? ls_fail_context(status, "precision %s", ls_option_names_precision(precision)) : LS_OK;
}

/* Gradients that are not finite change no replica. It waits for the answer. */
static ls_status look_at_gradients(const struct ls_model_replica *replica, bool *goes_on) {
    ls_status status = ls_device_wait(replica->device);
    *goes_on = ls_precision_scaling_is_finite(replica);
    return status;
}

ls_status ls_precision_scaling_build(const ls_model *model, struct ls_model_replica *replica) {
    if (model->progress.scaler.scale == 0) return LS_OK;
    struct ls_op op = {.kind = LS_OP_FINITE, .value = &replica->numbers->not_finite};
    op.tensors[LS_ARG_X] =
        (struct ls_tensor){replica->gradients, LS_FLOAT32, LS_SHAPE((int64_t)model->built.summed_count), 0};
    replica->updates[LS_UPDATE_FINITE].look = look_at_gradients;
    replica->watched = true;
    return ls_update_add(replica, LS_UPDATE_FINITE, &op);
}

/* The loss is multiplied by scale before backward, so that small gradients do not vanish in float16, and the optimizer
 * multiplies by unscale before anything else (Micikevicius et al. 2018, "Mixed precision training"; Keras'
 * LossScaleOptimizer). scale is a power of two: both products are exact but for overflow and denormals. */
void ls_precision_scaling_begin(ls_model *model) {
    float scale = model->progress.scaler.scale > 0 ? model->progress.scaler.scale : 1;
    for (int i = 0; i < model->strategy->local_count; i++)
        model->built.numbers->replicas[i].gradient_scale = model->built.numbers->loss_scale * scale;
    model->progress.step.unscale = 1 / scale;
    model->progress.step.skipped = model->progress.scaler.skipped;
}

bool ls_precision_scaling_is_finite(const struct ls_model_replica *replica) {
    return !ls_update_has(replica, LS_UPDATE_FINITE) || replica->numbers->not_finite == 0;
}
