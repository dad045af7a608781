/* Evaluation of a built model (tf.keras.Model.evaluate): a call of its own, and a fit's validation. */
#pragma once
#include "train/model.h"

/* Over the pipeline's whole data: *sums are those of all replicas. Collective. */
ls_status ls_evaluate_run(ls_model *model, struct ls_pipeline *pipeline, struct ls_loss_sums *sums);
/* The call of fit or evaluate on a parameter server, until the workers end: the numbers are theirs, and *result is
 * empty.
 */
ls_status ls_evaluate_serve(ls_strategy *strategy, const ls_result *empty, ls_result *result);
