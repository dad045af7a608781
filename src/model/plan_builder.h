/* Building a plan. */
#pragma once
#include "model/layer.h"
#include "model/plan.h"

#define LS_MOST_KEPT   4
#define LS_KEPT_BEFORE (LS_MOST_KEPT - 1) /* what the layer's activation took, where the slope follows from that */

/* A tensor in the plan's memory, from the first op that has it to the last. */
struct ls_tensor ls_plan_builder_tensor(struct ls_plan_builder *builder, ls_dtype dtype, const ls_shape *shape);
/* All of what the plan was given; absent where that is nothing. */
struct ls_tensor ls_plan_builder_given(const struct ls_plan_builder *builder, enum ls_plan_given given, ls_dtype dtype,
                                       const ls_shape *shape);
/* The node's index-th variable in the blob; and its gradient, or where sums move it its change: absent where it is
 * frozen. A kernel is what products and convolutions take: where they are of 16 bits, its copy. */
struct ls_tensor ls_plan_builder_parameter(const struct ls_plan_builder *builder, const struct ls_node *node,
                                           int index);
struct ls_tensor ls_plan_builder_kernel(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_builder_gradient(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
/* The rows of the node's sparse table that the plan has, and their gradient: float32, on a CPU device. */
struct ls_tensor ls_plan_builder_rows(const struct ls_plan_builder *builder, const struct ls_node *node);
struct ls_tensor ls_plan_builder_row_gradients(const struct ls_plan_builder *builder, const struct ls_node *node);
/* The index-th of the LS_MOST_KEPT tensors of a node that forward leaves to backward. */
struct ls_tensor *ls_plan_builder_kept(struct ls_plan_builder *builder, const struct ls_node *node, int index);
const struct ls_plan_config *ls_plan_builder_config(const struct ls_plan_builder *builder);
ls_status ls_plan_builder_append(struct ls_plan_builder *builder, const struct ls_op *op);
/* The same of an op that makes y of x. */
ls_status ls_plan_builder_apply(struct ls_plan_builder *builder, struct ls_op op, const struct ls_tensor *x,
                                const struct ls_tensor *y);
/* Appends all ops of config to an empty plan; data of tensors in buffers is not set. recompute, not LS_RECOMPUTE_AUTO,
 * takes the place of the objective's. */
ls_status ls_plan_builder_run(const struct ls_plan_config *config, ls_recompute recompute, struct ls_plan *plan);
/* The loss and metrics of the last layer's outputs. gradient, absent in an evaluation, is where the loss has theirs. */
ls_status ls_plan_loss_append(struct ls_plan_builder *builder, const struct ls_tensor *outputs,
                              const struct ls_tensor *gradient);
