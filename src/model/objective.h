/* What a model is trained for and measured by: a loss and metrics; and in which precision. Mirrors what compile takes
 * beside the optimizer. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/op.h"

struct ls_objective {
    ls_loss loss;
    bool from_probabilities;
    float label_smoothing;
    ls_metric metrics[LS_MAX_METRICS];
    int metric_count;
    ls_precision precision;
    bool nondeterministic_ops;
};
/* INVALID_ARGUMENT naming the field and the value. options may be NULL. */
ls_status ls_objective_new(ls_loss loss, const ls_compile_options *options, struct ls_objective *objective);
enum ls_op_kind ls_objective_op(const struct ls_objective *objective); /* the loss's */
/* Whether outputs are judged each by itself, so that one is enough for two classes. */
bool ls_objective_is_binary(const struct ls_objective *objective);
/* What sums.correct is out of, over all rows and outputs; 0: nothing is right or wrong. */
double ls_objective_judged(const struct ls_objective *objective, double rows, int outputs);
/* In host memory, before a plan runs with them: INVALID_ARGUMENT naming the first row whose label is no class, as the
 * plan's ops would. outputs: of a row. */
ls_status ls_objective_check_labels(const struct ls_objective *objective, int outputs, const int32_t *labels,
                                    int64_t rows);
const char *ls_metric_name(const ls_metric *metric); /* "top_k_categorical_accuracy" */
/* Lines "loss=1\n" and so on: equal exactly when the objectives are. text has room for LS_OBJECTIVE_TEXT. */
#define LS_OBJECTIVE_TEXT 640
void ls_objective_describe(const struct ls_objective *objective, char text[LS_OBJECTIVE_TEXT]);
