/* The extras of a step, numbers behind the gradients: what they say as sums over all replicas. */
#pragma once
#include "train/model.h"

/* The learning rate, which all workers compare before anything is changed. bytes: those from LS_EXTRA_RATE on. */
void ls_step_report_write_rate(float rate, float bytes[4]);
/* INVALID_ARGUMENT where another worker's rate is another one. */
ls_status ls_step_report_check_rate(const ls_model *model, float rate, const float *extras);
/* The sums of loss and metrics; the requests become the model's. penalty: of one example. */
void ls_step_report_read(ls_model *model, const float *extras, double penalty, struct ls_loss_sums *sums);
