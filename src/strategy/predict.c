/* A model's outputs for a whole dataset: after each step every worker gets those of all replicas, whose shares of a
 * batch lie behind each other in the order of their ids. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "strategy/saved.h"

struct prediction {
    ls_model *model;
    struct ls_pipeline *pipeline;
    float *outputs; /* owns: all so far */
    int64_t rows, capacity;
    float *own[LS_MAX_LOCAL_DEVICES]; /* owns: each local replica's of a step, in host memory */
};

static void release(struct prediction *prediction) {
    for (int i = 0; i < LS_MAX_LOCAL_DEVICES; i++) ls_free(prediction->own[i]);
    ls_free(prediction->outputs);
    ls_pipeline_free(prediction->pipeline);
}

static ls_status check(const ls_dataset *data) {
    if (data->options.shuffle == LS_SHUFFLE_NEVER && data->options.division == LS_DIVIDE_LAYOUT_INVARIANT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "predict keeps the order of the dataset, which must have shuffle = "
                                        "LS_SHUFFLE_NEVER and division = LS_DIVIDE_LAYOUT_INVARIANT");
}

static ls_status allocate(struct prediction *prediction) {
    const ls_model *model = prediction->model;
    size_t width = (size_t)ls_network_outputs(model->network),
           rows = (size_t)ls_pipeline_max_rows(prediction->pipeline);
    for (int i = 0; i < model->strategy->local_count; i++) {
        prediction->own[i] = ls_alloc_array(rows, width * sizeof(float));
        if (!prediction->own[i]) return ls_fail_memory("a step's outputs", rows * width * sizeof(float));
    }
    return LS_OK;
}

static ls_status append(struct prediction *prediction, const float *outputs, int64_t rows) {
    size_t width = (size_t)ls_network_outputs(prediction->model->network);
    if (prediction->rows + rows > prediction->capacity) {
        int64_t capacity = 2 * (prediction->rows + rows);
        float *grown = ls_alloc_array((size_t)capacity, width * sizeof(*grown));
        if (!grown) return ls_fail_memory("outputs", (size_t)capacity * width * sizeof(*grown));
        if (prediction->rows) memcpy(grown, prediction->outputs, (size_t)prediction->rows * width * sizeof(*grown));
        ls_free(prediction->outputs);
        prediction->outputs = grown;
        prediction->capacity = capacity;
    }
    memcpy(prediction->outputs + (size_t)prediction->rows * width, outputs, (size_t)rows * width * sizeof(*outputs));
    prediction->rows += rows;
    return LS_OK;
}

/* The present step's outputs of all replicas. */
static ls_status collect(struct prediction *prediction) {
    ls_model *model = prediction->model;
    int64_t width = ls_network_outputs(model->network);
    const void *values[LS_MAX_LOCAL_DEVICES];
    ls_shape shapes[LS_MAX_LOCAL_DEVICES], shape;
    void *all = NULL;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->replicas[i];
        size_t size = (size_t)(replica->output_rows * width) * sizeof(float);
        values[i] = prediction->own[i];
        shapes[i] = LS_SHAPE(replica->output_rows, width);
        if (size) status = replica->device->ops->copy_out(replica->device, prediction->own[i], replica->outputs, size);
    }
    if (!status) status = ls_gather(model->strategy, LS_FLOAT32, values, shapes, 0, &all, &shape);
    if (!status) status = append(prediction, all, shape.dims[0]);
    ls_memory_free(all);
    return status;
}

static ls_status predict(struct prediction *prediction, ls_dataset *data) {
    ls_model *model = prediction->model;
    ls_status status = ls_strategy_open_pipeline(model->strategy, data, &prediction->pipeline);
    if (!status && model->compiled) status = ls_evaluation_agree(model, data);
    if (!status) status = ls_model_build(model, data, prediction->pipeline, NULL);
    if (!status) status = allocate(prediction);
    if (status) return status;
    model->pipeline = prediction->pipeline;
    for (int64_t step = 0; !status && step < ls_pipeline_steps(prediction->pipeline);
         step += ls_pipeline_taken(prediction->pipeline)) {
        status = ls_pipeline_seek(prediction->pipeline, 0, step);
        if (!status) status = ls_model_evaluate_step(model);
        if (!status) status = collect(prediction);
    }
    return status ? ls_fail_context(status, "prediction") : LS_OK;
}

ls_status ls_model_predict(ls_model *model, ls_dataset *data, float **outputs, ls_shape *shape) {
    LS_CLEANUP(release) struct prediction prediction = {.model = model};
    ls_status status = check(data);
    if (!status) status = predict(&prediction, data);
    model->pipeline = NULL;
    if (status) return status;
    *shape = LS_SHAPE(prediction.rows, ls_network_outputs(model->network));
    *outputs = ls_steal(prediction.outputs);
    return LS_OK;
}
