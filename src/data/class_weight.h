/* Weights by class: what fit makes of its class_weight for each example of a batch. */
#pragma once
#include "data/dataset.h"

/* INVALID_ARGUMENT naming the class that the dataset does not have, is there twice or has no good weight, or a dataset
 * that has sample weights. */
ls_status ls_class_weight_check(const ls_class_weight *list, const ls_dataset *dataset);
/* The weights of rows whose targets are there, as Keras' class_weight_to_sample_weights: 1 for a class that is not in
 * the list; the class of numbers is the place of the largest one, of a single one the nearest whole number. */
void ls_class_weight_apply(const ls_class_weight *list, const struct ls_target_kind *kind, int64_t rows,
                           const struct ls_targets *targets);
