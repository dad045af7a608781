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
/* The head of a language model, where the file says more than its tensors. */
enum ls_head { LS_HEAD_UNTOLD = 0, LS_HEAD_TIED, LS_HEAD_OWN };
struct ls_weights {
    struct ls_weight *items; /* owns; by name, each once */
    size_t count, capacity;
    enum ls_head head;
    char *about;        /* owns: what the file says of its model (train/about.h); NULL if nothing */
    const char *format; /* in the metadata of .safetensors; NULL: "np" */
    uint8_t *bytes;     /* owns: the file's */
    size_t size;
    uint8_t **more; /* [more_count] own: those of further files */
    size_t more_count, more_capacity;
};
void ls_weights_free(struct ls_weights *weights);
/* NULL if there is none. */
const struct ls_weight *ls_weights_find(const struct ls_weights *weights, const char *name);

/* For the readers: takes own, and copies the rest. */
ls_status ls_weights_add(struct ls_weights *weights, const struct ls_weight *weight);
/* Puts them in the order of their names. INVALID_ARGUMENT where there are none, or one is there twice. */
ls_status ls_weights_sort(const char *path, struct ls_weights *weights);

ls_status ls_weights_keras_from_hdf5(const char *path, struct ls_weights *weights);
