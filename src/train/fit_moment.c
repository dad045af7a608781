/* The callbacks' states are one array, which is made once. */
#include "train/fit.h"

#include "base/memory.h"
#include "train/model_state.h"

ls_status ls_fit_moment_keep(struct ls_fit_moment *moment, const struct ls_fitting *fitting) {
    size_t size = ls_callback_list_state_size(fitting->callbacks);
    if (size && !moment->callbacks) {
        moment->callbacks = ls_alloc(size);
        if (!moment->callbacks) return ls_fail_memory("the callbacks' states", size);
    }
    if (size) ls_callback_list_get_state(fitting->callbacks, moment->callbacks);
    moment->progress = ls_model_state_progress(fitting->model);
    moment->progress.fit = fitting->state;
    return LS_OK;
}

void ls_fit_moment_go_back(const struct ls_fit_moment *moment, struct ls_fitting *fitting) {
    struct ls_model_progress *now = &fitting->model->progress;
    ls_model_state_set_progress(fitting->model, &moment->progress);
    if (now->asked > now->request) now->request = now->asked; /* a step that is undone has asked nobody */
    fitting->state = moment->progress.fit;
    fitting->stepped = fitting->state.position; /* its end was told */
    if (moment->callbacks) ls_callback_list_set_state(fitting->callbacks, moment->callbacks);
}

void ls_fit_moment_forget(struct ls_fit_moment *moment) {
    ls_free(ls_steal(moment->callbacks));
}
