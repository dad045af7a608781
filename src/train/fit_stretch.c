/* The state is kept before the first step of a stretch, and put back where one fails. */
#include "train/fit.h"

#include "base/kept_error.h"
#include "base/memory.h"
#include "base/point.h"
#include "train/model_state.h"

void ls_fit_stretch_forget(struct ls_fit_stretch *stretch) {
    ls_free(ls_steal(stretch->state));
    ls_fit_moment_forget(&stretch->moment);
    ls_fit_moment_forget(&stretch->next);
    stretch->open = false;
}

static ls_status keep_all(struct ls_fit_stretch *stretch, const struct ls_fitting *fitting) {
    size_t floats = ls_model_state_count(fitting->model, LS_PARTS_HERE);
    stretch->state = ls_alloc_aligned(floats * sizeof(float));
    if (!stretch->state)
        return ls_fail_memory("the state before steps that are one transaction", floats * sizeof(float));
    ls_status status = ls_fit_moment_keep(&stretch->moment, fitting);
    return status ? status : ls_model_state_get(fitting->model, LS_PARTS_HERE, stretch->state);
}

ls_status ls_fit_stretch_begin(struct ls_fitting *fitting) {
    struct ls_fit_stretch *stretch = &fitting->stretch;
    if (stretch->open) return LS_OK;
    ls_status status = keep_all(stretch, fitting);
    stretch->open = !status;
    if (status) ls_fit_stretch_forget(stretch);
    return status;
}

int64_t ls_fit_stretch_steps(const struct ls_fitting *fitting) {
    return fitting->model->progress.step.iteration - fitting->stretch.moment.progress.step;
}

ls_status ls_fit_stretch_go_back(struct ls_fitting *fitting, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    struct ls_fit_stretch *stretch = &fitting->stretch;
    int64_t done = ls_fit_stretch_steps(fitting);
    if (!stretch->open) return status;
    stretch->stop(fitting);
    ls_status back = ls_model_state_set(fitting->model, LS_PARTS_HERE, LS_FROM_STEPS, stretch->state);
    if (!back) {
        ls_reached("undo");
        ls_fit_moment_go_back(&stretch->moment, fitting);
    }
    if (!back && done)
        ls_log_info(&fitting->model->strategy->runtime->log, "goes back %lld step%s, to %s", (long long)done,
                    done == 1 ? "" : "s", stretch->where);
    ls_fit_stretch_forget(stretch);
    return back ? ls_fail_context(back, "after '%.200s'", kept.message) : ls_kept_error_raise(&kept);
}
