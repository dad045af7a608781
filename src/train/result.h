/* From sums over examples to what people see. */
#pragma once
#include "train/model.h"

/* Sums as numbers that replicas or workers add up, and back: counts up to 2^53 are exact in float64. */
enum { LS_RESULT_NUMBERS = 5 + LS_MAX_METRICS };
void ls_result_write_sums(const struct ls_loss_sums *sums, double numbers[LS_RESULT_NUMBERS]);
void ls_result_read_sums(const double numbers[LS_RESULT_NUMBERS], struct ls_loss_sums *sums);
/* Means over the examples, as a result has them. accuracy is NaN where there is none; metrics has LS_MAX_METRICS. */
void ls_result_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                     double *metrics);
