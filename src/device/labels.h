/* Which labels of int32 are classes: alike for the ops, and for who looks before they run. */
#pragma once
#include "device/op.h"

/* Rows, the positions of each, and the classes at each: a loss, a metric or one-hot rows take positions one by one. */
struct ls_labels_extent {
    int64_t rows, positions, classes;
};
/* Of outputs (rows, positions..., classes). */
struct ls_labels_extent ls_labels_extent(const ls_shape *outputs);
/* Of a loss, a metric or one-hot rows, where a row has so many outputs; 0: any number will do. */
int64_t ls_labels_classes(const struct ls_op *op, int64_t outputs);
#define LS_LABEL_UNCOUNTED (-1) /* of a position that loss and metrics leave out: torch's ignore_index */
/* LS_LABEL_UNCOUNTED for an op whose rows have several positions, each with a class; else 0. */
int64_t ls_labels_least(const struct ls_op *op, const struct ls_labels_extent *extent);
/* INVALID_ARGUMENT naming the first row whose label is below least or none of the classes. */
ls_status ls_labels_check(const int32_t *labels, int64_t rows, int64_t classes, int64_t least);

/* Which numbers are ids of a table's rows: alike for the ops, and for who looks before they run. */

/* ids (rows, count), LS_INT32, or LS_FLOAT32: whole numbers then, and exact below 2^24. INVALID_ARGUMENT naming the
 * first that is not from 0 to below limit. */
ls_status ls_ids_check(const struct ls_tensor *ids, int64_t limit);
/* An element. */
static inline int64_t ls_ids_at(const struct ls_tensor *ids, int64_t i) {
    return ids->dtype == LS_INT32 ? ((const int32_t *)ids->data)[i] : (int64_t)((const float *)ids->data)[i];
}
