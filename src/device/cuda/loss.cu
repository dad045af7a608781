/* Losses and metrics: a block a row, whose sum goes to scratch; then one block adds the rows in a fixed order and
 * writes the sums to host memory. Numbers are those of the CPU: exponentials in float32, all else in double, which
 * costs nothing beside reading the outputs (rows x classes x 4 bytes, twice that with gradients). */
#include <float.h>

#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"
#include "device/output_loss.h"

namespace {

struct row {
    const float *outputs, *one_hot; /* label counts if one_hot is NULL */
    int64_t classes, label;
    double weight; /* as a part in its example's mean */
};

__device__ double weight_of(const struct ls_cuda_label_rows &rows, int64_t row) {
    return rows.weights ? static_cast<double>(rows.weights[row / rows.positions]) : 1.0;
}

__device__ bool is_class(const struct ls_cuda_label_rows &rows, int64_t label) {
    return !rows.limit || (label >= rows.least && label < rows.limit);
}

/* False where the block's row has a label that is no class. */
__device__ bool find_row(const struct ls_cuda_label_rows &rows, struct row *row) {
    int64_t at = blockIdx.x, first = at * rows.classes;
    *row = {rows.outputs + first, rows.one_hot ? rows.one_hot + first : nullptr, rows.classes,
            rows.labels ? rows.labels[at] : 0, weight_of(rows, at) / static_cast<double>(rows.positions)};
    return !rows.labels || is_class(rows, row->label);
}

/* Called by one block: whether there is such a label; the first is the fault, unless there was one before. A kernel
 * cannot return an error. The fault lies in host memory, where the host finds it after the wait; the sums are left as
 * they were. */
__device__ bool find_fault(const struct ls_cuda_label_rows &rows) {
    if (!rows.labels) return false;
    long long bad = rows.rows;
    for (int64_t r = rows.rows - 1 - threadIdx.x; r >= 0; r -= blockDim.x)
        if (!is_class(rows, rows.labels[r])) bad = r;
    bad = ls_block_minimum(bad);
    if (bad == rows.rows) return false;
    if (threadIdx.x == 0 && !rows.fault->found) *rows.fault = {bad, rows.limit, rows.labels[bad], 1};
    return true;
}

/* Of the block's row, or another one. */
__device__ bool is_uncounted(const struct ls_cuda_label_rows &rows, int64_t at) {
    return rows.least < 0 && rows.labels[at] < 0;
}

__device__ double hard_target(const struct row &row, int64_t c) {
    return row.one_hot ? static_cast<double>(row.one_hot[c]) : c == row.label ? 1.0 : 0.0;
}

/* A single output has the label itself. */
__device__ double own_target(const struct row &row, int64_t c) {
    return row.classes == 1 && !row.one_hot ? static_cast<double>(row.label) : hard_target(row, c);
}

__device__ int64_t label_of(const struct row &row) {
    return row.one_hot ? ls_block_argmax(row.one_hot, row.classes) : row.label;
}

__device__ void finish_row(const struct ls_cuda_loss &loss, const struct row &row, double value, int64_t correct) {
    if (threadIdx.x != 0) return;
    loss.row_losses[blockIdx.x] = value * row.weight;
    loss.row_correct[blockIdx.x] = correct;
}

/* The scale of a row's gradient. */
__device__ double scale_of(const struct ls_cuda_loss &loss, const struct row &row) {
    return loss.scale * row.weight;
}

__device__ float *gradient_of(const struct ls_cuda_loss &loss) {
    return loss.gradient ? loss.gradient + static_cast<int64_t>(blockIdx.x) * loss.rows.classes : nullptr;
}

/* True for the block's row without a label that counts: it has no loss and no gradient. */
__device__ bool leave_out(const struct ls_cuda_loss &loss, const struct row &row) {
    float *gradient = gradient_of(loss);
    if (!is_uncounted(loss.rows, blockIdx.x)) return false;
    for (int64_t c = threadIdx.x; gradient && c < row.classes; c += blockDim.x) gradient[c] = 0;
    finish_row(loss, row, 0, 0);
    return true;
}

/* ---- one of several classes ---- */

__device__ double target(const struct ls_cuda_loss &loss, const struct row &row, int64_t c) {
    return hard_target(row, c) * (1 - loss.smoothing) + loss.smoothing / static_cast<double>(row.classes);
}

/* The row is read three times and the exponential computed twice: a row of outputs mostly lies in the first-level
 * cache, and the gradient is written once instead of being read back. */
__global__ void softmax_rows(struct ls_cuda_loss loss) {
    struct row row;
    if (!find_row(loss.rows, &row) || leave_out(loss, row)) return;
    float *gradient = gradient_of(loss);
    double scale = scale_of(loss, row);
    int64_t predicted = ls_block_argmax(row.outputs, row.classes);
    float maximum = row.outputs[predicted];
    double sum = 0, value = 0;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x)
        sum += static_cast<double>(expf(row.outputs[c] - maximum));
    sum = ls_block_sum(sum);
    double log_sum = log(sum), inverse = 1 / sum;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) {
        float below = row.outputs[c] - maximum;
        double wanted = target(loss, row, c);
        if (wanted != 0) value += wanted * (log_sum - static_cast<double>(below));
        if (gradient) gradient[c] = static_cast<float>((static_cast<double>(expf(below)) * inverse - wanted) * scale);
    }
    finish_row(loss, row, ls_block_sum(value), predicted == label_of(row));
}

/* Probabilities are divided by their sum first; where one is kept inside, it has no gradient of its own. */
__global__ void probability_rows(struct ls_cuda_loss loss) {
    struct row row;
    if (!find_row(loss.rows, &row) || leave_out(loss, row)) return;
    float *gradient = gradient_of(loss);
    double scale = scale_of(loss, row);
    int64_t predicted = ls_block_argmax(row.outputs, row.classes);
    double sum = 0, value = 0, pull = 0;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) sum += static_cast<double>(row.outputs[c]);
    sum = ls_block_sum(sum);
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) {
        double share = static_cast<double>(row.outputs[c]) / sum, kept = ls_output_keep_inside(share);
        double wanted = target(loss, row, c);
        if (wanted != 0) value -= wanted * log(kept);
        if (ls_output_is_inside(share)) pull += wanted;
    }
    value = ls_block_sum(value);
    pull = ls_block_sum(pull);
    for (int64_t c = threadIdx.x; gradient && c < row.classes; c += blockDim.x) {
        double share = static_cast<double>(row.outputs[c]) / sum;
        double own = ls_output_is_inside(share) ? target(loss, row, c) / share : 0;
        gradient[c] = static_cast<float>((pull - own) / sum * scale);
    }
    finish_row(loss, row, value, predicted == label_of(row));
}

/* ---- each output by itself ---- */

__global__ void output_rows(struct ls_cuda_loss loss) {
    struct row row;
    if (!find_row(loss.rows, &row)) return;
    float *gradient = gradient_of(loss);
    double scale = scale_of(loss, row);
    double value = 0, right = 0, outputs = static_cast<double>(row.classes);
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) {
        const struct ls_output_loss one = ls_output_loss(loss.kind, static_cast<double>(row.outputs[c]),
                                                         own_target(row, c), loss.smoothing, loss.delta);
        value += one.loss;
        right += one.right;
        if (gradient) gradient[c] = static_cast<float>(one.slope / outputs * scale);
    }
    value = ls_block_sum(value);
    finish_row(loss, row, value / outputs, static_cast<int64_t>(ls_block_sum(right)));
}

/* ---- all rows ---- */

/* The weight of the example that begins at a row: of its part that counts. */
__device__ double counted_weight(const struct ls_cuda_label_rows &rows, int64_t row) {
    int64_t counted = rows.positions;
    for (int64_t p = 0; rows.least < 0 && p < rows.positions; p++) counted -= is_uncounted(rows, row + p);
    return weight_of(rows, row) * (static_cast<double>(counted) / static_cast<double>(rows.positions));
}

__global__ void add_losses(struct ls_cuda_loss loss) {
    double value = 0, correct = 0, weight = 0, uncounted = 0;
    if (find_fault(loss.rows)) return;
    for (int64_t r = threadIdx.x; r < loss.rows.rows; r += blockDim.x) {
        value += loss.row_losses[r];
        correct += static_cast<double>(loss.row_correct[r]);
        weight += r % loss.rows.positions ? 0.0 : counted_weight(loss.rows, r);
        uncounted += is_uncounted(loss.rows, r);
    }
    value = ls_block_sum(value);
    correct = ls_block_sum(correct);
    weight = ls_block_sum(weight);
    uncounted = ls_block_sum(uncounted);
    if (threadIdx.x != 0) return;
    const struct ls_loss_sums before = loss.adds ? *loss.sums : ls_loss_sums{};
    loss.sums->uncounted = before.uncounted + static_cast<int64_t>(uncounted);
    loss.sums->loss = before.loss + value;
    loss.sums->correct = before.correct + static_cast<int64_t>(correct);
    loss.sums->rows = before.rows + loss.rows.rows / loss.rows.positions;
    loss.sums->weight = before.weight + weight;
}

/* Threads for a row: some outputs each, whole warps. */
unsigned row_threads(int64_t classes) {
    int64_t warps = (classes + 4 * LS_WARP - 1) / (4 * LS_WARP);
    return static_cast<unsigned>(warps * LS_WARP < LS_THREADS ? warps * LS_WARP : LS_THREADS);
}

/* ---- metrics ---- */

__device__ double in_top(const struct row &row, int64_t label, int k) {
    float wanted = row.outputs[label];
    double better = 0;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) better += row.outputs[c] > wanted;
    better = ls_block_sum(better);
    return fabsf(wanted) <= FLT_MAX && better < k ? 1 : 0;
}

/* The part of the outputs that are right. */
__device__ double binary(const struct row &row, float threshold) {
    double right = 0;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x)
        right += (row.outputs[c] > threshold) == (own_target(row, c) > 0.5);
    return ls_block_sum(right) / static_cast<double>(row.classes);
}

/* The mean over the outputs. */
__device__ double mean_error(const struct row &row, bool squared) {
    double sum = 0;
    for (int64_t c = threadIdx.x; c < row.classes; c += blockDim.x) {
        double error = static_cast<double>(row.outputs[c]) - own_target(row, c);
        sum += squared ? error * error : fabs(error);
    }
    return ls_block_sum(sum) / static_cast<double>(row.classes);
}

__global__ void metric_rows(struct ls_cuda_metric metric) {
    struct row row;
    double share;
    if (!find_row(metric.rows, &row)) return;
    if (is_uncounted(metric.rows, blockIdx.x))
        share = 0;
    else if (metric.metric.kind == LS_METRIC_BINARY_ACCURACY)
        share = binary(row, metric.metric.threshold);
    else if (metric.metric.kind == LS_METRIC_TOP_K)
        share = in_top(row, label_of(row), metric.metric.k);
    else if (metric.metric.kind == LS_METRIC_MEAN_SQUARED_ERROR || metric.metric.kind == LS_METRIC_MEAN_ABSOLUTE_ERROR)
        share = mean_error(row, metric.metric.kind == LS_METRIC_MEAN_SQUARED_ERROR);
    else
        share = ls_block_argmax(row.outputs, row.classes) == label_of(row) ? 1 : 0;
    if (threadIdx.x == 0) metric.shares[blockIdx.x] = share * row.weight;
}

__global__ void add_shares(struct ls_cuda_metric metric) {
    double sum = 0;
    if (find_fault(metric.rows)) return;
    for (int64_t r = threadIdx.x; r < metric.rows.rows; r += blockDim.x) sum += metric.shares[r];
    sum = ls_block_sum(sum);
    if (threadIdx.x == 0) *metric.value = (metric.adds ? *metric.value : 0) + sum;
}

/* ---- one-hot ---- */

__global__ void check_labels(struct ls_cuda_label_rows rows) {
    (void)find_fault(rows);
}

__global__ void expand(struct ls_cuda_label_rows rows, float *y) {
    for (int64_t i = ls_thread(); i < rows.rows * rows.classes; i += ls_all_threads())
        y[i] = i % rows.classes == rows.labels[i / rows.classes];
}

} // namespace

cudaError_t ls_cuda_loss(const struct ls_cuda_loss *loss, cudaStream_t stream) {
    unsigned rows = static_cast<unsigned>(loss->rows.rows), threads = row_threads(loss->rows.classes);
    auto *kernel = loss->kind == LS_OP_SOFTMAX_CROSSENTROPY ? softmax_rows
                   : loss->kind == LS_OP_CROSSENTROPY       ? probability_rows
                                                            : output_rows;
    cudaError_t error = LS_LAUNCH_SYNC(kernel, rows, threads, 0, stream, *loss);
    return error ? error : LS_LAUNCH_SYNC(add_losses, 1, LS_THREADS, 0, stream, *loss);
}

cudaError_t ls_cuda_metric(const struct ls_cuda_metric *metric, cudaStream_t stream) {
    unsigned rows = static_cast<unsigned>(metric->rows.rows), threads = row_threads(metric->rows.classes);
    cudaError_t error = LS_LAUNCH_SYNC(metric_rows, rows, threads, 0, stream, *metric);
    return error ? error : LS_LAUNCH_SYNC(add_shares, 1, LS_THREADS, 0, stream, *metric);
}

cudaError_t ls_cuda_one_hot(const struct ls_cuda_label_rows *rows, float *y, cudaStream_t stream) {
    cudaError_t error = LS_LAUNCH_SYNC(check_labels, 1, LS_THREADS, 0, stream, *rows);
    if (error) return error;
    return LS_LAUNCH(expand, ls_blocks(rows->rows * rows->classes), LS_THREADS, stream, *rows, y);
}
