/* The caller's thread begins steps and takes them; replica threads copy; the communicator's thread ends them
 * (end_lane). A lane goes from one to the next with the reducer's counters and gates. */
#include "train/delayed.h"

#include <string.h>

#include "base/new.h"
#include "gradients/reducer.h"
#include "store/store.h"
#include "train/step.h"
#include "train/stored.h"

struct lane {
    struct ls_optimizer_step step;
    double penalty;
    bool keep;   /* the lanes were empty before this step */
    bool writes; /* this worker writes checkpoints */
    bool fetch;  /* it may write one behind this step */
};
struct ls_delayed {
    ls_model *model; /* borrowed */
    int count;       /* lanes */
    struct lane *lanes;
    float **blobs; /* [lanes][local replicas] */
    float *memory;
    int64_t given, taken; /* steps since it was made */
    /* the communicator's */
    int64_t ended, asked; /* steps; the first one in which somebody asked for something, -1: none since keep */
};

static size_t floats_of(const ls_model *model) {
    return model->built.blob_count + LS_EXTRAS;
}

static int lane_of(const struct ls_delayed *delayed, int64_t step) {
    return (int)(step % delayed->count);
}

/* All replicas' sums, then the new variables. */
static float *blob_of(const struct ls_delayed *delayed, int lane) {
    return delayed->blobs[lane * delayed->model->strategy->local_count];
}

static ls_status make_lanes(struct ls_delayed *delayed) {
    size_t line = LS_ALIGNMENT / sizeof(float), replicas = (size_t)delayed->model->strategy->local_count;
    size_t stride = (floats_of(delayed->model) + line - 1) / line * line, count = (size_t)delayed->count * replicas;
    delayed->lanes = ls_alloc_array((size_t)delayed->count, sizeof(*delayed->lanes));
    delayed->blobs = ls_alloc_array(count, sizeof(*delayed->blobs));
    delayed->memory = ls_alloc_aligned(count * stride * sizeof(float));
    if (!delayed->lanes || !delayed->blobs || !delayed->memory)
        return ls_fail_memory("gradients on their way to the parameter servers: a smaller delay needs less",
                              count * stride * sizeof(float));
    for (size_t i = 0; i < count; i++) delayed->blobs[i] = delayed->memory + i * stride;
    return LS_OK;
}

static void free_delayed(struct ls_delayed *delayed) {
    ls_free(delayed->memory);
    ls_free(delayed->blobs);
    ls_free(delayed->lanes);
    ls_free(delayed);
}

static ls_status make_delayed(ls_model *model, struct ls_delayed **delayed) {
    LS_NEW(struct ls_delayed, made, "delayed steps");
    *made = (struct ls_delayed){.model = model, .count = model->strategy->delay + 1, .asked = -1};
    ls_status status = make_lanes(made);
    return LS_HAND_OVER(status, delayed, made, free_delayed(made));
}

void ls_delayed_detach(ls_model *model) {
    if (model->bound.delayed) free_delayed(ls_steal(model->bound.delayed));
}

/* ---- the communicator's thread ---- */

/* The workers hear of a request when they take its step, behind the gradients of the last one before the lanes are
 * empty. */
static bool fetches(struct ls_delayed *delayed, const struct lane *lane, const float *extras) {
    int64_t step = delayed->ended++;
    if (lane->keep) delayed->asked = -1;
    if (delayed->asked < 0 && (extras[LS_EXTRA_SAVE] > 0 || extras[LS_EXTRA_STOP] > 0)) delayed->asked = step;
    bool heard = delayed->asked >= 0 && step == delayed->asked + delayed->count - 1;
    return lane->fetch || (heard && lane->writes);
}

static ls_status end_lane(void *context, int index, bool failed) {
    struct ls_delayed *delayed = context;
    ls_model *model = delayed->model;
    const struct lane *lane = &delayed->lanes[index];
    float *blob = blob_of(delayed, index), *moments = NULL;
    const float *extras = blob + model->built.blob_count;
    if (failed) return LS_OK;
    ls_status status =
        ls_model_is_alone(model) ? LS_OK : ls_step_report_check_rate(model, lane->step.rule.learning_rate, extras);
    if (fetches(delayed, lane, extras) && !status) status = ls_stored_make_moments(model, &moments);
    const struct ls_store_stepping stepping = {
        .step = &lane->step, .keep = lane->keep, .array = blob, .moments = moments, .stride = model->built.blob_count};
    if (!status) status = ls_store_step(model->bound.store, &stepping);
    if (!status && moments) model->built.moments_step = lane->step.iteration;
    return status;
}

ls_status ls_delayed_attach(ls_model *model, struct ls_reducer_config *config) {
    ls_status status = make_delayed(model, &model->bound.delayed);
    if (status) return status;
    config->end = end_lane;
    config->context = model->bound.delayed;
    config->lanes = model->bound.delayed->blobs;
    config->lane_count = model->bound.delayed->count;
    return LS_OK;
}

/* ---- the caller's thread ---- */

void ls_delayed_begin(ls_model *model) {
    struct ls_delayed *delayed = model->bound.delayed;
    const struct ls_model_progress *progress = &model->progress;
    bool first = delayed->given == delayed->taken, writes = progress->keeps && !model->strategy->runtime->rank;
    delayed->lanes[lane_of(delayed, delayed->given)] =
        (struct lane){.step = model->built.numbers->step,
                      .keep = first,
                      .writes = writes,
                      .fetch = writes && progress->fetches && progress->drains};
    if (first) model->progress.requests = (struct ls_requests){0};
}

/* With the floating-point mode in which the first replica would add statistics itself. */
static ls_status put_in_place(const ls_model *model, const float *blob) {
    const struct ls_model_replica *first = &model->built.replicas[0];
    struct ls_device *device = first->device;
    struct ls_thread_state before;
    size_t trained = ls_network_trainable_count(model->built.network);
    ls_status status = device->ops->enter(device, &before);
    if (status) return status;
    memcpy(first->parameters, blob, trained * sizeof(float));
    for (size_t i = trained; i < model->built.blob_count; i++) first->parameters[i] += blob[i];
    device->ops->leave(device, &before);
    return LS_OK;
}

ls_status ls_delayed_take(ls_model *model, struct ls_loss_sums *sums, bool *any) {
    struct ls_delayed *delayed = model->bound.delayed;
    const struct ls_requests before = model->progress.requests;
    int index = lane_of(delayed, delayed->taken);
    const float *blob = blob_of(delayed, index);
    *any = delayed->taken < delayed->given;
    *sums = (struct ls_loss_sums){0};
    if (!*any) return LS_OK;
    ls_status status = ls_reducer_await(model->bound.reducer, delayed->taken + 1);
    if (!status) status = put_in_place(model, blob);
    if (status) return status;
    delayed->taken++;
    ls_step_report_read(model, blob + model->built.blob_count, delayed->lanes[index].penalty, sums);
    const struct ls_requests *now = &model->progress.requests;
    if (!now->save && !now->stop) model->progress.requests = before;
    return LS_OK;
}

ls_status ls_delayed_commit(ls_model *model, struct ls_loss_sums *sums) {
    struct ls_delayed *delayed = model->bound.delayed;
    bool any;
    delayed->lanes[lane_of(delayed, delayed->given)].penalty = model->built.replicas[0].numbers->penalty;
    delayed->given++;
    *sums = (struct ls_loss_sums){0};
    if (delayed->given - delayed->taken < delayed->count) return LS_OK;
    return ls_delayed_take(model, sums, &any);
}

ls_status ls_delayed_settle(const ls_model *model) {
    const struct ls_delayed *delayed = model->bound.delayed;
    return delayed ? ls_reducer_await(model->bound.reducer, delayed->given) : LS_OK;
}
