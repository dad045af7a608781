/* A model's folder as huggingface_hub leaves it, and save_pretrained writes it: config.json beside model.safetensors,
 * or beside model.safetensors.index.json and the files that it names. */
#pragma once
#include "weights/weights.h"

/* Names are Hugging Face's still, and about says the layers of config.json. NOT_FOUND names a file that is missing. */
ls_status ls_huggingface_folder_read(const char *path, struct ls_weights *weights);
/* *about, freed with ls_free, is what config.json says, in the words of train/about.h. */
ls_status ls_huggingface_folder_about(const char *path, char **about);
/* Makes the folder, unless it is there, and writes config.json and model.safetensors. Names become Hugging Face's.
 * INVALID_ARGUMENT where transformers has no such model; from is for messages. */
ls_status ls_huggingface_folder_write(const char *from, const char *path, struct ls_weights *weights);
