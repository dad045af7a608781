/* Shared by the files of losses, optimizers and elements. */
#pragma once
#include "device/cuda/cuda.h"

/* Zeroed device memory that an op keeps from build to discard, as its handle's own. */
ls_status ls_cuda_keep(struct ls_cuda_device *device, struct ls_op *op, size_t size);
void ls_cuda_let_go(struct ls_op *op);
static inline void *ls_cuda_kept(const struct ls_op *op) {
    return ls_cuda_op_of(op)->own;
}

/* losses.c */
ls_status ls_cuda_loss_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_loss_run(const struct ls_op *op);
ls_status ls_cuda_metric_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_metric_run(const struct ls_op *op);
ls_status ls_cuda_one_hot_run(const struct ls_op *op);

/* sequences.c */
ls_status ls_cuda_attention_build(struct ls_cuda_device *device, struct ls_op *op);
ls_status ls_cuda_attention_run(const struct ls_op *op);
ls_status ls_cuda_position_run(const struct ls_op *op);

/* recurrent.c */
ls_status ls_cuda_recurrent_build(struct ls_cuda_device *device, struct ls_op *op);
void ls_cuda_recurrent_discard(struct ls_op *op);
ls_status ls_cuda_recurrent_run(const struct ls_op *op);

/* optimizers.c */
ls_status ls_cuda_optimizer_build(struct ls_cuda_device *device, struct ls_op *op);
void ls_cuda_optimizer_discard(struct ls_op *op);
ls_status ls_cuda_optimizer_run(const struct ls_op *op);
ls_status ls_cuda_penalty_run(const struct ls_op *op);
