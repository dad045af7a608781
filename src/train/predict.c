/* A model's outputs for a whole dataset. After each step every worker receives the outputs of all replicas. The
 * replicas' shares of a batch lie behind each other in the order of their ids. If a worker is lost, all workers begin
 * the call again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/shape.h"
#include "base/need.h"
#include "base/point.h"
#include "train/training_state.h"
#include "runtime/user_request.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/model_build.h"
#include "train/input.h"
#include "train/sparse.h"
#include "train/step.h"

struct prediction {
    ls_model *model;
    ls_dataset *data;
    int64_t index; /* of this call */
    struct ls_pipeline *pipeline;
    float *outputs; /* owns: all so far, rows of that width */
    int64_t rows, width;
    size_t capacity;                  /* floats */
    float *own[LS_MAX_LOCAL_DEVICES]; /* owns: each local replica's of a step, in host memory */
};

static void release_prediction(struct prediction *prediction) {
    for (int i = 0; i < prediction->model->built.replica_count; i++)
        prediction->model->built.replicas[i].outputs = NULL;
    for (int i = 0; i < LS_MAX_LOCAL_DEVICES; i++) ls_free(ls_steal(prediction->own[i]));
    ls_free(ls_steal(prediction->outputs));
    ls_pipeline_free(ls_steal(prediction->pipeline));
    prediction->rows = 0;
    prediction->capacity = 0;
}

static ls_status check_order(const ls_dataset *data) {
    if (data->options.shuffle == LS_SHUFFLE_NEVER && data->options.division == LS_DIVIDE_LAYOUT_INVARIANT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "predict keeps the order of the dataset, which must have shuffle = "
                                        "LS_SHUFFLE_NEVER and division = LS_DIVIDE_LAYOUT_INVARIANT");
}

static ls_status allocate_outputs(struct prediction *prediction) {
    const ls_model *model = prediction->model;
    size_t width = (size_t)prediction->width, rows = (size_t)ls_pipeline_max_rows(prediction->pipeline);
    for (int i = 0; i < model->strategy->local_count; i++) {
        prediction->own[i] = ls_alloc_array(rows, width * sizeof(float));
        if (!prediction->own[i]) return ls_fail_memory("a step's outputs", rows * width * sizeof(float));
        model->built.replicas[i].outputs = prediction->own[i];
    }
    return LS_OK;
}

static ls_status append(struct prediction *prediction, const float *outputs, int64_t rows) {
    size_t used = (size_t)(prediction->rows * prediction->width), added = (size_t)(rows * prediction->width);
    ls_status status = LS_GROW(prediction->outputs, prediction->capacity, used + added, 1, "outputs");
    if (status) return status;
    memcpy(prediction->outputs + used, outputs, added * sizeof(*outputs));
    prediction->rows += rows;
    return LS_OK;
}

/* The present step's outputs of all replicas. */
static ls_status gather_outputs(struct prediction *prediction) {
    ls_model *model = prediction->model;
    int64_t width = prediction->width;
    const void *values[LS_MAX_LOCAL_DEVICES];
    ls_shape shapes[LS_MAX_LOCAL_DEVICES], shape;
    void *all = NULL;
    for (int i = 0; i < model->strategy->local_count; i++) {
        values[i] = prediction->own[i];
        shapes[i] = LS_SHAPE(model->built.replicas[i].output_rows, width);
    }
    ls_status status = ls_gather(model->strategy, LS_FLOAT32, values, shapes, 0, &all, &shape);
    if (!status) status = append(prediction, all, shape.dims[0]);
    ls_memory_free(all);
    return status;
}

static ls_status run_steps(struct prediction *prediction) {
    ls_model *model = prediction->model;
    const struct ls_pipeline *pipeline = prediction->pipeline;
    ls_status status = LS_OK;
    ls_input_use_pipeline(model, prediction->pipeline);
    for (int64_t step = 0; !status && step < ls_pipeline_steps(pipeline); step += ls_pipeline_taken(pipeline)) {
        status = ls_user_request_check(model->strategy->runtime->user_request);
        if (!status) status = ls_pipeline_seek(prediction->pipeline, 0, step);
        if (!status) status = ls_step_evaluate(model);
        ls_reached("predict");
        if (!status) status = gather_outputs(prediction);
    }
    return status ? ls_fail_context(status, "prediction") : LS_OK;
}

/* Takes the outputs that the other workers computed without this process. */
static ls_status take_kept(struct prediction *prediction) {
    const struct ls_predict_cache *kept;
    ls_status status = ls_training_outputs(prediction->model->strategy, prediction->index, &kept);
    if (status) return status;
    prediction->width = kept->heading.width;
    return append(prediction, kept->values, kept->heading.rows);
}

/* One attempt at the whole. */
static ls_status predict(struct prediction *prediction) {
    ls_model *model = prediction->model;
    struct ls_fit_state state = {0};
    enum ls_call_stand stand;
    release_prediction(prediction);
    ls_status status = ls_iterator_open_pipeline(model->strategy, prediction->data, NULL, &prediction->pipeline);
    const struct ls_training_call call = {model, prediction->data, prediction->pipeline, prediction->index, NULL, NULL};
    if (!status) status = ls_training_state_resume(&call, &state, &stand);
    if (status || stand == LS_CALL_DONE) return status ? status : take_kept(prediction);
    if (model->spec.compiled) status = ls_fingerprint_agree_evaluation(model, prediction->data);
    if (!status) status = ls_model_build(model, prediction->data, prediction->pipeline, NULL);
    if (!status && ls_sparse_has(model)) status = ls_bind_attach(model); /* rows come from the servers */
    if (status) return status;
    ls_pipeline_leave_targets(prediction->pipeline);
    prediction->width = ls_network_outputs(model->built.network);
    status = allocate_outputs(prediction);
    return status ? status : run_steps(prediction);
}

/* Of a model that is not compiled nothing is asked that only a training knows. */
static ls_status compile_implied(ls_model *model) {
    if (model->spec.compiled) return LS_OK;
    ls_status status = ls_model_compile(model, ls_sgd(0.01F), LS_MEAN_SQUARED_ERROR);
    model->spec.implied = !status;
    return status;
}

/* Keeps the outputs for a worker that is started anew in a later call. */
static ls_status end_prediction(const struct prediction *prediction) {
    ls_model *model = prediction->model;
    const ls_result result = {.loss = NAN,
                              .accuracy = NAN,
                              .val_loss = NAN,
                              .val_accuracy = NAN,
                              .samples_per_second = NAN,
                              .steps = model->progress.step.iteration};
    ls_status status = ls_training_keep(model->strategy, prediction->rows, prediction->width, prediction->outputs);
    return status ? status : ls_training_end(model->strategy, &result);
}

/* Of a parameter server: no rows. */
static ls_status serve_empty(ls_strategy *strategy, float **outputs, ls_shape *shape) {
    ls_status status = ls_strategy_serve(strategy);
    float *none = status ? NULL : ls_alloc(sizeof(*none));
    if (!status && !none) status = ls_fail_memory("no predictions", sizeof(*none));
    if (status) return status;
    *shape = (ls_shape){.rank = 1};
    *outputs = none;
    return LS_OK;
}

ls_status ls_model_predict(ls_model *model, ls_dataset *data, float **outputs, ls_shape *shape) {
    LS_NEED(model, data, outputs, shape);
    LS_CLEANUP(release_prediction) struct prediction prediction = {.model = model, .data = data};
    ls_status status = check_order(data);
    if (status) return status;
    if (ls_is_parameter_server(model->strategy)) return serve_empty(model->strategy, outputs, shape);
    status = compile_implied(model);
    if (status) return status;
    prediction.index = ls_training_state_begin(model);
    do status = predict(&prediction);
    while (status && ls_strategy_recover(model->strategy, &status));
    ls_input_use_pipeline(model, NULL);
    if (!status) model->spec.loaded = false;
    if (!status) status = ls_model_build_network(model, data); /* who has taken what is kept may have none */
    if (!status) status = end_prediction(&prediction);
    if (status) return status;
    *shape = ls_shape_of_rows(prediction.rows, ls_network_output_shape(model->built.network));
    *outputs = ls_steal(prediction.outputs);
    return LS_OK;
}
