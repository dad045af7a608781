/* Which labels of int32 are classes: alike for the ops, and for who looks before they run. */
#pragma once
#include "device/op.h"

/* Of a loss, a metric or one-hot rows, where a row has so many outputs; 0: any number will do. */
int64_t ls_labels_classes(const struct ls_op *op, int64_t outputs);
/* INVALID_ARGUMENT naming the first row whose label is none of the classes. */
ls_status ls_labels_check(const int32_t *labels, int64_t rows, int64_t classes);
