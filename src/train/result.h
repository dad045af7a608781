/* From sums over examples to what people see. */
#pragma once
#include "train/model.h"

/* Means over the examples, as a result has them. accuracy is NaN where there is none; metrics has LS_MAX_METRICS. */
void ls_result_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                     double *metrics);
