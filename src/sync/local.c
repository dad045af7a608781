/* A fit in which workers train alone between meetings (LocalSGDStrategy): local SGD (Stich 2018) and DiLoCo (Douillard
 * et al. 2023). The steps from one meeting to the next are one transaction of the fit. It keeps the state in which the
 * workers left the last meeting: where the transaction fails, each worker goes back to it. Host memory: two states of
 * the model, one of them during a meeting. Bytes on the links in sync_every steps: those of one all-reduce of the
 * variables, and of one of each moment unless these are local.
 *
 * A meeting: the workers add up their losses and requests, compare their learning rates, and add up their variables and
 * moments. Nothing changes before all of it has come. */
#include "sync/sync.h"

#include <string.h>

#include "base/float_bits.h"
#include "base/memory.h"
#include "base/plain.h"
#include "base/point.h"
#include "strategy/iterator.h"
#include "train/fit.h"
#include "sync/meeting.h"
#include "train/model_state.h"
#include "train/training_state.h"
#include "train/step.h"

/* A stretch goes from one meeting to the next. Changes are counted from the variables at its begin. */
struct local_steps {
    struct ls_loss_sums own;        /* of this worker in it */
    struct ls_fragments *fragments; /* that meet between; NULL: none does, or no step has begun since then */
};

static ls_status check_local(const ls_model *model) {
    if (model->spec.objective.precision == LS_MIXED_FLOAT16)
        return ls_fail(LS_UNIMPLEMENTED, "LocalSGDStrategy has no loss scaling: take precision mixed_bfloat16 or "
                                         "float32 in place of mixed_float16");
    return ls_sync_batch_norm_refuse(model, "LocalSGDStrategy",
                                     "and workers do not meet in a step; take one that is not");
}

static void forget_fragments(struct ls_fitting *fitting) {
    struct local_steps *local = fitting->kept;
    ls_fragments_free(ls_steal(local->fragments)); /* its thread uses the group */
}

static ls_status open_local(struct ls_fitting *fitting) {
    ls_status status = check_local(fitting->model);
    if (status) return status;
    fitting->stretch.where = "the workers' last meeting";
    fitting->stretch.stop = forget_fragments;
    fitting->kept = ls_alloc(sizeof(struct local_steps));
    return fitting->kept ? LS_OK : ls_fail_memory("a fit's meetings", sizeof(struct local_steps));
}

static void close_local(struct ls_fitting *fitting) {
    if (fitting->kept) forget_fragments(fitting);
    ls_free(ls_steal(fitting->kept));
}

/* Fails where another worker is lost. */
static ls_status begin_local_step(struct ls_fitting *fitting) {
    struct local_steps *local = fitting->kept;
    const ls_strategy *strategy = fitting->model->strategy;
    struct ls_abort *abort = strategy->runtime->abort;
    if (abort && ls_abort_raised(abort)) return ls_abort_status(abort);
    if (fitting->stretch.open) return LS_OK;
    local->own = (struct ls_loss_sums){0};
    ls_status status = ls_fit_stretch_begin(fitting);
    if (!status && ls_fragments_are_wanted(strategy))
        status = ls_fragments_new(fitting->model, fitting->stretch.state, &local->fragments);
    if (status) ls_fit_stretch_forget(&fitting->stretch);
    return status;
}

/* ---- a meeting ---- */

static void write_numbers(const struct ls_fitting *fitting, double *numbers) {
    const struct local_steps *local = fitting->kept;
    const ls_model *model = fitting->model;
    ls_request request = model->progress.request;
    bool stop = request == LS_STOP;
    const struct ls_requests requests = {request == LS_SAVE, stop, stop ? model->strategy->runtime->rank : 0};
    ls_fit_numbers_write(&local->own, &requests, numbers);
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
    size_t trained = ls_network_trainable_count(model->built.network), summed = model->built.summed_count;
    size_t moments = (size_t)ls_optimizer_moments(&model->progress.step.rule);
    float *first = now + model->built.blob_count;
    ls_status status = ls_meeting_mean(model, trained, before, now);
    if (!status) status = ls_meeting_mean_moments(model, trained, first, summed);
    if (!status)
        status = ls_meeting_add_up(
            model, LS_ALL_REDUCE("meeting", now + trained, now + trained, summed - trained, .op = LS_MEAN));
    if (!status)
        ls_meeting_step_outer(model, trained, before, now,
                              ls_model_state_outer(model) ? first + moments * summed : NULL);
    return status;
}

static const float *before_meeting(const struct ls_fitting *fitting) {
    const struct local_steps *local = fitting->kept;
    return local->fragments ? ls_fragments_before(local->fragments) : fitting->stretch.state;
}

static ls_status hold_meeting(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    double numbers[LS_FIT_NUMBERS];
    size_t floats = ls_model_state_count(model, LS_PARTS_HERE);
    LS_CLEANUP(ls_free_pointer) float *now = ls_alloc_aligned(floats * sizeof(float));
    if (!now) return ls_fail_memory("a meeting", floats * sizeof(float));
    struct ls_track *track = model->strategy->replicas[0].track;
    int64_t begun = ls_track_begin(track);
    ls_reached("meeting");
    write_numbers(fitting, numbers);
    ls_status status = ls_model_state_get(model, LS_PARTS_HERE, now);
    if (!status) status = check_rates(model);
    if (!status)
        status = ls_meeting_add_up(model, LS_ALL_REDUCE("meeting", numbers, numbers, LS_FIT_NUMBERS, LS_FLOAT64));
    if (!status) status = mean_state(model, before_meeting(fitting), now);
    if (!status) status = ls_model_state_set(model, LS_PARTS_HERE, LS_FROM_STEPS, now);
    if (status) return status;
    fitting->state.sums = fitting->stretch.moment.progress.fit.sums; /* in place of this worker's own */
    ls_fit_numbers_take(fitting, numbers);
    forget_fragments(fitting);
    ls_fit_stretch_forget(&fitting->stretch);
    ls_track_end(track, begun, "meeting",
                 (struct ls_span_facts){.step = model->progress.step.iteration, .bytes = floats * sizeof(float)});
    return LS_OK;
}

static ls_status meet_if_due(struct ls_fitting *fitting, const struct ls_loss_sums *sums, bool *met) {
    const ls_model *model = fitting->model;
    struct local_steps *local = fitting->kept;
    int64_t done = ls_fit_stretch_steps(fitting);
    bool last = fitting->state.position >= ls_fit_epoch_end(fitting);
    ls_status status = LS_OK;
    ls_op_add_loss_sums(&local->own, sums);
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

static ls_status describe_meetings(FILE *out, const ls_strategy *strategy, const ls_checkpoint_options *checkpoint) {
    const ls_local_sgd_options *local = &strategy->local;
    (void)checkpoint;
    (void)ls_plain_print(
        out,
        "sync_every=%d\nouter_learning_rate=%.9g\nouter_momentum=%.9g\nlocal_moments=%s\nfragments=%d\n"
        "fragment_delay=%d\nfragment_alpha=%.9g\n",
        local->sync_every, (double)local->outer_learning_rate, (double)local->outer_momentum,
        local->local_moments ? "yes" : "no", local->fragments ? local->fragments : 1, local->fragment_delay,
        (double)local->fragment_alpha);
    return LS_OK;
}

const struct ls_sync_ops ls_sync_local = {.apart = true,
                                          .describe = describe_meetings,
                                          .commit = commit,
                                          .open_data = ls_iterator_open_pipeline,
                                          .open = open_local,
                                          .close = close_local,
                                          .begin_step = begin_local_step,
                                          .end_step = meet_if_due,
                                          .go_back = ls_fit_stretch_go_back};
