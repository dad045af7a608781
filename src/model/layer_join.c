/* Layers that take several outputs: their sum, their product, or side by side along the last axis. Mirrors
 * tf.keras.layers.Add, Multiply and Concatenate. */
#include "base/shape.h"
#include "base/status.h"
#include "model/plan_builder.h"
#include "model/layer.h"
#include "model/network.h"

static ls_status join_check(const struct ls_node *node, size_t position) {
    const char *kind = node->title.name;
    if (node->layer.others[0]) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): name at least one more input, as in ls_%s(\"conv2d\")",
                   position, kind, kind);
}

static ls_status check_inputs(const struct ls_network *network, const struct ls_node *node, size_t position) {
    const char *kind = node->title.name;
    char text[96], other_text[96];
    bool alike = node->layer.kind != LS_LAYER_CONCATENATE;
    for (int i = 1; i < node->input_count; i++) {
        ls_shape first = node->input, other = *ls_network_input_shape(network, node, i);
        ls_shape_text(&first, text, sizeof(text));
        ls_shape_text(&other, other_text, sizeof(other_text));
        if (!alike && first.rank && other.rank) first.dims[first.rank - 1] = other.dims[other.rank - 1] = 1;
        if (!ls_shape_equal(&first, &other) || !first.rank)
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): its inputs have shapes %s and %s", position, kind,
                           text, other_text);
    }
    return LS_OK;
}

static ls_status join_infer(struct ls_network *network, struct ls_node *node, size_t position) {
    ls_status status = check_inputs(network, node, position);
    if (status) return status;
    node->output = node->input;
    for (int i = 1; node->layer.kind == LS_LAYER_CONCATENATE && i < node->input_count; i++) {
        const ls_shape *other = ls_network_input_shape(network, node, i);
        node->output.dims[other->rank - 1] += other->dims[other->rank - 1];
    }
    return LS_OK;
}

static ls_status append_of_two(struct ls_plan_builder *builder, enum ls_op_kind kind, const struct ls_tensor *x,
                               const struct ls_tensor *w, const struct ls_tensor *y) {
    struct ls_op op = {.kind = kind};
    op.tensors[LS_ARG_W] = *w;
    return ls_plan_builder_apply(builder, op, x, y);
}

/* From the first input to the last. */
static ls_status join_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                              const struct ls_node_tensors *at) {
    enum ls_op_kind kind = node->layer.kind == LS_LAYER_ADD ? LS_OP_ADD : LS_OP_MULTIPLY;
    ls_status status = LS_OK;
    for (int i = 1; !status && i < node->input_count; i++)
        status = append_of_two(builder, kind, i == 1 ? &at->x[0] : &at->y, &at->x[i], &at->y);
    return status;
}

/* All gradients are dy: the first that is needed has it, the others have copies. */
static ls_status add_backward(struct ls_plan_builder *builder, const struct ls_node *node, struct ls_node_tensors *at) {
    ls_status status = LS_OK;
    bool given = false;
    for (int i = 0; !status && i < node->input_count; i++) {
        if (!ls_tensor_exists(&at->dx[i])) continue;
        if (given)
            status =
                ls_plan_builder_apply(builder, (struct ls_op){.kind = LS_OP_SCALE, .alpha = 1}, &at->dy, &at->dx[i]);
        else
            at->dx[i] = at->dy;
        given = true;
    }
    return status;
}

/* An input's gradient is dy times all others, from the first to the last. */
static ls_status multiply_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                   struct ls_node_tensors *at) {
    ls_status status = LS_OK;
    for (int i = 0; i < node->input_count; i++) {
        const struct ls_tensor *dx = &at->dx[i], *from = &at->dy;
        for (int k = 0; !status && ls_tensor_exists(dx) && k < node->input_count; k++) {
            if (k == i) continue;
            status = append_of_two(builder, LS_OP_MULTIPLY, from, &at->x[k], dx);
            from = dx;
        }
    }
    return status;
}

/* As a matrix whose columns are the last axis. */
static struct ls_tensor as_columns(struct ls_tensor tensor) {
    int64_t columns = tensor.shape.dims[tensor.shape.rank - 1];
    tensor.shape = LS_SHAPE(ls_shape_count(&tensor.shape) / columns, columns);
    return tensor;
}

static ls_status concatenate_forward(struct ls_plan_builder *builder, const struct ls_node *node,
                                     const struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_PLACE};
    ls_status status = LS_OK;
    for (int i = 0; !status && i < node->input_count; i++) {
        const struct ls_tensor x = as_columns(at->x[i]), y = as_columns(at->y);
        status = ls_plan_builder_apply(builder, op, &x, &y);
        op.column += x.shape.dims[1];
    }
    return status;
}

static ls_status concatenate_backward(struct ls_plan_builder *builder, const struct ls_node *node,
                                      struct ls_node_tensors *at) {
    struct ls_op op = {.kind = LS_OP_TAKE};
    ls_status status = LS_OK;
    for (int i = 0; !status && i < node->input_count; i++) {
        const struct ls_tensor dy = as_columns(at->dy);
        struct ls_tensor dx = as_columns(at->x[i]);
        int64_t columns = dx.shape.dims[1];
        if (ls_tensor_exists(&at->dx[i])) {
            dx = as_columns(at->dx[i]);
            status = ls_plan_builder_apply(builder, op, &dy, &dx);
        }
        op.column += columns;
    }
    return status;
}

const struct ls_layer_type ls_add_type = {
    .kind = LS_LAYER_ADD,
    .title = {"add", "Add"},
    .takes = {.others = {"other"}},
    .check = join_check,
    .infer = join_infer,
    .forward = join_forward,
    .decode = join_forward,
    .backward = add_backward,
};

const struct ls_layer_type ls_multiply_type = {
    .kind = LS_LAYER_MULTIPLY,
    .title = {"multiply", "Multiply"},
    .takes = {.others = {"other"}},
    .check = join_check,
    .infer = join_infer,
    .forward = join_forward,
    .decode = join_forward,
    .backward = multiply_backward,
    .reads_x = true,
};

const struct ls_layer_type ls_concatenate_type = {
    .kind = LS_LAYER_CONCATENATE,
    .title = {"concatenate", "Concatenate"},
    .takes = {.others = {"other"}},
    .check = join_check,
    .infer = join_infer,
    .forward = concatenate_forward,
    .decode = concatenate_forward,
    .backward = concatenate_backward,
};
