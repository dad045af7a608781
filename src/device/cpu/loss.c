/* Losses, row by row: float32 inputs; sums are double, in row order. Softmax: the row's maximum is subtracted first,
 * exponentials are float32, in lanes whose sums join in a fixed order. Mirrors
 * tf.nn.sparse_softmax_cross_entropy_with_logits and its one-hot twin, for which both give the same bits, and
 * keras.losses from probabilities, BinaryCrossentropy, MeanSquaredError, MeanAbsoluteError, Huber, and sample_weight.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"
#include "device/labels.h"
#include "device/output_loss.h"

#define MAXIMA 16   /* side by side */
#define SUMS   8    /* side by side */
#define SHORT  32   /* elements */
#define BLOCK  1024 /* exponentials that are added while they are in the cache; a multiple of SUMS */

/* A NaN at first stays, others do not count. */
LS_CLONES static float loss_largest(const float *values, int64_t count) {
    float lanes[MAXIMA];
    int64_t whole = count / MAXIMA * MAXIMA;
    for (int l = 0; l < MAXIMA; l++) lanes[l] = values[0];
    for (int64_t i = 0; i < whole; i += MAXIMA)
        for (int l = 0; l < MAXIMA; l++) lanes[l] = values[i + l] > lanes[l] ? values[i + l] : lanes[l];
    for (int64_t i = whole; i < count; i++) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
    for (int l = 1; l < MAXIMA; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}

int64_t ls_cpu_argmax(const float *values, int64_t count) {
    float largest = loss_largest(values, count);
    for (int64_t i = 0; i < count; i++)
        if (values[i] >= largest) return i;
    return 0;
}

int64_t ls_cpu_row_label(const struct ls_cpu_row *row) {
    return row->one_hot ? ls_cpu_argmax(row->one_hot, row->classes) : row->label;
}

double ls_cpu_row_target(const struct ls_cpu_row *row, int64_t c) {
    if (row->one_hot) return (double)row->one_hot[c];
    return row->classes == 1 ? (double)row->label : (double)(c == row->label);
}

/* ---- one of several classes ---- */

static double smoothed_target(const struct ls_cpu_row *row, int64_t c) {
    double hard = row->one_hot ? (double)row->one_hot[c] : (double)(c == row->label);
    return hard * (1 - row->smoothing) + row->smoothing / (double)row->classes;
}

LS_CLONES static void loss_exponentials(float *y, const float *x, float maximum, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = ls_lanes_exp(x[i] - maximum);
}

/* Rows that are too short to gain from lanes take libm's, whose error is half as large. */
static void fill_exponentials(float *y, const float *x, float maximum, int64_t count) {
    if (count >= SHORT)
        loss_exponentials(y, x, maximum, count);
    else
        for (int64_t i = 0; i < count; i++) y[i] = expf(x[i] - maximum);
}

/* Element i goes to lane i mod SUMS. */
LS_CLONES static void loss_add(double *restrict lanes, const float *restrict values, int64_t rounds) {
    for (int64_t r = 0; r < rounds; r++)
        for (int l = 0; l < SUMS; l++) lanes[l] += (double)values[r * SUMS + l];
}

/* A block at a time, which stays in the cache between the two loops. Returns the sum. */
static double exponentials(const struct ls_cpu_row *row, float maximum) {
    float block[BLOCK];
    double lanes[SUMS] = {0};
    for (int64_t at = 0; at < row->classes; at += BLOCK) {
        int64_t count = row->classes - at < BLOCK ? row->classes - at : BLOCK, rounds = count / SUMS;
        float *values = row->gradient ? row->gradient + at : block;
        fill_exponentials(values, row->outputs + at, maximum, count);
        loss_add(lanes, values, rounds);
        for (int64_t i = rounds * SUMS; i < count; i++) lanes[i % SUMS] += (double)values[i];
    }
    for (int n = SUMS / 2; n; n /= 2)
        for (int l = 0; l < n; l++) lanes[l] += lanes[l + n];
    return lanes[0];
}

LS_CLONES static void loss_slopes(float *g, double inverse, double target, double scale, int64_t count) {
    for (int64_t i = 0; i < count; i++) g[i] = (float)(((double)g[i] * inverse - target) * scale);
}

/* Turns the exponentials into gradients. The derivative of the cross-entropy by the logits is softmax - target, for
 * targets that add up to 1. A label's row has two targets: its own, and that of all others. */
static void finish_gradient(const struct ls_cpu_row *row, double sum) {
    double inverse = 1 / sum;
    if (row->one_hot) {
        for (int64_t c = 0; c < row->classes; c++)
            row->gradient[c] = (float)(((double)row->gradient[c] * inverse - smoothed_target(row, c)) * row->scale);
        return;
    }
    float own = row->gradient[row->label];
    loss_slopes(row->gradient, inverse, row->smoothing / (double)row->classes, row->scale, row->classes);
    loss_slopes(&own, inverse, smoothed_target(row, row->label), row->scale, 1);
    row->gradient[row->label] = own;
}

/* The sums over the classes of targets, and of targets times x - maximum. */
struct weighed {
    double targets, below;
};

static struct weighed weigh_targets(const struct ls_cpu_row *row, float maximum) {
    struct weighed sums = {0, 0};
    if (!row->one_hot && row->smoothing == 0) return (struct weighed){1, (double)(row->outputs[row->label] - maximum)};
    for (int64_t c = 0; c < row->classes; c++) {
        double part = smoothed_target(row, c);
        sums.targets += part;
        if (part != 0) sums.below += part * (double)(row->outputs[c] - maximum);
    }
    return sums;
}

static void count_class(const struct ls_cpu_row *row, int64_t predicted, struct ls_loss_sums *sums) {
    sums->correct += predicted == ls_cpu_row_label(row);
}

/* -log softmax = log(sum of exp(x - maximum)) - (x - maximum). The largest exponent is 0, so nothing overflows, and sum
 * is 1 or more, so the logarithm is not below 0. The outputs may give way to the exponentials. */
static void softmax_loss_row(const struct ls_cpu_row *row, struct ls_loss_sums *sums) {
    int64_t predicted = ls_cpu_argmax(row->outputs, row->classes);
    float maximum = row->outputs[predicted];
    const struct weighed weighed = weigh_targets(row, maximum);
    double sum = exponentials(row, maximum);
    sums->loss += weighed.targets * log(sum) - weighed.below;
    count_class(row, predicted, sums);
    if (row->gradient) finish_gradient(row, sum);
}

/* Probabilities are divided by their sum first; where one is kept inside, it has no gradient of its own. With S = sum,
 * loss = -sum of t log(p / S), so its derivative by p_c is pull / S - t_c / p_c, where pull adds up the targets of the
 * outputs that are not kept inside. */
static void probabilities_row(const struct ls_cpu_row *row, struct ls_loss_sums *sums) {
    double sum = 0, pull = 0;
    for (int64_t c = 0; c < row->classes; c++) sum += (double)row->outputs[c];
    for (int64_t c = 0; c < row->classes; c++) {
        double share = (double)row->outputs[c] / sum, kept = ls_output_keep_inside(share),
               part = smoothed_target(row, c);
        if (part != 0) sums->loss -= part * log(kept);
        if (ls_output_is_inside(share)) pull += part;
    }
    count_class(row, ls_cpu_argmax(row->outputs, row->classes), sums);
    for (int64_t c = 0; row->gradient && c < row->classes; c++) {
        double share = (double)row->outputs[c] / sum,
               own = ls_output_is_inside(share) ? smoothed_target(row, c) / share : 0;
        row->gradient[c] = (float)((pull - own) / sum * row->scale);
    }
}

/* ---- each output by itself ---- */

static void judge_outputs(enum ls_op_kind kind, const struct ls_cpu_row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes;
    for (int64_t c = 0; c < row->classes; c++) {
        const struct ls_output_loss part =
            ls_output_loss(kind, (double)row->outputs[c], ls_cpu_row_target(row, c), row->smoothing, row->delta);
        loss += part.loss;
        sums->correct += part.right;
        if (row->gradient) row->gradient[c] = (float)(part.slope / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

/* ---- all rows ---- */

static void leave_out(const struct ls_cpu_row *row, struct ls_loss_sums *sums) {
    if (row->gradient) memset(row->gradient, 0, (size_t)row->classes * sizeof(*row->gradient));
    sums->uncounted = 1;
}

static void run_row(enum ls_op_kind kind, const struct ls_cpu_row *row, struct ls_loss_sums *sums) {
    if (row->uncounted)
        leave_out(row, sums);
    else if (kind == LS_OP_SOFTMAX_CROSSENTROPY)
        softmax_loss_row(row, sums);
    else if (kind == LS_OP_CROSSENTROPY)
        probabilities_row(row, sums);
    else
        judge_outputs(kind, row, sums);
}

ls_status ls_cpu_rows_check(const struct ls_op *op, int64_t *rows) {
    const struct ls_tensor *labels = &op->tensors[LS_ARG_LABELS];
    const struct ls_labels_extent extent = ls_labels_extent(&op->tensors[LS_ARG_LOGITS].shape);
    *rows = extent.rows * extent.positions;
    if (labels->dtype != LS_INT32) return LS_OK;
    return ls_labels_check(labels->data, *rows, ls_labels_classes(op, extent.classes), ls_labels_least(op, &extent));
}

struct ls_cpu_row ls_cpu_row_at(const struct ls_op *op, int64_t r) {
    const struct ls_tensor *labels = &op->tensors[LS_ARG_LABELS];
    const float *outputs = op->tensors[LS_ARG_LOGITS].data, *weights = op->tensors[LS_ARG_WEIGHTS].data;
    const struct ls_labels_extent extent = ls_labels_extent(&op->tensors[LS_ARG_LOGITS].shape);
    float *gradient = op->tensors[LS_ARG_DLOGITS].data;
    bool sparse = labels->dtype == LS_INT32;
    int64_t label = sparse ? ((const int32_t *)labels->data)[r] : 0;
    double weight = weights ? (double)weights[r / extent.positions] : 1, part = weight / (double)extent.positions;
    return (struct ls_cpu_row){.outputs = outputs + r * extent.classes,
                               .one_hot = sparse ? NULL : (const float *)labels->data + r * extent.classes,
                               .gradient = gradient ? gradient + r * extent.classes : NULL,
                               .classes = extent.classes,
                               .positions = extent.positions,
                               .label = label,
                               .uncounted = label < 0 && ls_labels_least(op, &extent) < 0,
                               .weight = weight,
                               .part = part,
                               .smoothing = (double)op->alpha,
                               .scale = op->scale ? (double)*op->scale * part : 0,
                               .delta = (double)op->beta};
}

ls_status ls_cpu_loss(const struct ls_op *op) {
    struct ls_loss_sums sums = op->adds ? *op->sums : (struct ls_loss_sums){0};
    int64_t rows = 0, before = sums.uncounted; /* before the example's first position */
    ls_status status = ls_cpu_rows_check(op, &rows);
    if (status) return status;
    for (int64_t r = 0; r < rows; r++) {
        const struct ls_cpu_row row = ls_cpu_row_at(op, r);
        struct ls_loss_sums own = {0};
        run_row(op->kind, &row, &own);
        sums.loss += own.loss * row.part;
        sums.correct += own.correct;
        sums.uncounted += own.uncounted;
        if ((r + 1) % row.positions) continue;
        sums.weight += row.weight * ((double)(row.positions - sums.uncounted + before) / (double)row.positions);
        before = sums.uncounted;
    }
    op->sums->loss = sums.loss;
    op->sums->weight = sums.weight;
    op->sums->correct = sums.correct;
    op->sums->rows = sums.rows + op->tensors[LS_ARG_LOGITS].shape.dims[0];
    op->sums->uncounted = sums.uncounted;
    return LS_OK;
}

ls_status ls_cpu_one_hot(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_ONE_HOT];
    const int32_t *labels = op->tensors[LS_ARG_LABELS].data;
    const struct ls_labels_extent extent = ls_labels_extent(&y->shape);
    int64_t rows = extent.rows * extent.positions, classes = extent.classes;
    ls_status status = ls_labels_check(labels, rows, ls_labels_classes(op, classes), 0);
    if (status) return status;
    memset(y->data, 0, (size_t)(rows * classes) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) ((float *)y->data)[r * classes + labels[r]] = 1;
    return LS_OK;
}
