/* An encoded image as an example. */
#pragma once
#include "data/sources.h"

/* The shape that images get: as options say, and the first image's where they are silent; and how to decode them. */
ls_status ls_picture_settle(const char *name, const uint8_t *bytes, size_t size, const ls_dataset_options *options,
                            struct ls_image_wish *wish, ls_shape *shape);
ls_status ls_picture_read(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                          const struct ls_image_place *place);
/* DATA_LOSS unless it can be decoded to the end. */
ls_status ls_picture_check(const char *name, const uint8_t *bytes, size_t size);
/* By ls_pixels_from_unit. */
ls_status ls_picture_from_unit(const float *features, const ls_shape *shape, struct ls_image *image);
