/* From sums over examples to what people see. */
#include "train/training_state.h"

#include <math.h>
#include <string.h>

#include "train/model.h"

void ls_result_write_sums(const struct ls_loss_sums *sums, double numbers[LS_RESULT_NUMBERS]) {
    const double first[] = {sums->loss, (double)sums->correct, (double)sums->rows, sums->weight, sums->penalty};
    memcpy(numbers, first, sizeof(first));
    memcpy(numbers + 5, sums->metrics, sizeof(sums->metrics));
}

void ls_result_read_sums(const double numbers[LS_RESULT_NUMBERS], struct ls_loss_sums *sums) {
    *sums = (struct ls_loss_sums){numbers[0], (int64_t)numbers[1], (int64_t)numbers[2], numbers[3], {0}, numbers[4]};
    memcpy(sums->metrics, numbers + 5, sizeof(sums->metrics));
}

void ls_result_means(const ls_model *model, const struct ls_loss_sums *sums, double *loss, double *accuracy,
                     double *metrics) {
    const struct ls_objective *objective = &model->spec.objective;
    double rows = (double)sums->rows;
    int64_t positions = ls_objective_positions(objective, ls_network_output_shape(model->built.network));
    double judged = ls_objective_judged(objective, rows * (double)positions,
                                        ls_network_outputs(model->built.network) / (int)positions);
    *loss = (sums->loss + sums->penalty) / rows;
    *accuracy = judged > 0 ? (double)sums->correct / judged : NAN;
    for (int i = 0; i < LS_MAX_METRICS; i++) {
        bool loss_itself = objective->metrics[i].kind == LS_METRIC_MEAN_LOSS;
        double count = ls_objective_metric_is_weighted(objective, i) ? sums->weight : rows;
        metrics[i] = i < objective->metric_count ? (loss_itself ? sums->loss : sums->metrics[i]) / count : 0;
    }
}
