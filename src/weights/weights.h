/* Files of a model's variables: names ("dense/kernel"), shapes and float32 values, from wherever they were written.
 *   .safetensors           Lockstep's own, its checkpoints' too (without what is the optimizer's), Hugging Face's
 *                          (huggingface.h has its names)
 *   .npz                   an array a variable
 *   .h5, .weights.h5, .keras   Keras'
 * Floats of 16 and 64 bits become float32. The values of other types, and of more than LS_MAX_RANK axes, are not read.
 */
#pragma once
#include <lockstep/lockstep.h>

struct ls_weight {
    char *name; /* owns */
    ls_shape shape;
    const uint8_t *values; /* float32, little-endian, row by row, at any address; borrowed from the bytes or from own */
    uint8_t *own;          /* NULL if none */
    char unread[64];       /* "": it is read; else "of type I64" or "of 9 axes", and values is NULL */
};
struct ls_weights {
    struct ls_weight *items; /* owns; by name, each once */
    size_t count, capacity;
    char *about;        /* owns: what the file says of its model (train/about.h); NULL if nothing */
    const char *format; /* in the metadata of .safetensors; NULL: "np" */
    uint8_t *bytes;     /* owns: the file's */
    size_t size;
};
/* NOT_FOUND without a file. DATA_LOSS, UNIMPLEMENTED or INVALID_ARGUMENT says what is wrong with it. The first bytes
 * decide its kind. */
ls_status ls_weights_read(const char *path, struct ls_weights *weights);
/* The same from bytes of ls_alloc, which it takes; they are freed on failure too. */
ls_status ls_weights_parse(const char *path, uint8_t *bytes, size_t size, struct ls_weights *weights);
/* *about, freed with ls_free, is what the file says of its model; NULL: nothing. Of .safetensors the header alone is
 * read. */
ls_status ls_weights_read_about(const char *path, char **about);
void ls_weights_free(struct ls_weights *weights);
/* NULL if there is none. */
const struct ls_weight *ls_weights_find(const struct ls_weights *weights, const char *name);

/* For the readers: takes own, and copies the rest. */
ls_status ls_weights_add(struct ls_weights *weights, const struct ls_weight *weight);
/* Puts them in the order of their names. INVALID_ARGUMENT where there are none, or one is there twice. */
ls_status ls_weights_sort(const char *path, struct ls_weights *weights);

ls_status ls_weights_keras_from_hdf5(const char *path, struct ls_weights *weights);
