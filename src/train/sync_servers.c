/* Training in step with parameter servers. A pull may go on while the next step begins (early.h); a step is done then
 * when its pull is. Until then the fit keeps what it was before the step, and goes back there if the pull fails. It
 * keeps a row of numbers and the callbacks' states; early.c keeps the variables. */
#include "train/sync.h"

#include "base/kept_error.h"
#include "base/memory.h"
#include "runtime/state_transfer.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/early.h"
#include "train/fit.h"

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
    if (!fitting->model->bound.early) return LS_OK;
    if (!steps) fitting->kept = steps = ls_alloc(sizeof(*steps));
    if (!steps) return ls_fail_memory("a fit's steps", sizeof(*steps));
    return ls_fit_moment_keep(&steps->next, fitting);
}

/* All workers draw the same conclusion, but for the one that writes checkpoints. */
static bool needs_variables(const struct ls_fitting *fitting) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool ends = fitting->state.position >= (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    return ends || progress->drains || progress->fetches || progress->requests.save || progress->requests.stop;
}

/* The step's gradients are of the whole variables of the one before: that is done now. Waits for this one's pull where
 * its variables are needed. */
static ls_status end_step_before(struct ls_fitting *fitting, bool *met) {
    struct pulled_steps *steps = fitting->kept;
    if (!fitting->model->bound.early) return LS_OK;
    struct ls_fit_moment done = steps->before;
    if (steps->pending) ls_state_transfer_commit(fitting->model->strategy->runtime);
    steps->before = steps->next;
    steps->next = done;
    steps->pending = true;
    *met = needs_variables(fitting);
    ls_status status = *met ? ls_early_settle(fitting->model) : LS_OK;
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
    if (!steps || !bound->early || (!pending && !ls_reducer_has_failed(bound->reducer))) return status;
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
                                            .attach = ls_early_attach,
                                            .detach = ls_early_detach,
                                            .begin = ls_early_begin,
                                            .given = ls_early_given,
                                            .commit = ls_sync_commit,
                                            .settle = ls_early_settle,
                                            .open_data = ls_iterator_open_pipeline,
                                            .close = close_servers,
                                            .begin_step = begin_step,
                                            .add = settle_checkpoint,
                                            .end_step = end_step_before,
                                            .go_back = go_back_a_step};
