/* Checks of an op's arguments, the same for every device. One row a kind lists the arguments that follow from the
 * shapes of the first ones. The checks are pure. They run when an op is built, never when it runs. */
#include "device/op_private.h"

#include <stdio.h>

#include "base/shape.h"
#include "base/status.h"
#include "device/op_layers.h"

typedef ls_status check_fn(const struct ls_op *op);

static ls_status check_argument(const struct ls_op *op, const struct ls_argument *want) {
    const struct ls_tensor *tensor = &op->tensors[want->place];
    const char *kind = ls_op_name(op->kind);
    if (!tensor->data) {
        if (want->optional) return LS_OK;
        return ls_fail(LS_INVALID_ARGUMENT, "%s: argument %s is missing", kind, want->name);
    }
    if (tensor->dtype != want->dtype)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: argument %s is %s, but must be %s", kind, want->name,
                       ls_dtype_name(tensor->dtype), ls_dtype_name(want->dtype));
    if (ls_shape_equal(&tensor->shape, &want->shape)) return LS_OK;
    char is[96], must[96];
    ls_shape_text(&tensor->shape, is, sizeof(is));
    ls_shape_text(&want->shape, must, sizeof(must));
    return ls_fail(LS_INVALID_ARGUMENT, "%s: argument %s has shape %s, but must have %s", kind, want->name, is, must);
}

ls_status ls_op_check_arguments(const struct ls_op *op, const struct ls_argument *wants, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ls_status status = check_argument(op, &wants[i]);
        if (status) return status;
    }
    return LS_OK;
}

ls_status ls_op_check_leading(const struct ls_op *op, int place, const char *name, int rank) {
    const struct ls_shape *shape = &op->tensors[place].shape;
    bool right_rank = !rank || shape->rank == rank;
    if (right_rank && ls_shape_count(shape) > 0) return LS_OK;
    char is[96], axes[24] = "";
    ls_shape_text(shape, is, sizeof(is));
    if (rank) (void)snprintf(axes, sizeof(axes), "%d axes and ", rank);
    return ls_fail(LS_INVALID_ARGUMENT, "%s: argument %s has shape %s, but must have %sat least one element",
                   ls_op_name(op->kind), name, is, axes);
}

ls_dtype ls_op_type(const struct ls_op *op, int place) {
    ls_dtype dtype = op->tensors[place].dtype;
    return dtype == LS_FLOAT16 || dtype == LS_BFLOAT16 ? dtype : LS_FLOAT32;
}

ls_status ls_op_check_activation(const struct ls_op *op) {
    if ((unsigned)op->activation <= LS_SILU) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s: activation %d is no ls_activation", ls_op_name(op->kind),
                   (int)op->activation);
}

static ls_status check_dense(const struct ls_op *op) {
    bool back = op->kind == LS_OP_DENSE_BACKWARD, linear = op->activation == LS_LINEAR;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 2);
    if (!status) status = ls_op_check_leading(op, LS_ARG_W, "w", 2);
    if (status) return status;
    if (!linear && op->activation != LS_RELU)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: activation %d is none that this op has", ls_op_name(op->kind),
                       (int)op->activation);
    int64_t rows = op->tensors[LS_ARG_X].shape.dims[0], in = op->tensors[LS_ARG_X].shape.dims[1];
    int64_t out = op->tensors[LS_ARG_W].shape.dims[1];
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    return LS_CHECK_ARGUMENTS(
        op, {LS_ARG_X, "x", type, false, LS_SHAPE(rows, in)}, {LS_ARG_W, "w", type, false, LS_SHAPE(in, out)},
        {LS_ARG_B, "b", LS_FLOAT32, back || linear, LS_SHAPE(out)},
        {LS_ARG_Y, "y", type, back && linear, LS_SHAPE(rows, out)}, {LS_ARG_DY, "dy", type, !back, LS_SHAPE(rows, out)},
        {LS_ARG_DX, "dx", type, true, LS_SHAPE(rows, in)}, {LS_ARG_DW, "dw", LS_FLOAT32, true, LS_SHAPE(in, out)},
        {LS_ARG_DB, "db", LS_FLOAT32, !back || linear, LS_SHAPE(out)});
}

static ls_status check_activation_forward(const struct ls_op *op) {
    ls_status status = ls_op_check_activation(op);
    return status ? status : ls_op_layers_check_elements(op);
}

static ls_status check_activation_backward(const struct ls_op *op) {
    ls_status status = ls_op_check_activation(op);
    bool takes_x = ls_op_activation_takes_x(op->activation);
    int from = takes_x ? LS_ARG_X : LS_ARG_Y;
    const char *name = takes_x ? "x" : "y";
    if (!status) status = ls_op_check_leading(op, from, name, 0);
    if (status) return status;
    ls_shape shape = op->tensors[from].shape;
    ls_dtype type = ls_op_type(op, from);
    return LS_CHECK_ARGUMENTS(op, {from, name, type, false, shape}, {LS_ARG_DY, "dy", type, false, shape},
                              {LS_ARG_DX, "dx", type, false, shape});
}

/* Outputs or one-hot rows (rows, positions..., classes). */
static ls_status check_judged(const struct ls_op *op, int place, const char *name) {
    return ls_op_check_leading(op, place, name, op->tensors[place].shape.rank < 2 ? 2 : 0);
}

static ls_shape without_classes(ls_shape shape) {
    shape.rank--;
    return shape;
}

/* A loss and a metric compare outputs with labels. */
static ls_status check_compared(const struct ls_op *op) {
    const ls_shape outputs = op->tensors[LS_ARG_LOGITS].shape;
    bool sparse = op->tensors[LS_ARG_LABELS].dtype == LS_INT32;
    return LS_CHECK_ARGUMENTS(
        op, {LS_ARG_LOGITS, "logits", LS_FLOAT32, false, outputs},
        {LS_ARG_LABELS, "labels", sparse ? LS_INT32 : LS_FLOAT32, false, sparse ? without_classes(outputs) : outputs},
        {LS_ARG_WEIGHTS, "weights", LS_FLOAT32, true, LS_SHAPE(outputs.dims[0])},
        {LS_ARG_DLOGITS, "dlogits", LS_FLOAT32, true, outputs});
}

static ls_status check_loss(const struct ls_op *op) {
    ls_status status = check_judged(op, LS_ARG_LOGITS, "logits");
    if (status) return status;
    if (!(op->alpha >= 0 && op->alpha < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "%s: label smoothing %g must be at least 0 and below 1",
                       ls_op_name(op->kind), (double)op->alpha);
    if (op->kind == LS_OP_HUBER && !(op->beta > 0))
        return ls_fail(LS_INVALID_ARGUMENT, "huber: delta %g must be above 0", (double)op->beta);
    if (!op->sums) return ls_fail(LS_INVALID_ARGUMENT, "%s: sums is missing", ls_op_name(op->kind));
    if (op->tensors[LS_ARG_DLOGITS].data && !op->scale)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: scale is missing, but dlogits asks for gradients",
                       ls_op_name(op->kind));
    return check_compared(op);
}

static ls_status check_metric(const struct ls_op *op) {
    ls_status status = check_judged(op, LS_ARG_LOGITS, "logits");
    if (status) return status;
    if (!op->value) return ls_fail(LS_INVALID_ARGUMENT, "%s: value is missing", ls_op_name(op->kind));
    if (op->metric.kind < LS_METRIC_SPARSE_CATEGORICAL_ACCURACY ||
        op->metric.kind > LS_METRIC_MEAN_ABSOLUTE_ERROR || /* those behind are of the loss */
        op->metric.kind == LS_METRIC_MEAN_LOSS)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: metric %d is none that this op has", ls_op_name(op->kind),
                       (int)op->metric.kind);
    return check_compared(op);
}

static ls_status check_one_hot(const struct ls_op *op) {
    ls_status status = check_judged(op, LS_ARG_ONE_HOT, "y");
    const ls_shape shape = op->tensors[LS_ARG_ONE_HOT].shape;
    if (status) return status;
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_LABELS, "labels", LS_INT32, false, without_classes(shape)},
                              {LS_ARG_ONE_HOT, "y", LS_FLOAT32, false, shape});
}

static ls_status check_parts(const struct ls_op *op) {
    size_t count = (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0];
    for (size_t i = 0; i < op->variable_count; i++)
        if (op->variables[i].offset > count || op->variables[i].count > count - op->variables[i].offset)
            return ls_fail(LS_INVALID_ARGUMENT, "%s: part %zu is not in the parameters", ls_op_name(op->kind), i);
    return LS_OK;
}

static int moments_of(const struct ls_op *op) {
    const ls_optimizer *rule = &op->step->rule;
    if (op->kind == LS_OP_SGD) return rule->momentum > 0;
    return op->kind == LS_OP_RMSPROP ? 1 + rule->centered + (rule->momentum > 0) : 2;
}

static ls_status check_optimizer(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_PARAMETERS, "parameters", 1);
    if (status) return status;
    if (!op->step) return ls_fail(LS_INVALID_ARGUMENT, "%s: step is missing", ls_op_name(op->kind));
    status = check_parts(op);
    if (status) return status;
    ls_shape shape = op->tensors[LS_ARG_PARAMETERS].shape;
    int moments = moments_of(op);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_PARAMETERS, "parameters", LS_FLOAT32, false, shape},
                              {LS_ARG_GRADIENTS, "gradients", LS_FLOAT32, false, shape},
                              {LS_ARG_MOMENT_1, "moment 1", LS_FLOAT32, moments < 1, shape},
                              {LS_ARG_MOMENT_2, "moment 2", LS_FLOAT32, moments < 2, shape},
                              {LS_ARG_MOMENT_3, "moment 3", LS_FLOAT32, moments < 3, shape});
}

static ls_status check_penalty(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_PARAMETERS, "parameters", 1);
    if (!status && !op->value) return ls_fail(LS_INVALID_ARGUMENT, "%s: value is missing", ls_op_name(op->kind));
    return status ? status : check_parts(op);
}

static ls_status check_cast(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 0);
    if (status) return status;
    ls_shape shape = op->tensors[LS_ARG_X].shape;
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", ls_op_type(op, LS_ARG_X), false, shape},
                              {LS_ARG_Y, "y", ls_op_type(op, LS_ARG_Y), false, shape});
}

static ls_status check_expand(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 0);
    if (status) return status;
    ls_shape shape = op->tensors[LS_ARG_X].shape;
    int64_t channels = op->tensors[LS_ARG_W].shape.dims[0];
    if (channels < 1 || channels > 3 || shape.dims[shape.rank - 1] % channels)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: w has %lld channels, and x's last axis %lld: 1 to 3 that divide it",
                       ls_op_name(op->kind), (long long)channels, (long long)shape.dims[shape.rank - 1]);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", LS_UINT8, false, shape},
                              {LS_ARG_W, "w", LS_FLOAT32, false, LS_SHAPE(channels, LS_BYTE_VALUES)},
                              {LS_ARG_Y, "y", ls_op_type(op, LS_ARG_Y), false, shape});
}

static ls_status check_finite(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 1);
    if (!status && !op->value) status = ls_fail(LS_INVALID_ARGUMENT, "%s: value is missing", ls_op_name(op->kind));
    return status ? status : LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", LS_FLOAT32, false, op->tensors[LS_ARG_X].shape});
}

static ls_status check_report(const struct ls_op *op) {
    ls_status status = ls_op_check_leading(op, LS_ARG_Y, "y", 1);
    if (status) return status;
    int64_t count = op->tensors[LS_ARG_Y].shape.dims[0];
    if (!op->sums || !op->report || count < LS_REPORT_OTHERS)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: sums or report is missing, or y has fewer than %d elements",
                       ls_op_name(op->kind), LS_REPORT_OTHERS);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_Y, "y", LS_FLOAT32, false, LS_SHAPE(count)});
}

#define KIND(kind, name, check, ...) {name, check},
static const struct {
    const char *name;
    check_fn *check;
} kinds[] = {LS_OP_KINDS(KIND)};

const char *ls_op_name(enum ls_op_kind kind) {
    return (size_t)kind < LS_OP_KIND_COUNT ? kinds[kind].name : "unknown";
}

ls_status ls_op_check(const struct ls_op *op) {
    if ((size_t)op->kind >= LS_OP_KIND_COUNT)
        return ls_fail(LS_INVALID_ARGUMENT, "op kind %d is no ls_op_kind", (int)op->kind);
    return kinds[op->kind].check(op);
}

void ls_op_add_loss_sums(struct ls_loss_sums *to, const struct ls_loss_sums *part) {
    to->loss += part->loss;
    to->correct += part->correct;
    to->rows += part->rows;
    to->uncounted += part->uncounted;
    to->weight += part->weight;
    to->penalty += part->penalty;
    for (int i = 0; i < LS_MAX_METRICS; i++) to->metrics[i] += part->metrics[i];
}
