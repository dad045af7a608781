/* Files of weights and checkpoints tell their finder of the model. The text is one JSON object: "input" (a shape),
 * "integers", "outputs", "loss" (Keras' name), "classes" (names), "transform" (ls_dataset_transform), "note"
 * (ls_model_note), "last", the numbers of the last epoch, and "layers" (model/layer_json.h). It leaves out the unknown.
 * open.c and src/tools/about_weights.c read it. */
#pragma once
#include "train/model.h"

/* *kept, which is freed, becomes a copy of text, or NULL where that is; what is for messages. */
ls_status ls_about_keep_text(const char *text, const char *what, char **kept);
/* Keeps the names of data's classes, and its transform. */
ls_status ls_about_keep_data(ls_model *model, const ls_dataset *data);
/* Of a model that is built, as it is now. *text is freed with ls_free. */
ls_status ls_about_write(const ls_model *model, char **text);
/* The same for its checkpoints: the model keeps *text until the next call. */
ls_status ls_about_keep(ls_model *model, const char **text);
