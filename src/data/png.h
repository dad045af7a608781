/* PNG by libpng, as TensorFlow reads it into bytes. */
#pragma once
#include "data/image.h"

ls_status ls_png_encode(const struct ls_image *image, uint8_t **bytes, size_t *size);
bool ls_png_is(const uint8_t *bytes, size_t size);
ls_status ls_png_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image);
ls_status ls_png_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                        struct ls_image *image);
