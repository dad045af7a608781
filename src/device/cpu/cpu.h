/* The CPU device: its row in the table of kinds, and the declarations that its files share. */
#pragma once
#include "device/cpu/library.h"
#include "device/host.h"

/* The run functions, one concept a file. They compute in the calling thread, in an order that depends on the shapes
 * only; where memory lies changes no bit. */
ls_status ls_cpu_dense_forward(const struct ls_op *op);
ls_status ls_cpu_dense_backward(const struct ls_op *op);
ls_status ls_cpu_convolution_run(const struct ls_op *op);
ls_status ls_cpu_depthwise_backward(const struct ls_op *op);
ls_status ls_cpu_pool_forward(const struct ls_op *op);
ls_status ls_cpu_pool_backward(const struct ls_op *op);
ls_status ls_cpu_batch_norm_forward(const struct ls_op *op);
ls_status ls_cpu_batch_norm_inference(const struct ls_op *op);
ls_status ls_cpu_batch_norm_again(const struct ls_op *op);
ls_status ls_cpu_batch_norm_backward(const struct ls_op *op);
ls_status ls_cpu_batch_norm_backward_data(const struct ls_op *op);
ls_status ls_cpu_activation_forward(const struct ls_op *op);
ls_status ls_cpu_activation_backward(const struct ls_op *op);
ls_status ls_cpu_add(const struct ls_op *op);
ls_status ls_cpu_scale(const struct ls_op *op);
ls_status ls_cpu_place(const struct ls_op *op);
ls_status ls_cpu_take(const struct ls_op *op);
ls_status ls_cpu_embedding_forward(const struct ls_op *op);
ls_status ls_cpu_embedding_backward(const struct ls_op *op);
ls_status ls_cpu_pad(const struct ls_op *op);
ls_status ls_cpu_crop(const struct ls_op *op);
ls_status ls_cpu_dropout(const struct ls_op *op);
ls_status ls_cpu_loss(const struct ls_op *op);
ls_status ls_cpu_metric(const struct ls_op *op);
ls_status ls_cpu_one_hot(const struct ls_op *op);
ls_status ls_cpu_sgd(const struct ls_op *op);
ls_status ls_cpu_adam(const struct ls_op *op);
ls_status ls_cpu_rmsprop(const struct ls_op *op);
ls_status ls_cpu_lamb(const struct ls_op *op);
ls_status ls_cpu_penalty(const struct ls_op *op);
ls_status ls_cpu_merge(const struct ls_op *op);
ls_status ls_cpu_cast(const struct ls_op *op);
ls_status ls_cpu_expand(const struct ls_op *op);
ls_status ls_cpu_finite(const struct ls_op *op);
ls_status ls_cpu_report(const struct ls_op *op);

/* loss.c: the first of the largest ones. */
int64_t ls_cpu_argmax(const float *values, int64_t count);

/* update.c: the steps before the rule. */
ls_status ls_cpu_prepare_update(const struct ls_op *op);

/* The builds of kinds that prepare a handle or workspace_size. */
ls_status ls_cpu_convolution_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_convolution_discard(struct ls_op *op);
ls_status ls_cpu_depthwise_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_depthwise_discard(struct ls_op *op);
ls_status ls_cpu_pool_build(struct ls_device *device, struct ls_op *op);
ls_status ls_cpu_batch_norm_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_batch_norm_discard(struct ls_op *op);
const struct ls_library *ls_cpu_library(const struct ls_device *device);

/* Processor, instruction set and library, for people. */
void ls_cpu_describe(char *text, size_t size);
