/* Device memory of training. */
#pragma once
#include "train/model.h"

/* RESOURCE_EXHAUSTED where this worker may not have the host memory of a model whose network is made. */
ls_status ls_memory_report_check(const ls_model *model);
/* Fills what result tells of it; and a line for people, where the device has told. */
void ls_memory_report_fill(const ls_model *model, ls_result *result);
void ls_memory_report_log(const ls_model *model, const ls_result *result);
