/* What the kinds of source share, and how ls_dataset_open recognises a folder. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"
#include "data/image.h"

#define LS_DATA_MAX_WORKERS 64

/* Checks options (NULL: all defaults) and fills the defaults in. INVALID_ARGUMENT naming the field and the value. */
ls_status ls_dataset_options_fill(const ls_dataset_options *options, ls_dataset_options *filled);

/* Whether folder holds the images of that split. */
ls_status ls_mnist_present(const char *folder, ls_split split, bool *present);
ls_status ls_cifar10_present(const char *folder, ls_split split, bool *present);
ls_status ls_numpy_present(const char *folder, ls_split split, bool *present);
ls_status ls_tfrecord_present(const char *folder, bool *present);
ls_status ls_images_present(const char *folder, bool *present);

/* Pixels are kept as bytes and become float32 in [0, 1] when read. */
void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values);
/* The nearest bytes: the inverse. */
void ls_unit_to_pixels(const float *values, size_t count, uint8_t *pixels);

/* The shape that images get: as options say, and the first image's where they are silent; and how to decode them. */
ls_status ls_image_settle(const char *name, const uint8_t *bytes, size_t size, const ls_dataset_options *options,
                          struct ls_image_wish *wish, ls_shape *shape);
/* Where an image goes: height x width x channels float32 in [0, 1]. */
struct ls_image_place {
    const ls_shape *shape;
    float *features;
};
ls_status ls_image_read(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                        const struct ls_image_place *place);
/* DATA_LOSS unless it can be decoded to the end. */
ls_status ls_image_check(const char *name, const uint8_t *bytes, size_t size);
/* By ls_unit_to_pixels. */
ls_status ls_image_from_unit(const float *features, const ls_shape *shape, struct ls_image *image);

/* Leaves out what check calls damaged: *source may become another source, which owns the one before. */
ls_status ls_source_screen(struct ls_source **source, int threads);
/* Keeps what was read: *source becomes another source, which owns the one before. */
ls_status ls_source_cache(struct ls_source **source);
/* In the order of options' interleave and block_length: *source becomes another source, which owns the one before.
 * INVALID_ARGUMENT where it has no files. */
ls_status ls_source_interleave(struct ls_source **source, const ls_dataset_options *options);
/* NULL: the class has no name. */
const char *ls_source_class_name(const struct ls_source *source, int label);
