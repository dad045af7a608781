/* The rules of lockstep train: optimizer, schedule, loss, metrics. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

#define LS_MAX_CLASS_WEIGHTS 1024
struct ls_rules {
    ls_optimizer optimizer;
    ls_loss loss;
    float kernel_l1, kernel_l2;                                                  /* of all kernels */
    ls_compile_options compile;                                                  /* metrics points here: */
    ls_metric metrics[LS_MAX_METRICS + 1], weighted_metrics[LS_MAX_METRICS + 1]; /* end with a zero row */
    ls_class_weight class_weight[LS_MAX_CLASS_WEIGHTS + 1];                      /* ends with class -1 */
    int class_weights;
};
const char *ls_rules_loss(const struct ls_rules *rules);     /* "mean_squared_error" */
bool ls_rules_compare_numbers(const struct ls_rules *rules); /* the loss is that of a regression */
/* Of it. */
extern const char *const ls_rules_losses[]; /* names, from LS_SPARSE_CATEGORICAL_CROSSENTROPY on; ends with NULL */
extern const struct ls_option ls_optimizer_options[], ls_training_rules[], ls_loss_options[], ls_precision_option[];
/* After the last option: those that do not go together; false after the error has been printed. */
bool ls_rules_check(const struct ls_command_line *line, const struct ls_rules *rules);
/* Defaults. */
void ls_rules_complete(struct ls_rules *rules);
