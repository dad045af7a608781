/* Keras' progress line, on stdout: a bar for a terminal (verbose 1), a line an epoch for a file (verbose 2). */
#pragma once
#include <lockstep/lockstep.h>

struct ls_progress;
/* columns is the width of a terminal that shows this process's output through lockstep run, or 0. */
ls_status ls_progress_new(int verbose, int columns, struct ls_progress **progress);
void ls_progress_metric(struct ls_progress *progress, const char *name); /* the next of the results'; borrowed */
/* These accept NULL and then say nothing. epoch from 0, step from 1; an epoch that is taken up
 * again begins with a later one. rows: examples of this epoch so far, of all workers. */
void ls_progress_epoch(struct ls_progress *progress, int epoch, int epochs, int64_t steps);
void ls_progress_step(struct ls_progress *progress, int64_t step, int64_t rows, const ls_result *result);
/* validated means that the result has numbers of validation too. A number that is not finite is printed as nan or inf.
 */
void ls_progress_epoch_end(struct ls_progress *progress, const ls_result *result, bool validated);
void ls_progress_free(struct ls_progress *progress);
