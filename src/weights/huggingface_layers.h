/* Such a model's layers, in what a file of Lockstep says of its model (train/about.h). */
#pragma once
#include "weights/huggingface_config.h"

/* *about, freed with ls_free, is that text. */
ls_status ls_huggingface_layers_to_about(const char *path, const struct ls_huggingface_config *config, char **about);
/* The other way. INVALID_ARGUMENT names a layer that no such model has, or that it has in another way. */
ls_status ls_huggingface_layers_from_about(const char *path, const char *about, struct ls_huggingface_config *config);
