/* The CPU device: its row in the table of kinds, and what its files share. An op has one run function and no handle. */
#pragma once
#include "device/device.h"

extern const struct ls_device_kind ls_cpu_kind;

/* The run functions, one concept a file. They compute in the calling thread, in an order that depends on the shapes
 * only; where memory lies changes no bit. */
ls_status ls_cpu_dense_forward(const struct ls_op *op);
ls_status ls_cpu_dense_backward(const struct ls_op *op);
ls_status ls_cpu_relu_forward(const struct ls_op *op);
ls_status ls_cpu_relu_backward(const struct ls_op *op);
ls_status ls_cpu_softmax_crossentropy(const struct ls_op *op);
ls_status ls_cpu_one_hot(const struct ls_op *op);
ls_status ls_cpu_sgd(const struct ls_op *op);
ls_status ls_cpu_adam(const struct ls_op *op);

/* Processor, instruction set and library, for people. */
void ls_cpu_describe(char *text, size_t size);
