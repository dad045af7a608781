/* The sums of an evaluation are those of all replicas of all workers, added once at its end. */
#include "train/fit.h"

#include <math.h>

#include "base/memory.h"
#include "base/need.h"
#include "runtime/user_request.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/fingerprint.h"
#include "train/input.h"
#include "train/model_build.h"
#include "train/training_state.h"
#include "train/sparse.h"
#include "train/step.h"

/* The replicas' sums over a whole evaluation, added over all replicas. */
static ls_status sum_evaluation(ls_model *model, struct ls_loss_sums *sums) {
    double values[LS_MAX_LOCAL_DEVICES][LS_RESULT_NUMBERS], total[LS_RESULT_NUMBERS];
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < model->strategy->local_count; i++) {
        ls_result_write_sums(&model->built.replicas[i].total, values[i]);
        inputs[i] = values[i];
    }
    ls_status status = ls_reduce(model->strategy, LS_SUM, LS_FLOAT64, inputs, LS_RESULT_NUMBERS, total);
    if (status) return status;
    ls_result_read_sums(total, sums);
    status = ls_step_measure_penalty(model);
    sums->penalty = model->built.replicas[0].numbers->penalty * (double)sums->rows;
    return status;
}

ls_status ls_evaluate_run(ls_model *model, struct ls_pipeline *pipeline, struct ls_loss_sums *sums) {
    ls_status status = LS_OK;
    for (int i = 0; i < model->strategy->local_count; i++) model->built.replicas[i].total = (struct ls_loss_sums){0};
    ls_input_use_pipeline(model, pipeline);
    for (int64_t step = 0; !status && step < ls_pipeline_steps(pipeline); step += ls_pipeline_taken(pipeline)) {
        status = ls_user_request_check(model->strategy->runtime->user_request);
        if (!status) status = ls_pipeline_seek(pipeline, 0, step);
        if (!status) status = ls_step_evaluate(model);
    }
    if (!status) status = sum_evaluation(model, sums);
    return status ? ls_fail_context(status, "evaluation") : LS_OK;
}

ls_status ls_evaluate_serve(ls_strategy *strategy, const ls_result *empty, ls_result *result) {
    ls_status status = ls_strategy_serve(strategy);
    if (!status && result) *result = *empty;
    return status;
}

LS_CLEANER(free_pipeline, struct ls_pipeline *, ls_pipeline_free);

/* One attempt at a whole evaluation. */
static ls_status evaluate_call(const struct ls_training_call *call, ls_result *result) {
    ls_model *model = call->model;
    struct ls_fit_state state = {.result = *result};
    enum ls_call_stand stand;
    ls_status status = ls_training_state_resume(call, &state, &stand);
    *result = state.result;
    if (status || stand == LS_CALL_DONE) return status;
    if (model->spec.compiled) status = ls_fingerprint_agree_evaluation(model, call->data);
    if (!status) status = ls_model_build(model, call->data, call->pipeline, NULL);
    if (!status && ls_sparse_has(model)) status = ls_bind_attach(model); /* rows come from the servers */
    struct ls_loss_sums sums;
    if (!status) status = ls_evaluate_run(model, call->pipeline, &sums);
    if (status) return status;
    ls_result_means(model, &sums, &result->loss, &result->accuracy, result->metrics);
    result->steps = model->progress.step.iteration;
    return LS_OK;
}

ls_status ls_model_evaluate(ls_model *model, ls_dataset *data, ls_result *result) {
    LS_NEED(model, data);
    ls_result measured = {.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    ls_strategy *strategy = model->strategy;
    ls_status status;
    for (int i = 0; i < model->spec.objective.metric_count; i++) measured.val_metrics[i] = NAN;
    if (strategy->runtime->serves) return ls_evaluate_serve(strategy, &measured, result);
    status = ls_model_check_trainable(model, data);
    if (status) return status;
    int64_t index = ls_training_state_begin(model);
    do {
        LS_CLEANUP(free_pipeline) struct ls_pipeline *pipeline = NULL;
        status = ls_iterator_open_pipeline(strategy, data, NULL, &pipeline);
        const struct ls_training_call call = {model, data, pipeline, index, NULL, NULL};
        if (!status) status = evaluate_call(&call, &measured);
    } while (status && ls_strategy_recover(strategy, &status));
    ls_input_use_pipeline(model, NULL);
    if (!status) model->spec.loaded = false;
    if (!status) status = ls_training_end(strategy, &measured);
    if (!status && result) *result = measured;
    return status;
}
