/* The CPU device: its row in the table of kinds, and the declarations that its files share. */
#pragma once
#include "device/cpu/library.h"
#include "device/host.h"

/* The run functions, one concept a file. They compute in the calling thread, in an order that depends on the shapes
 * only; where memory lies changes no bit. */
#define LS_CPU_RUN(kind, name, check, run, ...) ls_op_run_fn run;
LS_OP_KINDS(LS_CPU_RUN)

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
