/* Checks of the ops of layers. */
#pragma once
#include "device/op.h"
#include "device/op_private.h"

/* The number of values that a run of the op, with all its parts, adds over all replicas. 0 means none. */
size_t ls_op_layers_exchanged(const struct ls_op *op);
/* Positions of a window along an axis (0: height, 1: width) of so many elements; 0 where it does not fit. */
int64_t ls_op_layers_positions(const struct ls_window *window, int axis, int64_t size);
ls_status ls_op_layers_check_convolution(const struct ls_op *op);
ls_status ls_op_layers_check_pool(const struct ls_op *op);
ls_status ls_op_layers_check_pad(const struct ls_op *op);
ls_status ls_op_layers_check_batch_norm(const struct ls_op *op);
ls_status ls_op_layers_check_layer_norm(const struct ls_op *op);
ls_status ls_op_layers_check_elements(const struct ls_op *op); /* y of x's shape */
ls_status ls_op_layers_check_embedding(const struct ls_op *op);
ls_status ls_op_layers_check_columns(const struct ls_op *op);

/* op_sequence.c */
ls_status ls_op_sequence_check_attention(const struct ls_op *op);
ls_status ls_op_sequence_check_decode(const struct ls_op *op);
ls_status ls_op_sequence_check_position(const struct ls_op *op);
ls_status ls_op_sequence_check_recurrent(const struct ls_op *op);
/* Floats of a head, by the shape of x. */
int64_t ls_op_sequence_width(const struct ls_attention *attention, const ls_shape *x);
