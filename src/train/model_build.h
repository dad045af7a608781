/* Building a model for its first dataset. */
#pragma once
#include "train/model.h"

/* The network alone, if there is none yet. */
ls_status ls_model_build_network(ls_model *model, const ls_dataset *data);
/* Makes the network for data (first use), broadcasts the chief's weights, and grows the buffers for pipeline.
 * With a state, of LS_PARTS_HERE, it is no collective, and the model has that state. */
ls_status ls_model_build(ls_model *model, const ls_dataset *data, const struct ls_pipeline *pipeline,
                         const float *state);
/* INVALID_ARGUMENT where the built model cannot take data's examples or targets. */
ls_status ls_model_build_check(const ls_model *model, const ls_dataset *data);
/* Gives back all that ls_model_build and ls_bind_attach made. */
void ls_model_build_release(ls_model *model);
/* True if a regulariser adds to the loss. */
bool ls_model_build_is_regularized(const ls_model *model);
/* For the strategy's replicas from that index on, of a model that is built and detached. */
ls_status ls_model_build_add_replicas(ls_model *model, int from);
void ls_model_build_drop_replicas(ls_model *model, int from);
/* "model=...\n" of a built model: equal exactly when the networks are. Freed with ls_free. */
ls_status ls_model_build_describe(const ls_model *model, char **line);
