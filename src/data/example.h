/* tf.train.Example: one example of a TFRecord file, as data sets of images and of numbers write it. */
#pragma once
#include <lockstep/lockstep.h>

/* The content of an example: either an image or numbers, and either a class or targets. Borrows from itself. Freed with
 * ls_example_free. */
struct ls_example {
    const uint8_t *image; /* "image" or "image/encoded": a JPEG or PNG, or NULL */
    size_t image_size;
    const float *features; /* "features", or NULL */
    int64_t feature_count;
    const int64_t *dims; /* "shape", of features; NULL for one axis */
    int64_t rank;
    int64_t label;        /* "label" or "image/class/label", an integer; or: */
    const float *targets; /* the same as floats; NULL for a class */
    int64_t target_count;
    const int64_t *target_dims; /* "label_shape"; NULL for one axis */
    int64_t target_rank;
    const float *weight; /* "sample_weight", a float, or NULL */
    void *message;       /* owns all */
};
/* INVALID_ARGUMENT when label or both image and features are missing, DATA_LOSS for bytes that are no Example; name is
 * for messages. */
ls_status ls_example_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_example *example);
void ls_example_free(struct ls_example *example);
/* *bytes is freed with ls_free. */
ls_status ls_example_pack(const struct ls_example *example, uint8_t **bytes, size_t *size);
