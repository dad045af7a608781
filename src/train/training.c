/* Models in the order in which they were made, calls in the order in which the program comes to them. */
#include "train/training.h"

#include "base/grow.h"
#include "runtime/state_transfer.h"
#include "train/bind.h"
#include "train/model_build.h"
#include "train/predict_cache.h"

#define KEPT_BYTES ((size_t)256 << 20) /* of the outputs of predict that are kept beside the newest */

/* ---- the strategy's participant ---- */

static void detach_models(void *context) {
    const struct ls_training *training = context;
    for (ls_model *model = training->models; model; model = model->next) ls_bind_detach(model);
}

static void release_models(void *context) {
    const struct ls_training *training = context;
    for (ls_model *model = training->models; model; model = model->next) ls_model_build_release(model);
}

static ls_status add_replicas(void *context, int from) {
    const struct ls_training *training = context;
    ls_status status = LS_OK;
    for (ls_model *model = training->models; model && !status; model = model->next)
        if (model->built.replicas) status = ls_model_build_add_replicas(model, from);
    return status;
}

static void drop_replicas(void *context, int from) {
    const struct ls_training *training = context;
    for (ls_model *model = training->models; model; model = model->next)
        if (model->built.replicas) ls_model_build_drop_replicas(model, from);
}

static void close_training(void *context) {
    struct ls_training *training = context;
    training->strategy->training = NULL;
    ls_free(training->results);
    ls_predict_cache_free(training->outputs);
    ls_free(training->kept.data);
    ls_free(training);
}

static const struct ls_participant_ops participant_ops = {detach_models, release_models, add_replicas, drop_replicas,
                                                          close_training};

/* ---- models ---- */

static struct ls_training *training_in(ls_strategy *strategy) {
    if (strategy->training) return strategy->training;
    struct ls_training *made = ls_alloc(sizeof(*made));
    if (!made) return NULL;
    made->strategy = strategy;
    made->participant = (struct ls_participant){.ops = &participant_ops, .context = made};
    ls_participant_enlist(strategy, &made->participant);
    return strategy->training = made;
}

ls_status ls_training_add(ls_model *model) {
    struct ls_training *training = training_in(model->strategy);
    if (!training) return ls_fail_memory("a training", sizeof(*training));
    ls_model **last = &training->models;
    while (*last) last = &(*last)->next;
    *last = model;
    return LS_OK;
}

/* The whole training's state, as it is while the model is there. */
static void keep_state(struct ls_training *training) {
    const struct ls_runtime *runtime = training->strategy->runtime;
    const struct ls_state_source *source = &runtime->sources[LS_STATE_TRAINING];
    void *made = NULL;
    bool recovers = runtime->cluster && runtime->holds && !runtime->lost;
    if (!recovers || runtime->inherited[LS_STATE_TRAINING].data) return;
    (void)source->encode(source->context, &training->kept, &made); /* without memory nothing is kept */
}

void ls_training_remove(ls_model *model) {
    struct ls_training *training = model->strategy->training;
    ls_model **at = training ? &training->models : NULL;
    while (at && *at && *at != model) at = &(*at)->next;
    if (!at || !*at) return;
    if (training->model == model) {
        keep_state(training);
        training->model = NULL;
    }
    *at = model->next;
}

/* ---- calls ---- */

int64_t ls_training_begin(ls_model *model) {
    struct ls_training *training = model->strategy->training;
    ls_free(training->kept.data);
    training->kept = (struct ls_bytes){NULL, 0};
    training->model = model;
    if (!model->number) model->number = ++training->numbered;
    ls_training_leave_fit(model->strategy);
    model->last_call = training->made++;
    return model->last_call;
}

int64_t ls_training_iteration(const ls_model *model) {
    const struct ls_training *training = model->strategy->training;
    bool known = model->number && training->done > model->last_call;
    return known ? training->results[model->last_call].steps : model->progress.step.iteration;
}

void ls_training_start(const struct ls_training_call *call, struct ls_fit_state *state) {
    struct ls_training *training = call->model->strategy->training;
    training->fit = state;
    training->lines = call->lines;
    training->callbacks = call->callbacks;
}

uint64_t ls_training_run(const ls_model *model) {
    const struct ls_fit_state *fit = model->strategy->training->fit;
    return fit ? fit->run : 0;
}

void ls_training_leave_fit(ls_strategy *strategy) {
    strategy->training->fit = NULL;
    strategy->training->callbacks = NULL;
}

ls_status ls_training_end(ls_strategy *strategy, const ls_result *result) {
    struct ls_training *training = strategy->training;
    training->fit = NULL;
    if (training->done >= training->made) return LS_OK; /* the others were before this process */
    ls_status status = LS_GROW(training->results, training->room, training->done + 1, 1, "the results of all calls");
    if (status) return status;
    training->results[training->done++] = *result;
    ls_state_transfer_commit(strategy->runtime);
    return LS_OK;
}

ls_status ls_training_keep(ls_strategy *strategy, int64_t rows, int64_t width, const float *outputs) {
    struct ls_runtime *runtime = strategy->runtime;
    struct ls_training *training = strategy->training;
    bool anyone = runtime->cluster && (runtime->settings.rejoin_timeout > 0 || ls_runtime_is_elastic(runtime));
    const struct ls_predict_cache_heading heading = {training->made - 1, rows, width};
    if (!anyone || training->done >= training->made) return LS_OK;
    return ls_predict_cache_add(&training->outputs, &heading, outputs, KEPT_BYTES);
}

ls_status ls_training_outputs(const ls_strategy *strategy, int64_t index, const struct ls_predict_cache **outputs) {
    const struct ls_predict_cache *found = ls_predict_cache_find(strategy->training->outputs, index);
    if (!found)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "the others have done call %lld without this process, and its outputs are not kept: the newest "
                       "are, and %zu MiB of those before",
                       (long long)index + 1, KEPT_BYTES >> 20);
    *outputs = found;
    return LS_OK;
}
