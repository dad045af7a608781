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
/* The shape of a value over all rows: of a decoding with its positions. */
ls_shape ls_plan_builder_shape(const struct ls_plan_builder *builder, const ls_shape *example);
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
/* from as another type; itself where it is one. */
ls_status ls_plan_builder_convert(struct ls_plan_builder *builder, const struct ls_tensor *from, ls_dtype type,
                                  struct ls_tensor *to);
struct ls_plan *ls_plan_builder_plan(const struct ls_plan_builder *builder);
/* In a training: with the last op that was appended forward and the loss are done. */
void ls_plan_builder_judged(const struct ls_plan_builder *builder);

/* Rows of the batch, from begin on. */
struct ls_plan_part {
    int64_t begin, rows;
};
/* The loss and metrics of the last layer's outputs for part of the rows. gradient, absent in an evaluation, is where
 * the loss has theirs: it may be outputs. */
ls_status ls_plan_loss_append(struct ls_plan_builder *builder, const struct ls_tensor *outputs,
                              const struct ls_tensor *gradient, const struct ls_plan_part *part);

/* The last layer with the loss, over parts of the rows. */
struct ls_plan_head {
    const struct ls_node *node;
    struct ls_tensor x, dx; /* of all rows; dx is absent where nobody needs it */
    int64_t rows;           /* of a part; the last one may have less */
    bool trains;            /* the outputs' gradient is needed */
};
/* Rows of a part; all rows where the loss is behind the layer as it is elsewhere. */
int64_t ls_plan_head_rows(const struct ls_plan_config *config, const struct ls_node *node);
ls_status ls_plan_head_append(struct ls_plan_builder *builder, const struct ls_plan_head *head);
/* The same of a tensor over all rows. */
struct ls_tensor ls_plan_head_part(struct ls_tensor tensor, const struct ls_plan_part *part);
