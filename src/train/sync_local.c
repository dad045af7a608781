/* A fit in which workers train alone between meetings (LocalSGDStrategy): local SGD (Stich 2018) and DiLoCo (Douillard
 * et al. 2023). The steps from one meeting to the next are one transaction of the fit. It keeps the state in which the
 * workers left the last meeting: where the transaction fails, each worker goes back to it. Host memory: two states of
 * the model, one of them during a meeting. Bytes on the links in sync_every steps: those of one all-reduce of the
 * variables, and of one of each moment unless these are local.
 *
 * A meeting: the workers add up their losses and requests, compare their learning rates, and add up their variables and
 * moments. Nothing changes before all of it has come. */
#include "train/sync.h"

#include <string.h>

#include "base/float_bits.h"
#include "base/kept_error.h"
#include "base/memory.h"
#include "base/point.h"
#include "strategy/iterator.h"
#include "train/fit.h"
#include "train/fragments.h"
#include "train/meeting.h"
#include "train/model_state.h"
#include "train/training_state.h"
#include "train/step.h"

struct local_steps {
    float *state; /* of the last meeting, as of ls_model_state_get; its variables are what changes are counted from */
    struct ls_fit_moment moment;    /* of the last meeting */
    struct ls_loss_sums own;        /* of this worker since then */
    struct ls_fragments *fragments; /* that meet between; NULL: none does, or no step has begun since then */
    bool open;                      /* a step has begun since then */
};

static ls_status check_local(const ls_model *model) {
    if (model->spec.objective.precision == LS_MIXED_FLOAT16)
        return ls_fail(LS_UNIMPLEMENTED, "LocalSGDStrategy has no loss scaling: take precision mixed_bfloat16 or "
                                         "float32 in place of mixed_float16");
    return ls_sync_batch_norm_refuse(model, "LocalSGDStrategy",
                                     "and workers do not meet in a step; take one that is not");
}

static ls_status open_local(struct ls_fitting *fitting) {
    ls_status status = check_local(fitting->model);
    if (status) return status;
    fitting->kept = ls_alloc(sizeof(struct local_steps));
    return fitting->kept ? LS_OK : ls_fail_memory("a fit's meetings", sizeof(struct local_steps));
}

static void forget_meeting(struct local_steps *local) {
    ls_fragments_free(ls_steal(local->fragments));
    ls_free(ls_steal(local->state));
    ls_fit_moment_forget(&local->moment);
    local->open = false;
}

static void close_local(struct ls_fitting *fitting) {
    if (!fitting->kept) return;
    forget_meeting(fitting->kept);
    ls_free(ls_steal(fitting->kept));
}

/* ---- the state of the last meeting ---- */

static ls_status keep_state(struct ls_fitting *fitting) {
    struct local_steps *local = fitting->kept;
    const ls_model *model = fitting->model;
    size_t floats = ls_model_state_count(model);
    local->state = ls_alloc_aligned(floats * sizeof(float));
    if (!local->state) return ls_fail_memory("the state of a meeting", floats * sizeof(float));
    local->own = (struct ls_loss_sums){0};
    ls_status status = ls_fit_moment_keep(&local->moment, fitting);
    if (!status) status = ls_model_state_get(model, local->state);
    if (status || !ls_fragments_are_wanted(model->strategy)) return status;
    return ls_fragments_new(model, local->state, &local->fragments);
}

/* Fails where another worker is lost. */
static ls_status begin_step(struct ls_fitting *fitting) {
    struct local_steps *local = fitting->kept;
    struct ls_abort *abort = fitting->model->strategy->runtime->abort;
    if (abort && ls_abort_raised(abort)) return ls_abort_status(abort);
    if (local->open) return LS_OK;
    ls_status status = keep_state(fitting);
    local->open = !status;
    if (status) forget_meeting(local);
    return status;
}

static void add_own(struct ls_fitting *fitting, const struct ls_loss_sums *sums) {
    struct local_steps *local = fitting->kept;
    ls_op_add_loss_sums(&local->own, sums);
}

static ls_status put_back(struct ls_fitting *fitting) {
    struct local_steps *local = fitting->kept;
    ls_model *model = fitting->model;
    int64_t done = model->progress.step.iteration - local->moment.progress.step;
    ls_status status = ls_model_state_set(model, local->state);
    if (status) return status;
    ls_reached("undo");
    ls_fit_moment_go_back(&local->moment, fitting);
    if (done)
        ls_log_info(&model->strategy->runtime->log, "goes back %lld step%s, to the workers' last meeting",
                    (long long)done, done == 1 ? "" : "s");
    return LS_OK;
}

static ls_status go_back(struct ls_fitting *fitting, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    struct local_steps *local = fitting->kept;
    if (!local || !local->open) return status;
    ls_fragments_free(ls_steal(local->fragments)); /* its thread uses the group */
    ls_status back = put_back(fitting);
    forget_meeting(local);
    return back ? ls_fail_context(back, "after '%.200s'", kept.message) : ls_kept_error_raise(&kept);
}

/* ---- a meeting ---- */

/* Workers add up so many numbers beside their state: sums, and requests. */
enum { COUNT = LS_RESULT_NUMBERS + 3 };

static void write_numbers(const struct ls_fitting *fitting, double *numbers) {
    const struct local_steps *local = fitting->kept;
    const ls_model *model = fitting->model;
    ls_request request = model->progress.request;
    const double last[] = {request == LS_SAVE, request == LS_STOP,
                           request == LS_STOP ? (double)model->strategy->runtime->rank : 0};
    ls_result_write_sums(&local->own, numbers);
    memcpy(numbers + LS_RESULT_NUMBERS, last, sizeof(last));
}

/* The epoch's sums are those of all workers up to here. */
static void take_numbers(struct ls_fitting *fitting, const double *numbers) {
    const struct local_steps *local = fitting->kept;
    struct ls_fit_state *state = &fitting->state;
    ls_model *model = fitting->model;
    const double *last = numbers + LS_RESULT_NUMBERS;
    struct ls_loss_sums all;
    ls_result_read_sums(numbers, &all);
    state->sums = local->moment.progress.fit.sums;
    ls_op_add_loss_sums(&state->sums, &all);
    ls_result_means(model, &state->sums, &state->result.loss, &state->result.accuracy, state->result.metrics);
    model->progress.requests = (struct ls_requests){(int64_t)last[0], (int64_t)last[1], (int64_t)last[2]};
    model->progress.request = LS_GO_ON;
}

static ls_status check_rates(const ls_model *model) {
    struct ls_runtime *runtime = model->strategy->runtime;
    LS_CLEANUP(ls_free_pointer) int64_t *bits = ls_alloc_array((size_t)runtime->size, sizeof(*bits));
    float own = model->progress.step.rule.learning_rate;
    if (!bits) return ls_fail_memory("learning rates", (size_t)runtime->size * sizeof(*bits));
    ls_status status = ls_runtime_exchange(runtime, "learning rate", ls_float_bits_of(own), bits);
    for (int w = 0; !status && w < runtime->size; w++)
        if (bits[w] != bits[0])
            status = ls_fail(LS_INVALID_ARGUMENT,
                             "the learning rate on rank %d is another one than on rank 0, and %g on rank %d: set it "
                             "alike on all",
                             w, (double)own, runtime->rank);
    return status;
}

/* now: this worker's state, then the mean of all in its place: its trained variables, moving statistics, and moments.
 */
static ls_status mean_state(const ls_model *model, const float *before, float *now) {
    size_t trained = ls_network_trainable_count(model->built.network), blob = model->built.blob_count;
    size_t moments = (size_t)ls_optimizer_moments(&model->progress.step.rule);
    float *momentum = model->built.outer ? now + (1 + moments) * blob : NULL;
    ls_status status = ls_meeting_mean(model, trained, before, now, blob);
    if (!status)
        status = ls_meeting_add_up(
            model, LS_ALL_REDUCE("meeting", now + trained, now + trained, blob - trained, .op = LS_MEAN));
    if (!status) ls_meeting_step_outer(model, trained, before, now, momentum);
    return status;
}

static const float *before_meeting(const struct local_steps *local) {
    return local->fragments ? ls_fragments_before(local->fragments) : local->state;
}

static ls_status hold_meeting(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    double numbers[COUNT];
    size_t floats = ls_model_state_count(model);
    LS_CLEANUP(ls_free_pointer) float *now = ls_alloc_aligned(floats * sizeof(float));
    if (!now) return ls_fail_memory("a meeting", floats * sizeof(float));
    struct ls_track *track = model->strategy->replicas[0].track;
    int64_t begun = ls_track_begin(track);
    ls_reached("meeting");
    write_numbers(fitting, numbers);
    ls_status status = ls_model_state_get(model, now);
    if (!status) status = check_rates(model);
    if (!status) status = ls_meeting_add_up(model, LS_ALL_REDUCE("meeting", numbers, numbers, COUNT, LS_FLOAT64));
    if (!status) status = mean_state(model, before_meeting(fitting->kept), now);
    if (!status) status = ls_model_state_set(model, now);
    if (status) return status;
    take_numbers(fitting, numbers);
    forget_meeting(fitting->kept);
    ls_track_end(track, begun, "meeting",
                 (struct ls_span_facts){.step = model->progress.step.iteration, .bytes = floats * sizeof(float)});
    return LS_OK;
}

static ls_status meet_if_due(struct ls_fitting *fitting, bool *met) {
    const ls_model *model = fitting->model;
    const struct local_steps *local = fitting->kept;
    int64_t done = model->progress.step.iteration - local->moment.progress.step;
    bool last = fitting->state.position >= (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    ls_status status = LS_OK;
    *met = last || done >= model->strategy->local.sync_every;
    if (local->fragments) status = ls_fragments_step(local->fragments, done, last, met);
    if (!status && *met) status = ls_fail_context(hold_meeting(fitting), "a meeting of all workers");
    return status;
}

/* Its sums are this worker's; its requests go with a meeting. */
static ls_status commit(ls_model *model, struct ls_loss_sums *sums) {
    ls_step_report_read(model, model->bound.extras, model->built.replicas[0].numbers->penalty, sums);
    return LS_OK;
}

const struct ls_sync_ops ls_sync_local = {.apart = true,
                                          .commit = commit,
                                          .open_data = ls_iterator_open_pipeline,
                                          .open = open_local,
                                          .close = close_local,
                                          .begin_step = begin_step,
                                          .add = add_own,
                                          .end_step = meet_if_due,
                                          .go_back = go_back};
