/* Metrics of compile. Mirrors the names of tf.keras.metrics. */
#pragma once
#include <lockstep/lockstep.h>

/* Fills the defaults of a metric in; middle is the threshold that means probability 0.5. INVALID_ARGUMENT naming the
 * field and the value. */
ls_status ls_metric_complete(const ls_metric *given, float middle, ls_metric *metric);
const char *ls_metric_name(const ls_metric *metric);          /* "top_k_categorical_accuracy" */
const char *ls_metric_weighted_name(const ls_metric *metric); /* "weighted_top_k_categorical_accuracy" */
