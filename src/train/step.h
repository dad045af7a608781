/* One step on all replicas. */
#pragma once
#include "train/model.h"

/* The pipeline's present step on all replicas. Training is a transaction: it commits, or changes nothing. sums
 * receives loss (not divided), correct and rows over all replicas. Of delayed steps (delayed.h) sums are those of
 * an earlier one, or zero, and a transaction has several. */
ls_status ls_step_train(ls_model *model, int batches, struct ls_loss_sums *sums);
/* Before it, where a step takes several batches: one of them but the last. batch counts from 0. It commits nothing, so
 * that after a failure the step begins again with its first batch. */
ls_status ls_step_gather(ls_model *model, int batch);
/* Adds to each replica's total, and leaves its outputs. */
ls_status ls_step_evaluate(ls_model *model);
/* By the caller's thread: the first replica's penalty is that of the variables as they are. */
ls_status ls_step_measure_penalty(ls_model *model);

/* The extras of a step, numbers behind the gradients: what they say as sums over all replicas. */

/* The learning rate, which all workers compare before anything is changed. bytes: those from LS_EXTRA_RATE on. */
void ls_step_report_write_rate(float rate, float bytes[4]);
/* INVALID_ARGUMENT where another worker's rate is another one. */
ls_status ls_step_report_check_rate(const ls_model *model, float rate, const float *extras);
/* The sums of loss and metrics; the requests become the model's. penalty: of one example. */
void ls_step_report_read(ls_model *model, const float *extras, double penalty, struct ls_loss_sums *sums);
