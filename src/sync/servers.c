/* Training in step with parameter servers (ParameterServerStrategy). Steps go on behind the replicas: the
 * communicator's thread ends them (end_lane), and pulls the new variables. A step's gradients are those of a lane, and
 * the variables come back into it. Threads that wait look at counters behind gates. A lane goes from one thread to the
 * next with the reducer's.
 *
 * In step (LS_SYNC) the pull of a step goes on while the next one begins: a forward pass waits, layer by layer, for the
 * variables that it reads. The one lane is where the replicas' gradients are. The communicator's thread exchanges each
 * range that arrives there with the old variables. If a pull fails, all old variables are still there, and detach_lanes
 * puts them back to their place. No gradient is written before the whole pull is there. A step waits for its pull with
 * one bucket, regularisers, statistics that replicas exchange, and sparse tables: it has no lane then.
 *
 * With LS_DELAYED a step's gradients are of the variables before the last delay steps. The reducer copies them into a
 * lane. A worker puts the versions in place one after the other, each behind the same step on all workers: the bits do
 * not depend on time. Host memory: delay + 1 lanes of 4 (blob + extras) bytes for each replica.
 *
 * A fit's step is done when its pull is. In step the fit keeps until then what it was before the step, a row of numbers
 * and the callbacks' states, and goes back there if the pull fails. Delayed steps are one transaction from one moment
 * at which none is under way to the next: the pipeline drains at the end of an epoch, after a step at which a
 * checkpoint may be due, and where somebody asks for a checkpoint or to stop. The first step after that is told to the
 * servers as one before which they keep what is there: all go back to that version where a step fails. Host memory: the
 * model's variables once. */
#include "sync/sync.h"

#include <string.h>

#include "base/gate.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/options.h"
#include "base/point.h"
#include "gradients/reducer.h"
#include "runtime/state_transfer.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/fit.h"
#include "train/sparse.h"
#include "train/step.h"
#include "train/stored.h"

/* The communicator's thread reads it, the caller's thread writes the penalty meanwhile. */
struct pull {
    struct ls_optimizer_step step;
    bool keep;   /* the lanes were empty before this step */
    bool writes; /* this worker writes checkpoints */
    bool fetch;  /* it may write one behind this step */
};
struct lane {
    struct pull pull;
    double penalty;
};
struct lanes {
    ls_model *model; /* borrowed */
    bool in_place;   /* the one lane is the replicas' gradients */
    int count;
    struct lane *each;
    float **blobs;        /* [count][local replicas] */
    float *memory;        /* the blobs; in place: the statistics before the step */
    int64_t given, taken; /* steps since it was made */
    /* the communicator's */
    int64_t ended, asked;   /* steps; the first one in which somebody asked for something, -1: none since keep */
    bool open;              /* statistics and variables are not all of one step */
    size_t exchanged;       /* variables below it are new; the others are old */
    int64_t version;        /* the step of the variables that are whole */
    _Atomic int64_t summed; /* steps whose sums are there, or never will be */
    _Atomic size_t arrived; /* elements of the present pull; SIZE_MAX: all, and nothing else is under way */
    _Atomic bool failed;
    struct ls_gate gate;
};

static int lane_of(const struct lanes *lanes, int64_t step) {
    return (int)(step % lanes->count);
}

/* All replicas' sums, then the new variables. */
static float *blob_of(const struct lanes *lanes, int lane) {
    return lanes->blobs[lane * lanes->model->strategy->local_count];
}

static float *statistics_of(const ls_model *model) {
    return model->built.replicas[0].parameters + ls_network_trainable_count(model->built.network);
}

static size_t size_of_statistics(const ls_model *model) {
    return (model->built.summed_count - ls_network_trainable_count(model->built.network)) * sizeof(float);
}

static bool is_possible(const ls_model *model) {
    if (model->strategy->delay) return true;
    if (ls_network_table_count(model->built.network) || model->bound.bucket_count < 2) return false;
    if (ls_update_has(&model->built.replicas[0], LS_UPDATE_PENALTY)) return false;
    return ls_sync_batch_norm_first(model) == model->spec.layer_count;
}

static ls_status fill_lanes(struct lanes *lanes) {
    const ls_model *model = lanes->model;
    size_t line = LS_ALIGNMENT / sizeof(float), replicas = (size_t)model->strategy->local_count;
    size_t stride = (model->built.summed_count + LS_EXTRAS + line - 1) / line * line;
    size_t count = (size_t)lanes->count * replicas;
    size_t size = lanes->in_place ? size_of_statistics(model) + sizeof(float) : count * stride * sizeof(float);
    lanes->each = ls_alloc_array((size_t)lanes->count, sizeof(*lanes->each));
    lanes->blobs = ls_alloc_array(count, sizeof(*lanes->blobs));
    lanes->memory = ls_alloc_aligned(size);
    if (!lanes->each || !lanes->blobs || !lanes->memory)
        return ls_fail_memory("steps on their way to the parameter servers: a smaller delay needs less", size);
    for (size_t i = 0; i < count; i++)
        lanes->blobs[i] = lanes->in_place ? model->built.replicas[i].gradients : lanes->memory + i * stride;
    return LS_OK;
}

static void free_lanes(struct lanes *lanes) {
    ls_free(lanes->memory);
    ls_free(lanes->blobs);
    ls_free(lanes->each);
    ls_free(lanes);
}

static ls_status make_lanes(ls_model *model, struct lanes **lanes) {
    int delay = model->strategy->delay;
    LS_NEW(struct lanes, made, "steps that go on");
    *made = (struct lanes){.model = model,
                           .in_place = !delay,
                           .count = delay + 1,
                           .asked = -1,
                           .version = model->progress.step.iteration,
                           .arrived = SIZE_MAX};
    ls_status status = fill_lanes(made);
    return LS_HAND_OVER(status, lanes, made, free_lanes(made));
}

static void exchange_ranges(float *left, float *right, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        float kept = left[i];
        left[i] = right[i];
        right[i] = kept;
    }
}

static void detach_lanes(ls_model *model) {
    struct lanes *lanes = ls_steal(model->bound.way);
    if (!lanes) return;
    if (lanes->in_place && lanes->open) {
        exchange_ranges(model->built.replicas[0].parameters, blob_of(lanes, 0), 0, lanes->exchanged);
        ls_reached("undo");
        memcpy(statistics_of(model), lanes->memory, size_of_statistics(model));
    }
    model->progress.whole = lanes->version;
    free_lanes(lanes);
}

/* ---- the communicator's thread ---- */

/* The workers hear of a request when they take its step, behind the gradients of the last one before the lanes are
 * empty. */
static bool fetches(struct lanes *lanes, const struct pull *wanted, const float *extras) {
    int64_t step = lanes->ended++;
    if (wanted->keep) lanes->asked = -1;
    if (lanes->asked < 0 && ls_step_report_asks(extras)) lanes->asked = step;
    bool heard = lanes->asked >= 0 && step == lanes->asked + lanes->count - 1;
    return wanted->fetch || (heard && wanted->writes);
}

static ls_status prepare(struct lanes *lanes, struct pull *wanted, const float *blob, bool *fetch) {
    ls_model *model = lanes->model;
    const float *extras = blob + model->built.summed_count;
    if (model->sync->counts_later) ls_label_count_unscale(model, extras, &wanted->step);
    ls_status status = ls_step_report_check_rate(model, wanted->step.rule.learning_rate, extras);
    *fetch = !status && fetches(lanes, wanted, extras);
    if (status || !lanes->in_place) return status;
    memcpy(lanes->memory, statistics_of(model), size_of_statistics(model));
    return ls_stored_add_statistics(model, blob);
}

static void tell_sums(struct lanes *lanes, bool failed) {
    if (failed) atomic_store(&lanes->failed, true);
    (void)atomic_fetch_add(&lanes->summed, 1);
    ls_gate_open(&lanes->gate);
}

static void note_arrived(void *context, struct ls_range range) {
    struct lanes *lanes = context;
    exchange_ranges(lanes->model->built.replicas[0].parameters, blob_of(lanes, 0), range.begin, range.end);
    lanes->exchanged = range.end;
    atomic_store(&lanes->arrived, range.end);
    ls_gate_open(&lanes->gate);
}

static ls_status make_pull(struct lanes *lanes, const struct pull *wanted, float *blob, bool fetch) {
    const struct ls_store_stepping stepping = {.step = &wanted->step,
                                               .keep = wanted->keep,
                                               .array = blob,
                                               .arrived = lanes->in_place ? note_arrived : NULL,
                                               .context = lanes};
    ls_status status = ls_stored_step(lanes->model, stepping, fetch);
    if (status) {
        atomic_store(&lanes->failed, true);
        return status;
    }
    lanes->open = false;
    lanes->version = wanted->step.iteration;
    atomic_store(&lanes->arrived, SIZE_MAX);
    return LS_OK;
}

/* The sums are told before the pull begins: the caller's thread goes on then, in place with the same lane. Nothing of
 * the last pull is forgotten where a later step fails: detach_lanes puts it back. */
static ls_status end_lane(void *context, int index, bool failed) {
    struct lanes *lanes = context;
    struct pull wanted = lanes->each[index].pull;
    float *blob = blob_of(lanes, index);
    bool fetch = false;
    ls_status status = failed ? LS_OK : prepare(lanes, &wanted, blob, &fetch);
    if (failed || status) {
        tell_sums(lanes, true);
        return status;
    }
    lanes->open = true;
    lanes->exchanged = 0;
    atomic_store(&lanes->arrived, 0);
    tell_sums(lanes, false);
    status = make_pull(lanes, &wanted, blob, fetch);
    ls_gate_open(&lanes->gate);
    return status;
}

static ls_status await_variables(void *context, size_t end) {
    struct lanes *lanes = context;
    for (;;) {
        uint32_t seen = ls_gate_value(&lanes->gate);
        if (atomic_load(&lanes->arrived) >= end) return LS_OK;
        if (atomic_load(&lanes->failed)) return ls_reducer_await(lanes->model->bound.reducer, lanes->given);
        ls_gate_wait(&lanes->gate, seen, lanes->model->strategy->spins);
    }
}

static ls_status attach_lanes(ls_model *model, struct ls_reducer_config *config) {
    struct lanes *lanes = NULL;
    ls_status status = is_possible(model) ? make_lanes(model, &lanes) : LS_OK;
    if (!lanes) return status;
    config->end = end_lane;
    config->context = model->bound.way = model->bound.await_context = lanes;
    config->lanes = lanes->blobs;
    config->lane_count = lanes->count;
    model->bound.await = lanes->in_place ? await_variables : NULL;
    return LS_OK;
}

/* ---- the caller's thread ---- */

static void begin_lane(ls_model *model) {
    struct lanes *lanes = model->bound.way;
    const struct ls_model_progress *progress = &model->progress;
    if (!lanes) return;
    bool first = lanes->given == lanes->taken, writes = progress->keeps && !model->strategy->runtime->rank;
    lanes->each[lane_of(lanes, lanes->given)].pull =
        (struct pull){.step = model->built.numbers->step,
                      .keep = first,
                      .writes = writes,
                      .fetch = writes && progress->fetches && (progress->drains || lanes->in_place)};
    if (first) model->progress.requests = (struct ls_requests){0};
}

static ls_status wait_for_sums(ls_model *model) {
    struct lanes *lanes = model->bound.way;
    if (!lanes) return LS_OK;
    for (;;) {
        uint32_t seen = ls_gate_value(&lanes->gate);
        if (atomic_load(&lanes->summed) > lanes->given) break;
        ls_gate_wait(&lanes->gate, seen, model->strategy->spins);
    }
    if (atomic_load(&lanes->failed)) return ls_reducer_await(model->bound.reducer, lanes->given + 1);
    ls_reached("sums");
    lanes->taken = ++lanes->given;
    memcpy(model->bound.extras, blob_of(lanes, 0) + model->built.summed_count, sizeof(model->bound.extras));
    return LS_OK;
}

/* Waits for the oldest step under way, puts its variables in place, and gives its sums. Requests of it become the
 * model's. Once for each step: false in *any where none is under way. */
static ls_status take_oldest(ls_model *model, struct ls_loss_sums *sums, bool *any) {
    struct lanes *lanes = model->bound.way;
    const struct ls_requests before = model->progress.requests;
    int index = lane_of(lanes, lanes->taken);
    const float *blob = blob_of(lanes, index);
    *any = lanes->taken < lanes->given;
    *sums = (struct ls_loss_sums){0};
    if (!*any) return LS_OK;
    ls_status status = ls_reducer_await(model->bound.reducer, lanes->taken + 1);
    if (!status) status = ls_stored_add_statistics(model, blob);
    if (status) return status;
    memcpy(model->built.replicas[0].parameters, blob, ls_network_trainable_count(model->built.network) * sizeof(float));
    lanes->taken++;
    ls_step_report_read(model, blob + model->built.summed_count, lanes->each[index].penalty, sums);
    const struct ls_requests *now = &model->progress.requests;
    if (!now->save && !now->stop) model->progress.requests = before;
    return LS_OK;
}

/* If more than delay steps are under way it takes the oldest one; else sums become zero. */
static ls_status commit_lane(ls_model *model, struct ls_loss_sums *sums) {
    struct lanes *lanes = model->bound.way;
    bool any;
    lanes->each[lane_of(lanes, lanes->given)].penalty = model->built.replicas[0].numbers->penalty;
    lanes->given++;
    *sums = (struct ls_loss_sums){0};
    if (lanes->given - lanes->taken < lanes->count) return LS_OK;
    return take_oldest(model, sums, &any);
}

static ls_status settle_lanes(const ls_model *model) {
    const struct lanes *lanes = model->bound.way;
    return lanes ? ls_reducer_await(model->bound.reducer, lanes->given) : LS_OK;
}

/* ---- a fit ---- */

/* After a step, alike on all workers: the state of all is needed. */
static bool is_needed(const struct ls_fitting *fitting) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool ends = fitting->state.position >= ls_fit_epoch_end(fitting);
    return ends || progress->drains || progress->requests.save || progress->requests.stop;
}

static void settle_checkpoint(struct ls_fitting *fitting, const struct ls_loss_sums *sums) {
    if (sums->rows) ls_checkpointing_settle(fitting->checkpointing, &fitting->state);
}

/* ---- a fit in step: a stretch is the step whose pull is under way ---- */

static ls_status begin_pulled_step(struct ls_fitting *fitting) {
    return fitting->model->bound.way ? ls_fit_moment_keep(&fitting->stretch.next, fitting) : LS_OK;
}

/* The step's gradients are of the whole variables of the one before: that is done now. Waits for this one's pull where
 * its variables are needed, also by the worker alone that writes checkpoints. */
static ls_status end_step_before(struct ls_fitting *fitting, const struct ls_loss_sums *sums, bool *met) {
    struct ls_fit_stretch *stretch = &fitting->stretch;
    const struct ls_fit_moment done = stretch->moment;
    if (!fitting->model->bound.way) return LS_OK;
    settle_checkpoint(fitting, sums);
    if (stretch->open) ls_state_transfer_commit(fitting->model->strategy->runtime);
    stretch->moment = stretch->next;
    stretch->next = done;
    stretch->open = true;
    *met = is_needed(fitting) || fitting->model->progress.fetches;
    ls_status status = *met ? settle_lanes(fitting->model) : LS_OK;
    if (!status && *met) stretch->open = false;
    return status ? ls_fail_context(status, "the new variables") : LS_OK;
}

/* The parts of the generation are made anew: that ends what is under way. */
static ls_status go_back_a_step(struct ls_fitting *fitting, ls_status status) {
    ls_model *model = fitting->model;
    struct ls_fit_stretch *stretch = &fitting->stretch;
    struct ls_kept_error kept = ls_kept_error_of(status);
    bool pending = stretch->open;
    if (!model->bound.way || (!pending && !ls_reducer_has_failed(model->bound.reducer))) return status;
    ls_bind_detach(model);
    stretch->open = false;
    if (pending && model->progress.whole != stretch->moment.progress.step)
        ls_state_transfer_commit(model->strategy->runtime);
    else if (pending)
        ls_fit_moment_go_back(&stretch->moment, fitting);
    return ls_kept_error_raise(&kept);
}

const struct ls_sync_ops ls_sync_servers = {.pushes = true,
                                            .asks_in_step = true,
                                            .check = ls_sparse_check,
                                            .attach = attach_lanes,
                                            .detach = detach_lanes,
                                            .begin = begin_lane,
                                            .given = wait_for_sums,
                                            .commit = ls_sync_commit,
                                            .settle = settle_lanes,
                                            .open_data = ls_iterator_open_pipeline,
                                            .begin_step = begin_pulled_step,
                                            .end_step = end_step_before,
                                            .go_back = go_back_a_step};

/* ---- a fit with delayed steps ---- */

/* Steps under way are stopped, and the parts of the generation are made anew. The servers have the old version too. */
static void stop_steps(struct ls_fitting *fitting) {
    ls_bind_detach(fitting->model);
}

static bool has_regularisers(const ls_model *model) {
    for (size_t i = 0; i < model->spec.layer_count; i++)
        if (model->spec.layers[i].kernel_l1 > 0 || model->spec.layers[i].kernel_l2 > 0) return true;
    return false;
}

/* One factor is a step's. It is not one of each of its batches, and not one of regularisers. */
static ls_status check_labels(const struct ls_fitting *fitting) {
    const ls_model *model = fitting->model;
    const char *beside = NULL;
    if (model->progress.step.rule.gradient_accumulation_steps > 1) beside = "beside gradient_accumulation_steps";
    if (has_regularisers(model)) beside = "beside regularisers of kernels";
    return beside ? ls_label_count_refuse(model, fitting->data, "consistency delayed", beside) : LS_OK;
}

static ls_status open_delayed(struct ls_fitting *fitting) {
    fitting->stretch.where = "where no step was under way";
    fitting->stretch.stop = stop_steps;
    ls_status status = check_labels(fitting);
    if (status) return status;
    return ls_sync_batch_norm_refuse(fitting->model, "consistency delayed",
                                     "for which workers meet in every step; take one that is not, or consistency sync");
}

static ls_status take_all_steps(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    ls_model *model = fitting->model;
    struct ls_loss_sums sums;
    bool any = true;
    ls_reached("drain");
    while (any) {
        ls_status status = take_oldest(model, &sums, &any);
        if (status) return status;
        ls_op_add_loss_sums(&state->sums, &sums);
    }
    ls_fit_numbers_show(fitting);
    model->progress.request = LS_GO_ON;
    ls_fit_stretch_forget(&fitting->stretch);
    return LS_OK;
}

static ls_status end_delayed_step(struct ls_fitting *fitting, const struct ls_loss_sums *sums, bool *met) {
    settle_checkpoint(fitting, sums);
    *met = is_needed(fitting);
    ls_status status = *met ? take_all_steps(fitting) : LS_OK;
    return status ? ls_fail_context(status, "steps under way") : LS_OK;
}

/* Delayed steps drain where a checkpoint may be due. */
static ls_status describe_delay(FILE *out, const ls_strategy *strategy, const ls_checkpoint_options *checkpoint) {
    ls_checkpoint_options known;
    ls_status status = ls_options_copy("ls_checkpoint_options", &known, sizeof(known), checkpoint);
    if (!status) (void)fprintf(out, "delay=%d\ncheckpoint_steps=%lld\n", strategy->delay, (long long)known.every_steps);
    return status;
}

static void advise_on_delay(const struct ls_log *log, const ls_strategy *strategy, const char *rule) {
    ls_log_warning(log,
                   "gradients that are %d step%s old suit %s less than plain SGD (arXiv 1810.03264): compare the "
                   "loss with consistency sync, or take a smaller learning rate or momentum",
                   strategy->delay, strategy->delay == 1 ? "" : "s", rule);
}

const struct ls_sync_ops ls_sync_delayed = {.pushes = true,
                                            .asks_in_step = true,
                                            .counts_later = true,
                                            .check = ls_sparse_check,
                                            .describe = describe_delay,
                                            .advise = advise_on_delay,
                                            .attach = attach_lanes,
                                            .detach = detach_lanes,
                                            .begin = begin_lane,
                                            .commit = commit_lane,
                                            .settle = settle_lanes,
                                            .open_data = ls_iterator_open_pipeline,
                                            .open = open_delayed,
                                            .begin_step = ls_fit_stretch_begin,
                                            .end_step = end_delayed_step,
                                            .go_back = ls_fit_stretch_go_back};
