/* JPEG by libjpeg-turbo, with the choices that TensorFlow makes. */
#pragma once
#include "data/image.h"

/* Encodes; *bytes is freed with ls_free. quality 1 to 100. */
ls_status ls_jpeg_encode(const struct ls_image *image, int quality, uint8_t **bytes, size_t *size);
/* For image.c alone. */
bool ls_jpeg_is(const uint8_t *bytes, size_t size);
ls_status ls_jpeg_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image);
ls_status ls_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                         struct ls_image *image);
