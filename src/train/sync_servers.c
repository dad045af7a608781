/* Training in step with parameter servers (ParameterServerStrategy). The pull of a step goes on while the next one
 * begins: a forward pass waits, layer by layer, for the variables that it reads. New variables arrive where the
 * gradients were. The communicator's thread exchanges each range of them with the old variables. If a pull fails, all
 * old variables are still there, and detach_pull puts them back to their place. No gradient is written before the whole
 * pull is there. A step waits for its pull with one bucket, regularisers, statistics that replicas exchange, and sparse
 * tables.
 *
 * The communicator's thread ends steps (end_behind): it adds statistics, tells the caller's thread of the sums, and
 * pulls. Threads that wait look at counters behind one gate.
 *
 * A fit's step is done when its pull is. Until then the fit keeps what it was before the step, a row of numbers and the
 * callbacks' states, and goes back there if the pull fails. */
#include "train/sync.h"

#include <string.h>

#include "base/gate.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "gradients/reducer.h"
#include "runtime/state_transfer.h"
#include "store/store.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/fit.h"
#include "train/sparse.h"
#include "train/step.h"
#include "train/stored.h"

struct early {
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

static ls_status make_pull(ls_model *model, struct early **early) {
    LS_NEW(struct early, made, "the pull of variables");
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

static void detach_pull(ls_model *model) {
    struct early *early = ls_steal(model->bound.way);
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

static void tell_sums(struct early *early, bool failed) {
    if (failed) atomic_store(&early->failed, true);
    (void)atomic_fetch_add(&early->summed, 1);
    ls_gate_open(&early->gate);
}

static void note_arrived(void *context, struct ls_range range) {
    struct early *early = context;
    exchange_ranges(early->model->built.replicas[0].parameters, early->blobs[0], range.begin, range.end);
    early->exchanged = range.end;
    atomic_store(&early->arrived, range.end);
    ls_gate_open(&early->gate);
}

static ls_status prepare(struct early *early, float **moments) {
    ls_model *model = early->model;
    const float *statistics = model->built.replicas[0].parameters + ls_network_trainable_count(model->built.network);
    memcpy(early->extras, early->blobs[0] + model->built.blob_count, sizeof(early->extras));
    ls_status status = ls_step_report_check_rate(model, early->step.rule.learning_rate, early->extras);
    if (!status && ls_stored_wants_moments(model, early->extras)) status = ls_stored_make_moments(model, moments);
    if (status) return status;
    memcpy(early->statistics, statistics, count_statistics(model) * sizeof(float));
    return ls_stored_add_statistics(model, early->blobs[0]);
}

/* Nothing of the last pull is forgotten where a later step fails: detach_pull puts it back. */
static ls_status give_up_step(struct early *early, ls_status status) {
    tell_sums(early, true);
    return status;
}

static ls_status pull(struct early *early, float *moments) {
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
    struct early *early = context;
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

static ls_status await_variables(void *context, size_t end) {
    struct early *early = context;
    for (;;) {
        uint32_t seen = ls_gate_value(&early->gate);
        if (atomic_load(&early->arrived) >= end) return LS_OK;
        if (atomic_load(&early->failed)) return ls_reducer_await(early->model->bound.reducer, early->summed_steps);
        ls_gate_wait(&early->gate, seen, early->model->strategy->spins);
    }
}

static ls_status attach_pull(ls_model *model, struct ls_reducer_config *config) {
    struct early *early = NULL;
    ls_status status = is_possible(model) ? make_pull(model, &early) : LS_OK;
    if (!early) return status;
    config->end = end_behind;
    config->context = model->bound.way = model->bound.await_context = early;
    config->lanes = early->blobs;
    config->lane_count = 1;
    model->bound.await = await_variables;
    return LS_OK;
}

/* ---- the others ---- */

static void begin_pull(ls_model *model) {
    struct early *early = model->bound.way;
    if (early) early->begun++;
}

static ls_status wait_for_sums(ls_model *model) {
    struct early *early = model->bound.way;
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

static ls_status settle_pull(const ls_model *model) {
    const struct early *early = model->bound.way;
    return early ? ls_reducer_await(model->bound.reducer, early->summed_steps) : LS_OK;
}

/* ---- a fit ---- */

struct pulled_steps {
    struct ls_fit_moment before, next; /* the step whose pull is under way; the one after it */
    bool pending;                      /* a pull is under way */
};

static void close_servers(struct ls_fitting *fitting) {
    struct pulled_steps *steps = ls_steal(fitting->kept);
    if (!steps) return;
    ls_fit_moment_forget(&steps->before);
    ls_fit_moment_forget(&steps->next);
    ls_free(steps);
}

static ls_status begin_step(struct ls_fitting *fitting) {
    struct pulled_steps *steps = fitting->kept;
    if (!fitting->model->bound.way) return LS_OK;
    if (!steps) fitting->kept = steps = ls_alloc(sizeof(*steps));
    if (!steps) return ls_fail_memory("a fit's steps", sizeof(*steps));
    return ls_fit_moment_keep(&steps->next, fitting);
}

/* All workers draw the same conclusion, but for the one that writes checkpoints. */
static bool needs_variables(const struct ls_fitting *fitting) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool ends = fitting->state.position >= ls_fit_epoch_end(fitting);
    return ends || progress->drains || progress->fetches || progress->requests.save || progress->requests.stop;
}

/* The step's gradients are of the whole variables of the one before: that is done now. Waits for this one's pull where
 * its variables are needed. */
static ls_status end_step_before(struct ls_fitting *fitting, bool *met) {
    struct pulled_steps *steps = fitting->kept;
    if (!fitting->model->bound.way) return LS_OK;
    struct ls_fit_moment done = steps->before;
    if (steps->pending) ls_state_transfer_commit(fitting->model->strategy->runtime);
    steps->before = steps->next;
    steps->next = done;
    steps->pending = true;
    *met = needs_variables(fitting);
    ls_status status = *met ? settle_pull(fitting->model) : LS_OK;
    if (!status && *met) steps->pending = false;
    return status ? ls_fail_context(status, "the new variables") : LS_OK;
}

static void stand_behind(struct ls_fitting *fitting) {
    struct pulled_steps *steps = fitting->kept;
    ls_model *model = fitting->model;
    if (model->progress.whole != steps->before.progress.step) {
        ls_state_transfer_commit(model->strategy->runtime);
        return;
    }
    ls_fit_moment_go_back(&steps->before, fitting);
}

/* The parts of the generation are made anew: that ends what is under way. */
static ls_status go_back_a_step(struct ls_fitting *fitting, ls_status status) {
    const struct ls_model_bound *bound = &fitting->model->bound;
    struct pulled_steps *steps = fitting->kept;
    struct ls_kept_error kept = ls_kept_error_of(status);
    bool pending = steps && steps->pending;
    if (!steps || !bound->way || (!pending && !ls_reducer_has_failed(bound->reducer))) return status;
    ls_bind_detach(fitting->model);
    if (pending) stand_behind(fitting);
    steps->pending = false;
    return ls_kept_error_raise(&kept);
}

static void settle_checkpoint(struct ls_fitting *fitting, const struct ls_loss_sums *sums) {
    if (fitting->kept && sums->rows) ls_checkpointing_settle(fitting->checkpointing, &fitting->state);
}

const struct ls_sync_ops ls_sync_servers = {.pushes = true,
                                            .asks_in_step = true,
                                            .check = ls_sparse_check,
                                            .attach = attach_pull,
                                            .detach = detach_pull,
                                            .begin = begin_pull,
                                            .given = wait_for_sums,
                                            .commit = ls_sync_commit,
                                            .settle = settle_pull,
                                            .open_data = ls_iterator_open_pipeline,
                                            .close = close_servers,
                                            .begin_step = begin_step,
                                            .add = settle_checkpoint,
                                            .end_step = end_step_before,
                                            .go_back = go_back_a_step};
