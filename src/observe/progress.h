/* Keras' progress line, on stdout: a bar for a terminal (verbose 1), a line an epoch for a file (verbose 2). */
#pragma once
#include <lockstep/lockstep.h>

struct ls_progress;
ls_status ls_progress_new(int verbose, struct ls_progress **progress);
void ls_progress_metric(struct ls_progress *progress, const char *name); /* the next of the results'; borrowed */
/* These accept NULL and then say nothing. epoch from 0, step from 1; an epoch that is taken up
 * again begins with a later one. */
void ls_progress_epoch(struct ls_progress *progress, int epoch, int epochs, int64_t steps);
void ls_progress_step(struct ls_progress *progress, int64_t step, const ls_result *result);
void ls_progress_epoch_end(struct ls_progress *progress, const ls_result *result);
void ls_progress_free(struct ls_progress *progress);
