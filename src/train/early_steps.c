/* The fit keeps a row of numbers and the callbacks' states; early.c keeps the variables. */
#include "train/fit.h"

#include <stdio.h>

#include "base/kept_error.h"
#include "base/memory.h"
#include "runtime/state_transfer.h"
#include "train/bind.h"
#include "train/early.h"

struct ls_early_steps {
    struct ls_fit_moment before, next; /* the step whose pull is under way; the one after it */
    bool pending;                      /* a pull is under way */
};

void ls_early_steps_free(struct ls_early_steps *steps) {
    if (!steps) return;
    ls_fit_moment_forget(&steps->before);
    ls_fit_moment_forget(&steps->next);
    ls_free(steps);
}

ls_status ls_early_steps_begin(struct ls_fitting *fitting) {
    if (!fitting->early) fitting->early = ls_alloc(sizeof(*fitting->early));
    if (!fitting->early) return ls_fail_memory("a fit's steps", sizeof(*fitting->early));
    return ls_fit_moment_keep(&fitting->early->next, fitting);
}

/* All workers draw the same conclusion, but for the one that writes checkpoints. */
static bool needs_variables(const struct ls_fitting *fitting) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool ends = fitting->state.position >= (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    return ends || progress->drains || progress->fetches || progress->requests.save || progress->requests.stop;
}

ls_status ls_early_steps_end(struct ls_fitting *fitting, bool *met) {
    struct ls_early_steps *steps = fitting->early;
    struct ls_fit_moment done = steps->before;
    if (steps->pending) ls_state_transfer_commit(fitting->model->strategy->runtime);
    steps->before = steps->next;
    steps->next = done;
    steps->pending = true;
    *met = needs_variables(fitting);
    ls_status status = *met ? ls_early_settle(fitting->model->bound.early) : LS_OK;
    if (!status && *met) steps->pending = false;
    return status ? ls_fail_context(status, "the new variables") : LS_OK;
}

static void stand_behind(struct ls_fitting *fitting) {
    struct ls_early_steps *steps = fitting->early;
    ls_model *model = fitting->model;
    if (model->progress.whole != steps->before.progress.step) {
        ls_state_transfer_commit(model->strategy->runtime);
        return;
    }
    ls_fit_moment_go_back(&steps->before, fitting);
}

/* The parts of the generation are made anew: that ends what is under way. */
ls_status ls_early_steps_give_up(struct ls_fitting *fitting, ls_status status) {
    const struct ls_model_bound *bound = &fitting->model->bound;
    struct ls_kept_error kept = ls_kept_error_of(status);
    bool pending = fitting->early->pending;
    if (!bound->early || (!pending && !ls_reducer_has_failed(bound->reducer))) return status;
    ls_bind_detach(fitting->model);
    if (pending) stand_behind(fitting);
    fitting->early->pending = false;
    return ls_kept_error_raise(&kept);
}
