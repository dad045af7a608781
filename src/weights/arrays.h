/* .npz and .safetensors, from and to. */
#pragma once
#include "weights/weights.h"

/* INVALID_ARGUMENT unless the path's ending is .safetensors or .npz. */
ls_status ls_weights_arrays_check_path(const char *path);
/* As its ending says; path is there whole or as it was. */
ls_status ls_weights_arrays_write(const char *path, const struct ls_weights *weights);
ls_status ls_weights_arrays_from_npz(const char *path, struct ls_weights *weights);
ls_status ls_weights_arrays_from_safetensors(const char *path, struct ls_weights *weights);
/* *header: the file is a .safetensors, whose header says *about; NULL: nothing. */
ls_status ls_weights_arrays_about(const char *path, bool *header, char **about);
