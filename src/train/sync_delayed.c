/* Steps that go on while the next ones are computed (ParameterServerStrategy, LS_DELAYED): a step's gradients are of
 * the variables before the last delay steps. The reducer copies the gradients of a step into a lane, from
 * where the communicator's thread pushes them; the new variables come back into it. A worker puts the versions in place
 * one after the other, each behind the same step on all workers: the bits do not depend on time. Host memory: delay + 1
 * lanes of 4 (blob + extras) bytes for each replica.
 *
 * The caller's thread begins steps and takes them; replica threads copy; the communicator's thread ends them
 * (end_lane). A lane goes from one to the next with the reducer's counters and gates.
 *
 * The steps of a fit are one transaction from one moment at which none is under way to the next: the pipeline drains at
 * the end of an epoch, after a step at which a checkpoint may be due, and where somebody asks for a checkpoint or to
 * stop. The first step after that is told to the servers as one before which they keep what is there: all go back to
 * that version where a step fails. Host memory: the model's variables once. */
#include "train/sync.h"

#include <string.h>

#include "base/new.h"
#include "base/options.h"
#include "base/point.h"
#include "gradients/reducer.h"
#include "store/store.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/fit.h"
#include "train/sparse.h"
#include "train/step.h"
#include "train/stored.h"

struct lane {
    struct ls_optimizer_step step;
    double penalty;
    bool keep;   /* the lanes were empty before this step */
    bool writes; /* this worker writes checkpoints */
    bool fetch;  /* it may write one behind this step */
};
struct delayed {
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

static int lane_of(const struct delayed *delayed, int64_t step) {
    return (int)(step % delayed->count);
}

/* All replicas' sums, then the new variables. */
static float *blob_of(const struct delayed *delayed, int lane) {
    return delayed->blobs[lane * delayed->model->strategy->local_count];
}

static ls_status make_lanes(struct delayed *delayed) {
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

static void free_delayed(struct delayed *delayed) {
    ls_free(delayed->memory);
    ls_free(delayed->blobs);
    ls_free(delayed->lanes);
    ls_free(delayed);
}

static ls_status make_delayed(ls_model *model, struct delayed **delayed) {
    LS_NEW(struct delayed, made, "delayed steps");
    *made = (struct delayed){.model = model, .count = model->strategy->delay + 1, .asked = -1};
    ls_status status = make_lanes(made);
    return LS_HAND_OVER(status, delayed, made, free_delayed(made));
}

static void detach_lanes(ls_model *model) {
    if (model->bound.way) free_delayed(ls_steal(model->bound.way));
}

/* ---- the communicator's thread ---- */

/* The workers hear of a request when they take its step, behind the gradients of the last one before the lanes are
 * empty. */
static bool fetches(struct delayed *delayed, const struct lane *lane, const float *extras) {
    int64_t step = delayed->ended++;
    if (lane->keep) delayed->asked = -1;
    if (delayed->asked < 0 && (extras[LS_EXTRA_SAVE] > 0 || extras[LS_EXTRA_STOP] > 0)) delayed->asked = step;
    bool heard = delayed->asked >= 0 && step == delayed->asked + delayed->count - 1;
    return lane->fetch || (heard && lane->writes);
}

static ls_status end_lane(void *context, int index, bool failed) {
    struct delayed *delayed = context;
    ls_model *model = delayed->model;
    const struct lane *lane = &delayed->lanes[index];
    float *blob = blob_of(delayed, index), *moments = NULL;
    const float *extras = blob + model->built.blob_count;
    if (failed) return LS_OK;
    ls_status status = ls_step_report_check_rate(model, lane->step.rule.learning_rate, extras);
    if (fetches(delayed, lane, extras) && !status) status = ls_stored_make_moments(model, &moments);
    const struct ls_store_stepping stepping = {
        .step = &lane->step, .keep = lane->keep, .array = blob, .moments = moments, .stride = model->built.blob_count};
    if (!status) status = ls_store_step(model->bound.store, &stepping);
    if (!status && moments) model->built.moments_step = lane->step.iteration;
    return status;
}

static ls_status attach_lanes(ls_model *model, struct ls_reducer_config *config) {
    struct delayed *delayed = NULL;
    ls_status status = make_delayed(model, &delayed);
    if (status) return status;
    config->end = end_lane;
    config->context = model->bound.way = delayed;
    config->lanes = delayed->blobs;
    config->lane_count = delayed->count;
    return LS_OK;
}

/* ---- the caller's thread ---- */

static void begin_lane(ls_model *model) {
    struct delayed *delayed = model->bound.way;
    const struct ls_model_progress *progress = &model->progress;
    bool first = delayed->given == delayed->taken, writes = progress->keeps && !model->strategy->runtime->rank;
    delayed->lanes[lane_of(delayed, delayed->given)] =
        (struct lane){.step = model->built.numbers->step,
                      .keep = first,
                      .writes = writes,
                      .fetch = writes && progress->fetches && progress->drains};
    if (first) model->progress.requests = (struct ls_requests){0};
}

/* Waits for the oldest step under way, puts its variables in place, and gives its sums. Requests of it become the
 * model's. Once for each step: false in *any where none is under way. */
static ls_status take_oldest(ls_model *model, struct ls_loss_sums *sums, bool *any) {
    struct delayed *delayed = model->bound.way;
    const struct ls_requests before = model->progress.requests;
    int index = lane_of(delayed, delayed->taken);
    const float *blob = blob_of(delayed, index);
    *any = delayed->taken < delayed->given;
    *sums = (struct ls_loss_sums){0};
    if (!*any) return LS_OK;
    ls_status status = ls_reducer_await(model->bound.reducer, delayed->taken + 1);
    if (!status) status = ls_stored_add_statistics(model, blob);
    if (status) return status;
    memcpy(model->built.replicas[0].parameters, blob, ls_network_trainable_count(model->built.network) * sizeof(float));
    delayed->taken++;
    ls_step_report_read(model, blob + model->built.blob_count, delayed->lanes[index].penalty, sums);
    const struct ls_requests *now = &model->progress.requests;
    if (!now->save && !now->stop) model->progress.requests = before;
    return LS_OK;
}

/* If more than delay steps are under way it takes the oldest one; else sums become zero. */
static ls_status commit_lane(ls_model *model, struct ls_loss_sums *sums) {
    struct delayed *delayed = model->bound.way;
    bool any;
    delayed->lanes[lane_of(delayed, delayed->given)].penalty = model->built.replicas[0].numbers->penalty;
    delayed->given++;
    *sums = (struct ls_loss_sums){0};
    if (delayed->given - delayed->taken < delayed->count) return LS_OK;
    return take_oldest(model, sums, &any);
}

static ls_status settle_lanes(const ls_model *model) {
    const struct delayed *delayed = model->bound.way;
    return delayed ? ls_reducer_await(model->bound.reducer, delayed->given) : LS_OK;
}

/* ---- a fit ---- */

/* Steps under way are stopped, and the parts of the generation are made anew. The servers have the old version too. */
static void stop_steps(struct ls_fitting *fitting) {
    ls_bind_detach(fitting->model);
}

static ls_status open_delayed(struct ls_fitting *fitting) {
    fitting->stretch.where = "where no step was under way";
    fitting->stretch.stop = stop_steps;
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

static ls_status end_step(struct ls_fitting *fitting, bool *met) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool asked = progress->requests.save || progress->requests.stop;
    bool ends = fitting->state.position >= ls_fit_epoch_end(fitting);
    *met = progress->drains || asked || ends;
    ls_status status = *met ? take_all_steps(fitting) : LS_OK;
    return status ? ls_fail_context(status, "steps under way") : LS_OK;
}

static void settle_checkpoint(struct ls_fitting *fitting, const struct ls_loss_sums *sums) {
    if (sums->rows) ls_checkpointing_settle(fitting->checkpointing, &fitting->state);
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
                                            .add = settle_checkpoint,
                                            .end_step = end_step,
                                            .go_back = ls_fit_stretch_go_back};
