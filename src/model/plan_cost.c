/* The costs of a plan that is only laid out: nothing of it is built. */
#include "model/plan.h"

#include "base/memory.h"
#include "base/shape.h"
#include "model/plan_builder.h"

static double size_of(const struct ls_op *op, int place) {
    const struct ls_tensor *tensor = &op->tensors[place];
    if (!tensor->data && !tensor->buffer) return 0;
    return (double)ls_shape_count(&tensor->shape) * (double)ls_dtype_size(tensor->dtype);
}

/* Statistics come before y, sums before dx. */
double ls_plan_cost_moved(const struct ls_op *op) {
    bool forward = op->kind == LS_OP_BATCH_NORM_FORWARD && size_of(op, LS_ARG_Y) > 0;
    bool backward = op->kind == LS_OP_BATCH_NORM_BACKWARD && size_of(op, LS_ARG_DX) > 0;
    double bytes = forward || backward ? size_of(op, LS_ARG_X) : 0;
    if (backward) bytes += size_of(op, LS_ARG_DY);
    for (int place = 0; place < LS_OP_TENSORS; place++) bytes += size_of(op, place);
    return bytes;
}

ls_status ls_plan_cost(const struct ls_plan_config *config, ls_recompute recompute, struct ls_plan_cost *cost) {
    struct ls_plan plan = {.device = config->device};
    ls_status status = ls_plan_builder_run(config, recompute, &plan);
    if (!status) status = ls_plan_place(&plan, config->rows);
    *cost = (struct ls_plan_cost){.arena = plan.floats * sizeof(float)};
    for (size_t i = 0; i < plan.count; i++) cost->moved += ls_plan_cost_moved(&plan.steps[i].op);
    ls_free(plan.steps);
    ls_free(plan.buffers);
    return status;
}
