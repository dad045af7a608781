/* Both gradients of a depthwise convolution: one convolution's gradient after the other. The kernel's comes first, so
 * that dx may be x. */
#include "base/new.h"
#include "device/cpu/cpu.h"

struct depthwise {
    struct ls_op ops[2];
};

static const enum ls_op_kind kinds[2] = {LS_OP_CONVOLUTION_BACKWARD_WEIGHTS, LS_OP_CONVOLUTION_BACKWARD_DATA};

void ls_cpu_depthwise_discard(struct ls_op *op) {
    struct depthwise *both = op->handle;
    for (int i = 0; both && i < 2; i++) ls_cpu_convolution_discard(&both->ops[i]);
    ls_free(both);
    op->handle = NULL;
}

ls_status ls_cpu_depthwise_build(struct ls_device *device, struct ls_op *op) {
    LS_NEW(struct depthwise, both, "the gradients of a depthwise convolution");
    ls_status status = LS_OK;
    for (int i = 0; i < 2; i++) {
        both->ops[i] = *op;
        both->ops[i].kind = kinds[i];
        both->ops[i].handle = NULL;
    }
    op->handle = both;
    for (int i = 0; !status && i < 2; i++) {
        status = ls_cpu_convolution_build(device, &both->ops[i]);
        if (both->ops[i].workspace_size > op->workspace_size) op->workspace_size = both->ops[i].workspace_size;
    }
    if (status) ls_cpu_depthwise_discard(op);
    return status;
}

/* Memory may have moved since the build, or the last run. */
ls_status ls_cpu_depthwise_backward(const struct ls_op *op) {
    const struct depthwise *both = op->handle;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < 2; i++) {
        struct ls_op one = both->ops[i];
        for (int t = 0; t < LS_OP_TENSORS; t++) one.tensors[t].data = op->tensors[t].data;
        one.workspace = op->workspace;
        status = ls_cpu_convolution_run(&one);
    }
    return status;
}
