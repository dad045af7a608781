/* Mixed precision in training: whether the devices have it, and the loss scale of float16. A step's gradients are
 * looked at when they are summed over all replicas: then all see the same numbers, and all apply them or none does. The
 * scale is part of the model's state; it moves when the step commits. */
#include "base/dtype.h"
#include "base/memory.h"
#include "strategy/model.h"

/* The device is asked for an op of the type, and says why not. */
static ls_status try_device(struct ls_device *device, ls_dtype dtype) {
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, LS_ALIGNMENT, &memory);
    if (status) return status;
    struct ls_op op = {.kind = LS_OP_ADD};
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_W] = op.tensors[LS_ARG_Y] =
        (struct ls_tensor){memory, dtype, LS_SHAPE(1), 0};
    status = device->ops->build(device, &op);
    if (!status) device->ops->discard(device, &op);
    device->ops->release(device, memory);
    return status;
}

ls_status ls_precision_try(const ls_strategy *strategy, ls_precision precision) {
    ls_dtype dtype = ls_precision_dtype(precision);
    ls_status status = LS_OK;
    for (int i = 0; !status && dtype != LS_FLOAT32 && i < strategy->local_count; i++)
        status = try_device(strategy->replicas[i].device, dtype);
    return status ? ls_fail_context(status, "precision %s", ls_precision_name(precision)) : LS_OK;
}

ls_status ls_scaling_build(const ls_model *model, struct ls_model_replica *replica) {
    if (model->scaler.scale == 0) return LS_OK;
    struct ls_op op = {.kind = LS_OP_FINITE, .value = &replica->numbers->not_finite};
    op.tensors[LS_ARG_X] = (struct ls_tensor){replica->gradients, LS_FLOAT32, LS_SHAPE((int64_t)model->blob_count), 0};
    ls_status status = replica->device->ops->build(replica->device, &op);
    replica->finite = op;
    replica->finite_built = !status;
    return status;
}

void ls_scaling_release(struct ls_model_replica *replica) {
    if (replica->finite_built) replica->device->ops->discard(replica->device, &replica->finite);
    replica->finite_built = false;
}

void ls_scaling_begin(ls_model *model) {
    float scale = model->scaler.scale > 0 ? model->scaler.scale : 1;
    model->numbers->gradient_scale = model->numbers->loss_scale * scale;
    model->step.unscale = 1 / scale;
    model->step.skipped = model->scaler.skipped;
}

ls_status ls_scaling_look(const struct ls_model_replica *replica) {
    if (!replica->finite_built) return LS_OK;
    ls_status status = replica->finite.run(&replica->finite);
    return status ? status : ls_device_wait(replica->device);
}

bool ls_scaling_is_finite(const struct ls_model_replica *replica) {
    return !replica->finite_built || replica->numbers->not_finite == 0;
}
