/* Reading what a path leads to: a file, whose kind its first bytes say, or a folder. */
#pragma once
#include "weights/weights.h"

/* NOT_FOUND without a file. DATA_LOSS, UNIMPLEMENTED or INVALID_ARGUMENT says what is wrong with it. The first bytes
 * decide its kind; a folder is one of Hugging Face's (huggingface_folder.h). */
ls_status ls_weights_read(const char *path, struct ls_weights *weights);
/* The same from bytes of ls_alloc, which it takes; they are freed on failure too. */
ls_status ls_weights_read_bytes(const char *path, uint8_t *bytes, size_t size, struct ls_weights *weights);
/* *about, freed with ls_free, is what the file says of its model; NULL: nothing. Of .safetensors the header alone is
 * read. */
ls_status ls_weights_read_about(const char *path, char **about);
