/* Forward passes of this worker's first replica, which need nobody else. */
#pragma once
#include "train/model.h"

/* True if the model's variables are all here, in the replicas. Rows of tables and variables on servers come in calls of
 * all workers. */
bool ls_predict_on_batch_ready(const ls_model *model);
typedef ls_status ls_predict_alone_fn(ls_model *model, void *context);
/* Calls run with the device of the first replica entered, and without the pipeline of a fit that calls back. */
ls_status ls_predict_on_batch_alone(ls_model *model, ls_predict_alone_fn *run, void *context);
