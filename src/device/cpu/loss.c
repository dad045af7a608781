/* Losses, row by row: float32 inputs; sums are double, in row order. Softmax: the row's maximum is subtracted first,
 * exponentials are float32. Mirrors tf.nn.sparse_softmax_cross_entropy_with_logits and its one-hot twin, for which both
 * give the same bits, and keras.losses from probabilities, BinaryCrossentropy, MeanSquaredError, MeanAbsoluteError,
 * Huber, and sample_weight. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/labels.h"

#define EPSILON 1e-7 /* probabilities are kept so far from 0 and 1, as keras.config.epsilon */

struct row {
    const float *logits, *one_hot; /* label counts if one_hot is NULL */
    float *gradient;               /* may be NULL */
    int64_t classes, label;
    double smoothing, scale; /* the row's weight is in scale, and its part in an example's mean */
    double delta;            /* of huber */
};

int64_t ls_cpu_argmax(const float *values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

static double hard_target(const struct row *row, int64_t c) {
    return row->one_hot ? (double)row->one_hot[c] : c == row->label ? 1.0 : 0.0;
}

/* ---- one of several classes ---- */

static double smoothed_target(const struct row *row, int64_t c) {
    return hard_target(row, c) * (1 - row->smoothing) + row->smoothing / (double)row->classes;
}

static double exponentials(const struct row *row, float maximum) {
    double sum = 0;
    for (int64_t c = 0; c < row->classes; c++) {
        float value = expf(row->logits[c] - maximum);
        if (row->gradient) row->gradient[c] = value;
        sum += (double)value;
    }
    return sum;
}

/* Turns the exponentials into gradients. The derivative of the cross-entropy by the logits is softmax - target, for
 * targets that add up to 1. */
static void finish_gradient(const struct row *row, double sum) {
    double inverse = 1 / sum;
    for (int64_t c = 0; c < row->classes; c++)
        row->gradient[c] = (float)(((double)row->gradient[c] * inverse - smoothed_target(row, c)) * row->scale);
}

/* -log softmax = log(sum of exp(x - maximum)) - (x - maximum). The largest exponent is 0, so nothing overflows, and sum
 * is 1 or more, so the logarithm is not below 0. */
static double softmax_loss(const struct row *row, float maximum, double sum) {
    double loss = 0, log_sum = log(sum);
    if (!row->one_hot && row->smoothing == 0) return log_sum - (double)(row->logits[row->label] - maximum);
    for (int64_t c = 0; c < row->classes; c++) {
        double part = smoothed_target(row, c);
        if (part != 0) loss += part * (log_sum - (double)(row->logits[c] - maximum));
    }
    return loss;
}

static void count_class(const struct row *row, int64_t predicted, struct ls_loss_sums *sums) {
    sums->correct += predicted == (row->one_hot ? ls_cpu_argmax(row->one_hot, row->classes) : row->label);
}

static void softmax_loss_row(const struct row *row, struct ls_loss_sums *sums) {
    int64_t predicted = ls_cpu_argmax(row->logits, row->classes);
    float maximum = row->logits[predicted];
    double sum = exponentials(row, maximum);
    sums->loss += softmax_loss(row, maximum, sum);
    count_class(row, predicted, sums);
    if (row->gradient) finish_gradient(row, sum);
}

/* True if the probability lies inside its bounds, or is NaN, which stays NaN, as in Keras. */
static bool is_inside(double probability) {
    return !(probability < EPSILON || probability > 1 - EPSILON);
}

static double keep_inside(double probability) {
    if (is_inside(probability)) return probability;
    return probability < EPSILON ? EPSILON : 1 - EPSILON;
}

/* Probabilities are divided by their sum first; where one is kept inside, it has no gradient of its own. With S = sum,
 * loss = -sum of t log(p / S), so its derivative by p_c is pull / S - t_c / p_c, where pull adds up the targets of the
 * outputs that are not kept inside. */
static void probabilities_row(const struct row *row, struct ls_loss_sums *sums) {
    double sum = 0, pull = 0;
    for (int64_t c = 0; c < row->classes; c++) sum += (double)row->logits[c];
    for (int64_t c = 0; c < row->classes; c++) {
        double share = (double)row->logits[c] / sum, kept = keep_inside(share), part = smoothed_target(row, c);
        if (part != 0) sums->loss -= part * log(kept);
        if (is_inside(share)) pull += part;
    }
    count_class(row, ls_cpu_argmax(row->logits, row->classes), sums);
    for (int64_t c = 0; row->gradient && c < row->classes; c++) {
        double share = (double)row->logits[c] / sum, own = is_inside(share) ? smoothed_target(row, c) / share : 0;
        row->gradient[c] = (float)((pull - own) / sum * row->scale);
    }
}

/* ---- each output by itself ---- */

static double own_target(const struct row *row, int64_t c) {
    return row->classes == 1 && !row->one_hot ? (double)row->label : hard_target(row, c);
}

static double smooth_target(const struct row *row, int64_t c) {
    return own_target(row, c) * (1 - row->smoothing) + 0.5 * row->smoothing;
}

/* max(x, 0) - x z + log(1 + exp(-|x|)) is tf.nn.sigmoid_cross_entropy_with_logits' form: small is at most 1, so no
 * exponential overflows for any x. The gradient is sigmoid(x) - z, from the same small. */
static void sigmoid_row(const struct row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes;
    for (int64_t c = 0; c < row->classes; c++) {
        double x = (double)row->logits[c], wanted = smooth_target(row, c), small = exp(-fabs(x));
        loss += fmax(x, 0) - x * wanted + log1p(small);
        sums->correct += (x > 0) == (own_target(row, c) > 0.5);
        if (row->gradient)
            row->gradient[c] = (float)(((x < 0 ? small : 1) / (1 + small) - wanted) / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

static void binary_row(const struct row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes;
    for (int64_t c = 0; c < row->classes; c++) {
        double given = (double)row->logits[c], p = keep_inside(given), wanted = smooth_target(row, c);
        loss -= wanted * log(p) + (1 - wanted) * log(1 - p);
        sums->correct += (given > 0.5) == (own_target(row, c) > 0.5);
        double slope = is_inside(given) ? (1 - wanted) / (1 - p) - wanted / p : 0;
        if (row->gradient) row->gradient[c] = (float)(slope / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

static void absolute_row(const struct row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes;
    for (int64_t c = 0; c < row->classes; c++) {
        double error = (double)row->logits[c] - own_target(row, c);
        loss += fabs(error);
        if (row->gradient) row->gradient[c] = (float)((double)((error > 0) - (error < 0)) / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

static void huber_row(const struct row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes, delta = row->delta;
    for (int64_t c = 0; c < row->classes; c++) {
        double error = (double)row->logits[c] - own_target(row, c), far = fabs(error);
        loss += far <= delta ? 0.5 * error * error : delta * far - 0.5 * delta * delta;
        double slope = far > delta ? copysign(delta, error) : error;
        if (row->gradient) row->gradient[c] = (float)(slope / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

static void square_row(const struct row *row, struct ls_loss_sums *sums) {
    double loss = 0, outputs = (double)row->classes;
    for (int64_t c = 0; c < row->classes; c++) {
        double error = (double)row->logits[c] - own_target(row, c);
        loss += error * error;
        if (row->gradient) row->gradient[c] = (float)(2 * error / outputs * row->scale);
    }
    sums->loss += loss / outputs;
}

/* ---- all rows ---- */

typedef void row_fn(const struct row *row, struct ls_loss_sums *sums);

static row_fn *row_function(enum ls_op_kind kind) {
    switch (kind) {
    case LS_OP_CROSSENTROPY:
        return probabilities_row;
    case LS_OP_SIGMOID_CROSSENTROPY:
        return sigmoid_row;
    case LS_OP_BINARY_CROSSENTROPY:
        return binary_row;
    case LS_OP_SQUARED_ERROR:
        return square_row;
    case LS_OP_ABSOLUTE_ERROR:
        return absolute_row;
    case LS_OP_HUBER:
        return huber_row;
    default:
        return softmax_loss_row;
    }
}

ls_status ls_cpu_loss(const struct ls_op *op) {
    const struct ls_tensor *logits = &op->tensors[LS_ARG_LOGITS], *labels = &op->tensors[LS_ARG_LABELS];
    const float *weights = op->tensors[LS_ARG_WEIGHTS].data;
    float *gradient = op->tensors[LS_ARG_DLOGITS].data;
    const struct ls_labels_extent extent = ls_labels_extent(&logits->shape);
    int64_t positions = extent.positions, rows = extent.rows * positions, classes = extent.classes;
    bool sparse = labels->dtype == LS_INT32;
    row_fn *run_row = row_function(op->kind);
    ls_status status = sparse ? ls_labels_check(labels->data, rows, ls_labels_classes(op, classes)) : LS_OK;
    if (status) return status;
    struct ls_loss_sums sums = {.rows = extent.rows};
    for (int64_t r = 0; r < rows; r++) {
        double weight = weights ? (double)weights[r / positions] : 1, part = weight / (double)positions;
        struct ls_loss_sums own = {0};
        struct row row = {.logits = (const float *)logits->data + r * classes,
                          .one_hot = sparse ? NULL : (const float *)labels->data + r * classes,
                          .gradient = gradient ? gradient + r * classes : NULL,
                          .classes = classes,
                          .label = sparse ? ((const int32_t *)labels->data)[r] : 0,
                          .smoothing = (double)op->alpha,
                          .scale = op->scale ? (double)*op->scale * part : 0,
                          .delta = (double)op->beta};
        run_row(&row, &own);
        sums.loss += own.loss * part;
        sums.correct += own.correct;
        sums.weight += r % positions ? 0 : weight;
    }
    op->sums->loss = sums.loss;
    op->sums->weight = sums.weight;
    op->sums->correct = sums.correct;
    op->sums->rows = sums.rows;
    return LS_OK;
}

ls_status ls_cpu_one_hot(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_ONE_HOT];
    const int32_t *labels = op->tensors[LS_ARG_LABELS].data;
    const struct ls_labels_extent extent = ls_labels_extent(&y->shape);
    int64_t rows = extent.rows * extent.positions, classes = extent.classes;
    ls_status status = ls_labels_check(labels, rows, ls_labels_classes(op, classes));
    if (status) return status;
    memset(y->data, 0, (size_t)(rows * classes) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) ((float *)y->data)[r * classes + labels[r]] = 1;
    return LS_OK;
}
