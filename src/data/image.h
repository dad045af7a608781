/* Images as bytes: decoding of JPEG and PNG, encoding, and bilinear resizing, as TensorFlow does them. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>

#define LS_IMAGE_MAX_SIDE 65500

/* Rows of pixels from the top, channels interleaved. */
struct ls_image {
    int height, width, channels; /* channels 1 (grey) or 3 (red, green, blue) */
    uint8_t *pixels;             /* freed with ls_free */
};
/* The wish for a decoded image. */
struct ls_image_wish {
    int channels; /* 1 or 3; 0: as encoded */
    int height,
        width; /* 0: full size. Else a JPEG may be decoded to a half, quarter or eighth, no smaller than these */
};

/* Reads the header: height, width and channels as encoded; pixels stays NULL. name is for messages. DATA_LOSS naming
 * the offset when bytes are no JPEG or PNG, or damaged. */
ls_status ls_image_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image);
/* Decodes as tf.io.decode_image does (JPEG with its fast integer transform, PNG of 16 bits to 8, alpha dropped). */
ls_status ls_image_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                          struct ls_image *image);

/* tf.image.resize with its default method, bilinear, without antialias, then divided by 255: values receives height x
 * width x image->channels. The same size copies. */
ls_status ls_image_to_unit(const struct ls_image *image, int height, int width, float *values);

/* JPEG by libjpeg-turbo, with the choices that TensorFlow makes. */

/* Encodes; *bytes is freed with ls_free. quality 1 to 100. */
ls_status ls_jpeg_encode(const struct ls_image *image, int quality, uint8_t **bytes, size_t *size);
/* For image.c alone. */
bool ls_jpeg_is(const uint8_t *bytes, size_t size);
ls_status ls_jpeg_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image);
ls_status ls_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                         struct ls_image *image);

/* PNG by libpng, as TensorFlow reads it into bytes. */

ls_status ls_png_encode(const struct ls_image *image, uint8_t **bytes, size_t *size);
bool ls_png_is(const uint8_t *bytes, size_t size);
ls_status ls_png_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image);
ls_status ls_png_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                        struct ls_image *image);
