/* Batches are gathered up to the last one, with which the optimizer's step comes. */
#include "train/fit.h"

#include "runtime/user_request.h"
#include "train/checkpointing.h"
#include "train/step.h"

void ls_fit_batches_ask(const struct ls_fitting *fitting) {
    ls_request request = ls_user_request_take(fitting->model->strategy->runtime->user_request);
    if (request > fitting->model->progress.request) fitting->model->progress.request = request;
}

ls_status ls_fit_batches_run(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums) {
    const struct ls_fit_state *state = &fitting->state;
    if (fitting->model->sync->run) return fitting->model->sync->run(fitting, taken, sums);
    int64_t steps = ls_pipeline_steps(fitting->pipeline), end = ls_fit_epoch_end(fitting);
    int most = fitting->model->progress.step.rule.gradient_accumulation_steps;
    *taken = 0;
    for (int batch = 0;; batch++) {
        int64_t position = state->position + *taken;
        ls_status status = ls_pipeline_seek(fitting->pipeline, position / steps, position % steps);
        if (status) return status;
        *taken += ls_pipeline_taken(fitting->pipeline);
        ls_checkpointing_expect(fitting->checkpointing, state->position, state->position + *taken,
                                &fitting->model->progress);
        if (batch + 1 == most || state->position + *taken >= end) return ls_step_train(fitting->model, batch + 1, sums);
        status = ls_step_gather(fitting->model, batch);
        if (status) return status;
    }
}
