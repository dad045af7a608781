/* tf.train.Example: one example of a TFRecord file, as data sets of images and of numbers write it. */
#pragma once
#include <lockstep/lockstep.h>

/* What an example holds, either an image or numbers. Borrows from itself; freed with ls_example_free. */
struct ls_example {
    const uint8_t *image; /* "image" or "image/encoded": a JPEG or PNG; NULL: none */
    size_t image_size;
    const float *features; /* "features"; NULL: none */
    int64_t feature_count;
    const int64_t *dims; /* "shape", of features; NULL: one axis */
    int64_t rank;
    int64_t label; /* "label" or "image/class/label" */
    void *message; /* owns all */
};
/* INVALID_ARGUMENT when label or both image and features are missing, DATA_LOSS for bytes that are no Example; name is
 * for messages. */
ls_status ls_example_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_example *example);
void ls_example_free(struct ls_example *example);
/* *bytes is freed with ls_free. */
ls_status ls_example_pack(const struct ls_example *example, uint8_t **bytes, size_t *size);
