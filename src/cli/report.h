/* A model measured by class: confusion matrix, precision, recall, F1 and AUC, as scikit-learn has them. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

/* Of one class, or the mean over those that occur. */
struct ls_class_report {
    double precision, recall, f1; /* 0 where nothing is divided by nothing */
    double auc;       /* under the ROC curve, against all other classes; NaN where only one of both occurs */
    int64_t examples; /* that have the label */
};
struct ls_report_table {
    int classes;
    int64_t *confusion;               /* [classes][classes] owns: rows are labels, columns what the model says */
    struct ls_class_report *of, mean; /* of: [classes] owns */
};
/* Of probabilities (rows, width), as ls_outputs_probable leaves them, and the labels (rows). Returns false if there is
 * no memory. */
bool ls_report_make(const float *values, const int32_t *labels, int64_t rows, int64_t width, int classes,
                    struct ls_report_table *report);
void ls_report_free(struct ls_report_table *report);
/* names: NULL for those without one. */
typedef const char *ls_report_name_fn(const void *context, int class);
void ls_report_print(const struct ls_report_table *report, ls_report_name_fn *name, const void *context);
/* ", \"report\": {...}" */
void ls_report_json(const struct ls_report_table *report, ls_report_name_fn *name, const void *context);
