/* The sums and requests that workers which train apart tell each other, and what the fit makes of those of all. */
#include "train/fit.h"

#include <string.h>

void ls_fit_numbers_show(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    ls_result_means(fitting->model, &state->sums, &state->result.loss, &state->result.accuracy, state->result.metrics);
}

void ls_fit_numbers_write(const struct ls_loss_sums *sums, const struct ls_requests *requests,
                          double numbers[LS_FIT_NUMBERS]) {
    const double last[] = {(double)requests->save, (double)requests->stop, (double)requests->stop_ranks};
    ls_result_write_sums(sums, numbers);
    memcpy(numbers + LS_RESULT_NUMBERS, last, sizeof(last));
}

void ls_fit_numbers_take(struct ls_fitting *fitting, const double numbers[LS_FIT_NUMBERS]) {
    struct ls_model_progress *progress = &fitting->model->progress;
    const double *last = numbers + LS_RESULT_NUMBERS;
    struct ls_loss_sums all;
    ls_result_read_sums(numbers, &all);
    ls_op_add_loss_sums(&fitting->state.sums, &all);
    ls_fit_numbers_show(fitting);
    progress->requests = (struct ls_requests){(int64_t)last[0], (int64_t)last[1], (int64_t)last[2]};
    progress->request = LS_GO_ON;
}
