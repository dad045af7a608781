/* Softmax cross-entropy from logits: the row's maximum is subtracted first, exponentials are float32, their sum and the
 * loss are double and added in row order. Mirrors tf.nn.sparse_softmax_cross_entropy_with_logits and its one-hot twin;
 * for one-hot rows both give the same bits. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/cpu.h"

struct row {
    const float *logits, *one_hot; /* one_hot NULL: label counts */
    float *gradient;               /* may be NULL */
    int64_t classes, label;
    double scale;
};

static int64_t argmax(const float *values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
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

static double target(const struct row *row, int64_t c) {
    return row->one_hot ? (double)row->one_hot[c] : c == row->label ? 1.0 : 0.0;
}

/* Turns the exponentials into gradients. */
static void finish_gradient(const struct row *row, double sum) {
    double inverse = 1 / sum;
    for (int64_t c = 0; c < row->classes; c++)
        row->gradient[c] = (float)(((double)row->gradient[c] * inverse - target(row, c)) * row->scale);
}

static double row_loss(const struct row *row, float maximum, double sum) {
    double loss = 0, log_sum = log(sum);
    if (!row->one_hot) return log_sum - (double)(row->logits[row->label] - maximum);
    for (int64_t c = 0; c < row->classes; c++)
        if (row->one_hot[c] != 0) loss += (double)row->one_hot[c] * (log_sum - (double)(row->logits[c] - maximum));
    return loss;
}

static void run_row(const struct row *row, struct ls_loss_sums *sums) {
    int64_t predicted = argmax(row->logits, row->classes);
    float maximum = row->logits[predicted];
    double sum = exponentials(row, maximum);
    sums->loss += row_loss(row, maximum, sum);
    sums->correct += predicted == (row->one_hot ? argmax(row->one_hot, row->classes) : row->label);
    if (row->gradient) finish_gradient(row, sum);
}

static ls_status check_labels(const int32_t *labels, int64_t rows, int64_t classes) {
    for (int64_t r = 0; r < rows; r++)
        if (labels[r] < 0 || labels[r] >= classes)
            return ls_fail(LS_INVALID_ARGUMENT, "row %lld has label %d, but the model has %lld classes: 0 to %lld",
                           (long long)r, (int)labels[r], (long long)classes, (long long)classes - 1);
    return LS_OK;
}

ls_status ls_cpu_softmax_crossentropy(const struct ls_op *op) {
    const struct ls_tensor *logits = &op->tensors[LS_ARG_LOGITS], *labels = &op->tensors[LS_ARG_LABELS];
    float *gradient = op->tensors[LS_ARG_DLOGITS].data;
    int64_t rows = logits->shape.dims[0], classes = logits->shape.dims[1];
    bool sparse = labels->dtype == LS_INT32;
    ls_status status = sparse ? check_labels(labels->data, rows, classes) : LS_OK;
    if (status) return status;
    struct ls_loss_sums sums = {.rows = rows};
    for (int64_t r = 0; r < rows; r++) {
        struct row row = {.logits = (const float *)logits->data + r * classes,
                          .one_hot = sparse ? NULL : (const float *)labels->data + r * classes,
                          .gradient = gradient ? gradient + r * classes : NULL,
                          .classes = classes,
                          .label = sparse ? ((const int32_t *)labels->data)[r] : 0,
                          .scale = op->scale ? (double)*op->scale : 0};
        run_row(&row, &sums);
    }
    *op->sums = sums;
    return LS_OK;
}

ls_status ls_cpu_one_hot(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_ONE_HOT];
    const int32_t *labels = op->tensors[LS_ARG_LABELS].data;
    int64_t rows = y->shape.dims[0], classes = y->shape.dims[1];
    ls_status status = check_labels(labels, rows, classes);
    if (status) return status;
    memset(y->data, 0, (size_t)(rows * classes) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) ((float *)y->data)[r * classes + labels[r]] = 1;
    return LS_OK;
}
