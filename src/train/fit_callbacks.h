/* The callbacks' part of a fit. */
#pragma once
#include "train/fit.h"

/* fit_callbacks.c. Tells them the event with the numbers so far, unless the epoch has none yet. */
ls_status ls_fit_callbacks_tell(struct ls_fitting *fitting, enum ls_callback_event event);
/* Tells the callbacks that fit begins, or resumes behind a step whose end they were not told. */
ls_status ls_fit_callbacks_begin(struct ls_fitting *fitting);
/* Before the epoch is done, so that what callbacks change belongs to it. */
ls_status ls_fit_callbacks_end_epoch(struct ls_fitting *fitting);
/* *stopped: a callback of any worker wishes to end fit after this epoch. Collective. */
ls_status ls_fit_callbacks_agree_to_stop(struct ls_fitting *fitting, bool *stopped);
