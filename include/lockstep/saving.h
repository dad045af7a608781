/* A model as a file. Part of the public API, included by lockstep.h. */
#ifndef LOCKSTEP_SAVING_H
#define LOCKSTEP_SAVING_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keras' Model.save: one .safetensors file that holds layers and weights, and so a whole model. Its metadata have the text "about", a
 * JSON object: "layers" (a list: kind, name and each field of ls_layer that is set), "input" (the shape of an example), "outputs",
 * "loss", "classes", "note" (ls_model_note) and "last" (numbers of the last epoch). Files of ls_model_save_weights, checkpoints and
 * ModelCheckpoint's have the same text. This worker's copy; path is there whole or as it was. The model must be built. INVALID_ARGUMENT
 * for another ending. */
LS_API ls_status ls_model_save(const ls_model *model, const char *path);
/* keras.saving.load_model: makes the model of such a file, a checkpoint's too, with its weights. Compile it as a new one: the optimizer's
 * moments are in checkpoints, for fit alone. Borrows strategy. Every worker calls it alike and reads the layers by itself; the chief
 * reads the weights. NOT_FOUND without a file. INVALID_ARGUMENT names the file, the layer and the field of what is unknown here, or
 * says that the file has weights alone. DATA_LOSS where it is damaged. path may be a folder of Hugging Face's, of config.json and
 * model.safetensors or the files of model.safetensors.index.json (from_pretrained): INVALID_ARGUMENT names a field of config.json, and
 * its value, that is not computed here. */
LS_API ls_status ls_model_open(ls_strategy *strategy, const char *path, ls_model **model);

#ifdef __cplusplus
}
#endif
#endif
