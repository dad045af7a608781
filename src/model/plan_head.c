/* The last layer and the loss over a part of the rows at a time, where outputs are large, as logits over a vocabulary
 * are. A part's forward, loss and backward come one after the other, so the outputs of one part are there at a time,
 * and their gradient takes their place. Gradients of variables and the loss's sums add up from part to part. The rows
 * of a part follow from shapes alone, and with them the order of all sums. */
#include "model/plan_builder.h"

#include "base/shape.h"
#include "model/network.h"

/* A part has at least so many positions, for each one passes over the kernel's gradient; and so many outputs. */
#define PART_POSITIONS 256
#define PART_OUTPUTS   (INT64_C(1) << 20)
#define MOST_PARTS     64

static int64_t quotient_up(int64_t count, int64_t by) {
    return count / by + (count % by != 0);
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t ls_plan_head_rows(const struct ls_plan_config *config, const struct ls_node *node) {
    int64_t outputs = ls_network_outputs(config->network);
    int64_t positions = ls_objective_positions(&config->objective, ls_network_output_shape(config->network));
    int64_t least = larger(quotient_up(PART_POSITIONS, positions), quotient_up(PART_OUTPUTS, outputs));
    bool judged = config->labels || config->numbers;
    least = larger(least, quotient_up(config->rows, MOST_PARTS));
    if (!judged || !node->type->divides || node->layer.activation || config->rows < 2 * least) return config->rows;
    return quotient_up(config->rows, config->rows / least);
}

struct ls_tensor ls_plan_head_part(struct ls_tensor tensor, const struct ls_plan_part *part) {
    if (!ls_tensor_exists(&tensor)) return tensor;
    size_t size = (size_t)(ls_shape_count(&tensor.shape) / tensor.shape.dims[0]) * ls_dtype_size(tensor.dtype);
    tensor.within += (size_t)part->begin * size;
    tensor.shape.dims[0] = part->rows;
    return tensor;
}

/* Ops from first on that make sums over rows: they are not the first to do so. */
static void add_up(struct ls_plan *plan, size_t first) {
    for (size_t i = first; i < plan->count; i++) {
        struct ls_op *op = &plan->steps[i].op;
        op->adds = op->sums || op->value || ls_tensor_exists(&op->tensors[LS_ARG_DW]);
    }
}

static ls_status append_back(struct ls_plan_builder *builder, const struct ls_plan_head *head,
                             const struct ls_tensor *gradient, struct ls_node_tensors *at) {
    ls_status status = ls_plan_builder_convert(builder, gradient, at->y.dtype, &at->dy);
    return status ? status : head->node->type->backward(builder, head->node, at);
}

static ls_status append_part(struct ls_plan_builder *builder, const struct ls_plan_head *head,
                             const struct ls_plan_part *part) {
    struct ls_plan *plan = ls_plan_builder_plan(builder);
    const ls_shape shape = ls_shape_of_rows(part->rows, &head->node->output);
    struct ls_node_tensors at = {.x = {ls_plan_head_part(head->x, part)}, .dx = {ls_plan_head_part(head->dx, part)}};
    struct ls_tensor outputs, gradient = {0};
    size_t first = plan->count;
    at.y = ls_plan_builder_tensor(builder, head->x.dtype, &shape);
    ls_status status = head->node->type->forward(builder, head->node, &at);
    if (!status) status = ls_plan_builder_convert(builder, &at.y, LS_FLOAT32, &outputs);
    if (status) return status;
    if (head->trains) gradient = outputs;
    status = ls_plan_loss_append(builder, &outputs, &gradient, part);
    if (!status && part->begin + part->rows == ls_plan_builder_config(builder)->rows) ls_plan_builder_judged(builder);
    if (!status && head->trains) status = append_back(builder, head, &gradient, &at);
    if (part->begin) add_up(plan, first);
    return status;
}

ls_status ls_plan_head_append(struct ls_plan_builder *builder, const struct ls_plan_head *head) {
    int64_t rows = ls_plan_builder_config(builder)->rows;
    ls_status status = LS_OK;
    struct ls_plan_part part = {0, head->rows};
    for (; !status && part.begin < rows; part.begin += part.rows) {
        if (part.rows > rows - part.begin) part.rows = rows - part.begin;
        status = append_part(builder, head, &part);
    }
    return status;
}
