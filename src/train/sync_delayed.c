/* A fit whose steps are delayed (delayed.h). The steps are one transaction from one moment at which none is under way
 * to the next: the pipeline drains at the end of an epoch, after a step at which a checkpoint may be due, and where
 * somebody asks for a checkpoint or to stop. The state is kept before the first step of a transaction. Each worker
 * goes back to it where one fails, and so do the servers. Host memory: the model's variables once. */
#include "train/sync.h"

#include "base/kept_error.h"
#include "base/memory.h"
#include "base/point.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/delayed.h"
#include "train/fit.h"
#include "train/model_state.h"
#include "train/training_state.h"
#include "train/step.h"

struct delayed_steps {
    float *state; /* as of ls_model_state_get_here */
    struct ls_fit_moment moment;
    bool open; /* a step has begun since then */
};

static ls_status open_delayed(struct ls_fitting *fitting) {
    ls_status status =
        ls_sync_batch_norm_refuse(fitting->model, "consistency delayed",
                                  "for which workers meet in every step; take one that is not, or consistency sync");
    if (status) return status;
    fitting->kept = ls_alloc(sizeof(struct delayed_steps));
    return fitting->kept ? LS_OK : ls_fail_memory("a fit's delayed steps", sizeof(struct delayed_steps));
}

static void forget_state(struct delayed_steps *steps) {
    ls_free(ls_steal(steps->state));
    ls_fit_moment_forget(&steps->moment);
    steps->open = false;
}

static void close_delayed(struct ls_fitting *fitting) {
    if (!fitting->kept) return;
    forget_state(fitting->kept);
    ls_free(ls_steal(fitting->kept));
}

static ls_status keep_state(struct ls_fitting *fitting) {
    struct delayed_steps *steps = fitting->kept;
    const ls_model *model = fitting->model;
    size_t floats = ls_model_state_count_here(model);
    steps->state = ls_alloc_aligned(floats * sizeof(float));
    if (!steps->state) return ls_fail_memory("the state before delayed steps", floats * sizeof(float));
    ls_status status = ls_fit_moment_keep(&steps->moment, fitting);
    return status ? status : ls_model_state_get_here(model, steps->state);
}

static ls_status begin_step(struct ls_fitting *fitting) {
    struct delayed_steps *steps = fitting->kept;
    if (steps->open) return LS_OK;
    ls_status status = keep_state(fitting);
    steps->open = !status;
    if (status) forget_state(steps);
    return status;
}

/* The servers have this version too, so nothing is to be handed over to them. Steps under way are stopped, and the
 * parts of the generation are made anew. */
static ls_status put_back(struct ls_fitting *fitting) {
    const struct delayed_steps *steps = fitting->kept;
    ls_model *model = fitting->model;
    const struct ls_model_replica *first = &model->built.replicas[0];
    int64_t done = model->progress.step.iteration - steps->moment.progress.step;
    ls_bind_detach(model);
    ls_status status = first->device->ops->copy_in(first->device, first->parameters, steps->state,
                                                   model->built.blob_count * sizeof(float));
    if (status) return status;
    ls_reached("undo");
    ls_fit_moment_go_back(&steps->moment, fitting);
    if (done)
        ls_log_info(&model->strategy->runtime->log, "goes back %lld step%s, to where no step was under way",
                    (long long)done, done == 1 ? "" : "s");
    return LS_OK;
}

static ls_status go_back(struct ls_fitting *fitting, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    struct delayed_steps *steps = fitting->kept;
    if (!steps || !steps->open) return status;
    ls_status back = put_back(fitting);
    forget_state(steps);
    return back ? ls_fail_context(back, "after '%.200s'", kept.message) : ls_kept_error_raise(&kept);
}

static ls_status take_all_steps(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    ls_model *model = fitting->model;
    struct ls_loss_sums sums;
    bool any = true;
    ls_reached("drain");
    while (any) {
        ls_status status = ls_delayed_take(model, &sums, &any);
        if (status) return status;
        ls_op_add_loss_sums(&state->sums, &sums);
    }
    ls_result_means(model, &state->sums, &state->result.loss, &state->result.accuracy, state->result.metrics);
    model->progress.request = LS_GO_ON;
    forget_state(fitting->kept);
    return LS_OK;
}

static ls_status end_step(struct ls_fitting *fitting, bool *met) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool asked = progress->requests.save || progress->requests.stop;
    bool ends = fitting->state.position >= (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    *met = progress->drains || asked || ends;
    ls_status status = *met ? take_all_steps(fitting) : LS_OK;
    return status ? ls_fail_context(status, "steps under way") : LS_OK;
}

static void settle_checkpoint(struct ls_fitting *fitting, const struct ls_loss_sums *sums) {
    if (sums->rows) ls_checkpointing_settle(fitting->checkpointing, &fitting->state);
}

const struct ls_sync_ops ls_sync_delayed = {.pushes = true,
                                            .asks_in_step = true,
                                            .attach = ls_delayed_attach,
                                            .detach = ls_delayed_detach,
                                            .begin = ls_delayed_begin,
                                            .commit = ls_delayed_commit,
                                            .settle = ls_delayed_settle,
                                            .open_data = ls_iterator_open_pipeline,
                                            .open = open_delayed,
                                            .close = close_delayed,
                                            .begin_step = begin_step,
                                            .add = settle_checkpoint,
                                            .end_step = end_step,
                                            .go_back = go_back};
