/* A moment is where a fit stood between two steps, but for the variables. A step that fails goes back to it. */
#pragma once
#include "train/fit.h"

struct ls_fit_moment {
    struct ls_training_progress progress; /* and its fit's */
    void *callbacks;                      /* their states; NULL: none is kept, or there are none */
};
/* Of now. A failure keeps nothing. */
ls_status ls_fit_moment_keep(struct ls_fit_moment *moment, const struct ls_fitting *fitting);
void ls_fit_moment_go_back(const struct ls_fit_moment *moment, struct ls_fitting *fitting);
void ls_fit_moment_forget(struct ls_fit_moment *moment);
