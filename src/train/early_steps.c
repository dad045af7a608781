/* The fit keeps a row of numbers and the callbacks' states; early.c keeps the variables. */
#include "train/early_steps.h"

#include <stdio.h>

#include "base/memory.h"
#include "runtime/state_transfer.h"
#include "train/bind.h"
#include "train/early.h"
#include "train/model_state.h"

struct moment {
    struct ls_training_progress progress; /* and its fit's */
    void *callbacks;                      /* their states; NULL: there is none */
};
struct ls_early_steps {
    struct moment before, next; /* the step whose pull is under way; the one after it */
    bool pending;               /* a pull is under way */
};

void ls_early_steps_free(struct ls_early_steps *steps) {
    if (!steps) return;
    ls_free(steps->before.callbacks);
    ls_free(steps->next.callbacks);
    ls_free(steps);
}

static ls_status make_steps(struct ls_fitting *fitting) {
    size_t size = ls_callback_list_state_size(fitting->callbacks);
    struct ls_early_steps *steps = ls_alloc(sizeof(*steps));
    if (!steps) return ls_fail_memory("a fit's steps", sizeof(*steps));
    fitting->early = steps;
    if (!size) return LS_OK;
    steps->before.callbacks = ls_alloc(size);
    steps->next.callbacks = ls_alloc(size);
    return steps->before.callbacks && steps->next.callbacks ? LS_OK : ls_fail_memory("the callbacks' states", size);
}

ls_status ls_early_steps_begin(struct ls_fitting *fitting) {
    ls_status status = fitting->early ? LS_OK : make_steps(fitting);
    if (status) return status;
    struct moment *next = &fitting->early->next;
    next->progress = ls_model_state_progress(fitting->model);
    next->progress.fit = fitting->state;
    if (next->callbacks) ls_callback_list_get_state(fitting->callbacks, next->callbacks);
    return LS_OK;
}

/* All workers draw the same conclusion, but for the one that writes checkpoints. */
static bool needs_variables(const struct ls_fitting *fitting) {
    const struct ls_model_progress *progress = &fitting->model->progress;
    bool ends = fitting->state.position >= (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    return ends || progress->drains || progress->fetches || progress->requests.save || progress->requests.stop;
}

ls_status ls_early_steps_end(struct ls_fitting *fitting, bool *met) {
    struct ls_early_steps *steps = fitting->early;
    struct moment done = steps->before;
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
    ls_model_state_set_progress(model, &steps->before.progress);
    fitting->state = steps->before.progress.fit;
    fitting->stepped = fitting->state.position; /* its end was told */
    if (steps->before.callbacks) ls_callback_list_set_state(fitting->callbacks, steps->before.callbacks);
}

/* The parts of the generation are made anew: that ends what is under way. */
ls_status ls_early_steps_give_up(struct ls_fitting *fitting, ls_status status) {
    const struct ls_model_bound *bound = &fitting->model->bound;
    char cause[LS_ERROR_SIZE];
    bool pending = fitting->early->pending;
    if (!bound->early || (!pending && !ls_reducer_has_failed(bound->reducer))) return status;
    (void)snprintf(cause, sizeof(cause), "%s", ls_error());
    ls_bind_detach(fitting->model);
    if (pending) stand_behind(fitting);
    fitting->early->pending = false;
    return ls_fail(status, "%s", cause);
}
