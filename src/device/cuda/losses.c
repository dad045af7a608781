/* Losses, metrics and one-hot rows. A label that is no class is found by the kernels: the device's fault tells of it.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels_elements.h"
#include "device/labels.h"

static struct ls_cuda_label_rows rows_of(const struct ls_op *op) {
    const struct ls_tensor *outputs = &op->tensors[LS_ARG_LOGITS], *labels = &op->tensors[LS_ARG_LABELS];
    const struct ls_labels_extent extent = ls_labels_extent(&outputs->shape);
    bool sparse = labels->dtype == LS_INT32;
    return (struct ls_cuda_label_rows){.outputs = outputs->data,
                                       .one_hot = sparse ? NULL : labels->data,
                                       .labels = sparse ? labels->data : NULL,
                                       .weights = op->tensors[LS_ARG_WEIGHTS].data,
                                       .rows = extent.rows * extent.positions,
                                       .positions = extent.positions,
                                       .classes = extent.classes,
                                       .least = ls_labels_least(op, &extent),
                                       .limit = ls_labels_classes(op, extent.classes),
                                       .fault = ls_cuda_op_of(op)->device->fault};
}

static int64_t row_count(const struct ls_op *op) {
    const struct ls_labels_extent extent = ls_labels_extent(&op->tensors[LS_ARG_LOGITS].shape);
    return extent.rows * extent.positions;
}

ls_status ls_cuda_loss_build(struct ls_cuda_device *device, struct ls_op *op) {
    return ls_cuda_keep(device, op, (size_t)row_count(op) * (sizeof(double) + sizeof(int64_t)));
}

ls_status ls_cuda_loss_run(const struct ls_op *op) {
    double *losses = ls_cuda_kept(op);
    const struct ls_cuda_loss loss = {.kind = op->kind,
                                      .rows = rows_of(op),
                                      .gradient = op->tensors[LS_ARG_DLOGITS].data,
                                      .row_losses = losses,
                                      .row_correct = (int64_t *)(losses + row_count(op)),
                                      .smoothing = (double)op->alpha,
                                      .scale = op->scale ? (double)*op->scale : 0,
                                      .delta = (double)op->beta,
                                      .sums = op->sums,
                                      .adds = op->adds};
    return ls_cuda_launched(op, ls_cuda_loss(&loss, ls_cuda_stream(op)));
}

ls_status ls_cuda_metric_build(struct ls_cuda_device *device, struct ls_op *op) {
    return ls_cuda_keep(device, op, (size_t)row_count(op) * sizeof(double));
}

ls_status ls_cuda_metric_run(const struct ls_op *op) {
    const struct ls_cuda_metric metric = {
        .rows = rows_of(op), .metric = op->metric, .shares = ls_cuda_kept(op), .value = op->value, .adds = op->adds};
    return ls_cuda_launched(op, ls_cuda_metric(&metric, ls_cuda_stream(op)));
}

ls_status ls_cuda_one_hot_run(const struct ls_op *op) {
    const struct ls_tensor *y = &op->tensors[LS_ARG_ONE_HOT];
    const struct ls_labels_extent extent = ls_labels_extent(&y->shape);
    const struct ls_cuda_label_rows rows = {.labels = op->tensors[LS_ARG_LABELS].data,
                                            .rows = extent.rows * extent.positions,
                                            .classes = extent.classes,
                                            .limit = extent.classes,
                                            .fault = ls_cuda_op_of(op)->device->fault};
    return ls_cuda_launched(op, ls_cuda_one_hot(&rows, y->data, ls_cuda_stream(op)));
}
