/* The communicator's thread ends steps (end_behind): it adds statistics, tells the caller's thread of the sums, and
 * pulls. Threads that wait look at counters behind one gate. */
#include "train/early.h"

#include <string.h>

#include "base/gate.h"
#include "base/new.h"
#include "base/point.h"
#include "gradients/reducer.h"
#include "store/store.h"
#include "train/step.h"
#include "train/stored.h"

struct ls_early {
    ls_model *model; /* borrowed */
    float *blobs[LS_MAX_LOCAL_DEVICES];
    float extras[LS_EXTRAS];
    int64_t begun, summed_steps; /* the caller's; steps since it was made */
    /* written by the communicator */
    struct ls_optimizer_step step;
    _Atomic int64_t summed; /* steps whose sums are there, or never will be */
    _Atomic size_t arrived; /* elements of the present pull; SIZE_MAX: all, and nothing else is under way */
    _Atomic bool failed;
    struct ls_gate gate;
    float *statistics; /* those before the step */
    bool open;         /* statistics and variables are not all of one step */
    size_t exchanged;  /* variables below it are new; the others are old */
    int64_t version;   /* the step of the variables that are whole */
};

static bool is_possible(const ls_model *model) {
    if (ls_network_table_count(model->built.network) || model->bound.bucket_count < 2) return false;
    if (ls_update_has(&model->built.replicas[0], LS_UPDATE_PENALTY)) return false;
    for (size_t i = 0; i < model->spec.layer_count; i++)
        if (model->spec.layers[i].synchronized) return false;
    return true;
}

static size_t count_statistics(const ls_model *model) {
    return model->built.blob_count - ls_network_trainable_count(model->built.network);
}

static ls_status make_early(ls_model *model, struct ls_early **early) {
    LS_NEW(struct ls_early, made, "the pull of variables");
    made->model = model;
    made->version = model->progress.step.iteration;
    atomic_store(&made->arrived, SIZE_MAX);
    for (int i = 0; i < model->strategy->local_count; i++) made->blobs[i] = model->built.replicas[i].gradients;
    made->statistics = ls_alloc_array(count_statistics(model) + 1, sizeof(float));
    if (!made->statistics) {
        ls_free(made);
        return ls_fail_memory("statistics before a step", count_statistics(model) * sizeof(float));
    }
    *early = made;
    return LS_OK;
}

static void exchange_ranges(float *left, float *right, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        float kept = left[i];
        left[i] = right[i];
        right[i] = kept;
    }
}

void ls_early_detach(ls_model *model) {
    struct ls_early *early = ls_steal(model->bound.early);
    if (!early) return;
    float *parameters = model->built.replicas[0].parameters;
    if (early->open) {
        exchange_ranges(parameters, early->blobs[0], 0, early->exchanged);
        ls_reached("undo");
        memcpy(parameters + ls_network_trainable_count(model->built.network), early->statistics,
               count_statistics(model) * sizeof(float));
    }
    model->progress.whole = early->version;
    ls_free(early->statistics);
    ls_free(early);
}

/* ---- the communicator's thread ---- */

/* With the floating-point mode in which the first replica would add them. */
static ls_status add_statistics(struct ls_early *early) {
    const ls_model *model = early->model;
    const struct ls_model_replica *first = &model->built.replicas[0];
    struct ls_thread_state before;
    size_t trained = ls_network_trainable_count(model->built.network), count = count_statistics(model);
    float *statistics = first->parameters + trained;
    ls_status status = first->device->ops->enter(first->device, &before);
    if (status) return status;
    memcpy(early->statistics, statistics, count * sizeof(float));
    for (size_t i = 0; i < count; i++) statistics[i] += early->blobs[0][trained + i];
    first->device->ops->leave(first->device, &before);
    return LS_OK;
}

static void tell_sums(struct ls_early *early, bool failed) {
    if (failed) atomic_store(&early->failed, true);
    (void)atomic_fetch_add(&early->summed, 1);
    ls_gate_open(&early->gate);
}

static void note_arrived(void *context, struct ls_range range) {
    struct ls_early *early = context;
    exchange_ranges(early->model->built.replicas[0].parameters, early->blobs[0], range.begin, range.end);
    early->exchanged = range.end;
    atomic_store(&early->arrived, range.end);
    ls_gate_open(&early->gate);
}

static ls_status prepare(struct ls_early *early, float **moments) {
    ls_model *model = early->model;
    ls_status status = LS_OK;
    memcpy(early->extras, early->blobs[0] + model->built.blob_count, sizeof(early->extras));
    if (!ls_model_is_alone(model))
        status = ls_step_report_check_rate(model, early->step.rule.learning_rate, early->extras);
    if (!status && ls_stored_wants_moments(model, early->extras)) status = ls_stored_make_moments(model, moments);
    return status ? status : add_statistics(early);
}

/* Nothing of the last pull is forgotten where a later step fails: ls_early_detach puts it back. */
static ls_status give_up_step(struct ls_early *early, ls_status status) {
    tell_sums(early, true);
    return status;
}

static ls_status pull(struct ls_early *early, float *moments) {
    ls_model *model = early->model;
    const struct ls_store_stepping stepping = {.step = &early->step,
                                               .keep = true,
                                               .array = early->blobs[0],
                                               .moments = moments,
                                               .stride = model->built.blob_count,
                                               .arrived = note_arrived,
                                               .context = early};
    ls_status status = ls_store_step(model->bound.store, &stepping);
    if (status) {
        atomic_store(&early->failed, true);
        return status;
    }
    early->open = false;
    early->version = early->step.iteration;
    if (moments) model->built.moments_step = early->version;
    atomic_store(&early->arrived, SIZE_MAX);
    return LS_OK;
}

/* The sums are told before the pull begins: the caller's thread goes on then. */
static ls_status end_behind(void *context, int lane, bool failed) {
    struct ls_early *early = context;
    float *moments = NULL;
    (void)lane;
    if (failed) return give_up_step(early, LS_OK);
    early->step = early->model->built.numbers->step; /* the caller's thread waits for the sums */
    ls_status status = prepare(early, &moments);
    if (status) return give_up_step(early, status);
    early->open = true;
    early->exchanged = 0;
    atomic_store(&early->arrived, 0);
    tell_sums(early, false);
    status = pull(early, moments);
    ls_gate_open(&early->gate);
    return status;
}

static ls_status await_early(void *context, size_t end) {
    struct ls_early *early = context;
    for (;;) {
        uint32_t seen = ls_gate_value(&early->gate);
        if (atomic_load(&early->arrived) >= end) return LS_OK;
        if (atomic_load(&early->failed)) return ls_reducer_await(early->model->bound.reducer, early->summed_steps);
        ls_gate_wait(&early->gate, seen, early->model->strategy->spins);
    }
}

ls_status ls_early_attach(ls_model *model, struct ls_reducer_config *config) {
    struct ls_model_bound *bound = &model->bound;
    ls_status status = is_possible(model) ? make_early(model, &bound->early) : LS_OK;
    if (!bound->early) return status;
    config->end = end_behind;
    config->context = bound->await_context = bound->early;
    config->lanes = bound->early->blobs;
    config->lane_count = 1;
    bound->await = await_early;
    return LS_OK;
}

/* ---- the others ---- */

void ls_early_begin(ls_model *model) {
    if (model->bound.early) model->bound.early->begun++;
}

ls_status ls_early_given(ls_model *model) {
    struct ls_early *early = model->bound.early;
    if (!early) return LS_OK;
    for (;;) {
        uint32_t seen = ls_gate_value(&early->gate);
        if (atomic_load(&early->summed) >= early->begun) break;
        ls_gate_wait(&early->gate, seen, early->model->strategy->spins);
    }
    if (atomic_load(&early->failed)) return ls_reducer_await(model->bound.reducer, early->begun);
    ls_reached("sums");
    early->summed_steps = early->begun;
    memcpy(model->bound.extras, early->extras, sizeof(early->extras));
    return LS_OK;
}

ls_status ls_early_settle(const ls_model *model) {
    const struct ls_early *early = model->bound.early;
    return early ? ls_reducer_await(model->bound.reducer, early->summed_steps) : LS_OK;
}
