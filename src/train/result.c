/* From sums over examples to what people see. */
#include "train/training_state.h"

#include <math.h>
#include <string.h>

#include "train/model.h"

void ls_result_write_sums(const struct ls_loss_sums *sums, double numbers[LS_RESULT_NUMBERS]) {
    const double first[] = {sums->loss,   (double)sums->correct, (double)sums->rows,
                            sums->weight, sums->penalty,         (double)sums->uncounted};
    memcpy(numbers, first, sizeof(first));
    memcpy(numbers + 6, sums->metrics, sizeof(sums->metrics));
}

void ls_result_read_sums(const double numbers[LS_RESULT_NUMBERS], struct ls_loss_sums *sums) {
    *sums = (struct ls_loss_sums){.loss = numbers[0],
                                  .correct = (int64_t)numbers[1],
                                  .rows = (int64_t)numbers[2],
                                  .uncounted = (int64_t)numbers[5],
                                  .weight = numbers[3],
                                  .penalty = numbers[4]};
    memcpy(sums->metrics, numbers + 6, sizeof(sums->metrics));
}

static int64_t positions_of(const ls_model *model) {
    return ls_objective_positions(&model->spec.objective, ls_network_output_shape(model->built.network));
}

/* The rows as far as their positions count: the divisor of the loss. */
static double counted_rows(const ls_model *model, const struct ls_loss_sums *sums) {
    if (!sums->uncounted) return (double)sums->rows;
    return (double)sums->rows - (double)sums->uncounted / (double)positions_of(model);
}

double ls_result_loss(const ls_model *model, const struct ls_loss_sums *sums) {
    double rows = (double)sums->rows;
    if (!sums->uncounted) return (sums->loss + sums->penalty) / rows;
    return sums->loss / counted_rows(model, sums) + sums->penalty / rows;
}

static double metric_of(const ls_model *model, const struct ls_loss_sums *sums, int index) {
    const struct ls_objective *objective = &model->spec.objective;
    const ls_metric *metric = &objective->metrics[index];
    bool weighted = ls_objective_metric_is_weighted(objective, index);
    double sum = ls_metric_is_of_loss(metric) ? sums->loss : sums->metrics[index];
    double mean = sum / (weighted ? sums->weight : counted_rows(model, sums));
    return metric->kind == LS_METRIC_PERPLEXITY ? exp(mean) : mean;
}

void ls_result_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                     double *metrics) {
    const struct ls_objective *objective = &model->spec.objective;
    int64_t positions = positions_of(model);
    double judged = ls_objective_judged(objective, (double)(sums->rows * positions - sums->uncounted),
                                        ls_network_outputs(model->built.network) / (int)positions);
    *loss = ls_result_loss(model, sums);
    *accuracy = judged > 0 ? (double)sums->correct / judged : NAN;
    for (int i = 0; i < LS_MAX_METRICS; i++) metrics[i] = i < objective->metric_count ? metric_of(model, sums, i) : 0;
}
