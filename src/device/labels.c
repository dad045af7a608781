/* The limits of labels, and the error. */
#include "device/labels.h"

#include "base/shape.h"
#include "base/status.h"

struct ls_labels_extent ls_labels_extent(const ls_shape *outputs) {
    int64_t rows = outputs->dims[0], classes = outputs->dims[outputs->rank - 1];
    return (struct ls_labels_extent){rows, ls_shape_count(outputs) / rows / classes, classes};
}

static int64_t classes_of_metric(ls_metric_kind kind) {
    if (kind == LS_METRIC_MEAN_SQUARED_ERROR || kind == LS_METRIC_MEAN_ABSOLUTE_ERROR) return 0;
    return kind == LS_METRIC_BINARY_ACCURACY ? 2 : 1;
}

/* A single output: two classes, or where errors are measured any number. */
int64_t ls_labels_classes(const struct ls_op *op, int64_t outputs) {
    if (outputs > 1) return outputs;
    switch (op->kind) {
    case LS_OP_SQUARED_ERROR:
    case LS_OP_ABSOLUTE_ERROR:
    case LS_OP_HUBER:
        return 0;
    case LS_OP_SIGMOID_CROSSENTROPY:
    case LS_OP_BINARY_CROSSENTROPY:
        return 2;
    case LS_OP_METRIC:
        return classes_of_metric(op->metric.kind);
    default:
        return outputs;
    }
}

int64_t ls_labels_least(const struct ls_op *op, const struct ls_labels_extent *extent) {
    bool judges = op->kind == LS_OP_SOFTMAX_CROSSENTROPY || op->kind == LS_OP_CROSSENTROPY || op->kind == LS_OP_METRIC;
    bool sparse = op->tensors[LS_ARG_LABELS].dtype == LS_INT32;
    return judges && sparse && extent->positions > 1 && extent->classes > 1 ? LS_LABEL_UNCOUNTED : 0;
}

ls_status ls_labels_check(const int32_t *labels, int64_t rows, int64_t classes, int64_t least) {
    for (int64_t r = 0; classes && r < rows; r++)
        if (labels[r] < least || labels[r] >= classes)
            return ls_fail(LS_INVALID_ARGUMENT, "row %lld has label %d, but the model has %lld classes: 0 to %lld",
                           (long long)r, (int)labels[r], (long long)classes, (long long)classes - 1);
    return LS_OK;
}
