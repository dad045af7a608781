/* A model that begins with weights from a file, by Keras' names. */
#pragma once
#include "train/model.h"

/* Copies the file's weights over the initial values in a blob, and in sparse tables, NULL without any. Does nothing
 * without a file. */
ls_status ls_initial_weights_take(const ls_model *model, float *blob, float *tables);
void ls_initial_weights_free(struct ls_initial_weights *initial);
