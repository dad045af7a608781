/* PNG by libpng, as TensorFlow reads it into bytes: palettes and low depths expanded, 16 bits cut to 8, alpha dropped,
 * no gamma. libpng ends a failed call with longjmp, which is caught in the functions here that call it. */
#include "data/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"

#define SIGNATURE 8 /* bytes */

/* One call: all that the function that catches longjmp must find again lies in here. */
struct coder {
    png_structp png;
    png_infop info;
    const uint8_t *bytes; /* read from: borrowed */
    size_t size, at;
    uint8_t *output; /* written to: owned */
    size_t length, capacity;
    struct ls_image image; /* owns its pixels when reading */
    png_bytep *rows;       /* owns */
    char message[160];
};

static void fail_coding(png_structp png, png_const_charp text) {
    struct coder *coder = png_get_error_ptr(png);
    (void)snprintf(coder->message, sizeof(coder->message), "%s", text);
    longjmp(png_jmpbuf(png), 1);
}

static void ignore_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void give_bytes(png_structp png, png_bytep output, size_t count) {
    struct coder *coder = png_get_io_ptr(png);
    if (count > coder->size - coder->at) {
        coder->at = coder->size;
        png_error(png, "the file ends early");
    }
    memcpy(output, coder->bytes + coder->at, count);
    coder->at += count;
}

static void take_bytes(png_structp png, png_bytep input, size_t count) {
    struct coder *coder = png_get_io_ptr(png);
    if (LS_GROW(coder->output, coder->capacity, coder->length + count, 4096, "a PNG image"))
        png_error(png, "no memory");
    memcpy(coder->output + coder->length, input, count);
    coder->length += count;
}

static void flush_nothing(png_structp png) {
    (void)png;
}

bool ls_png_is(const uint8_t *bytes, size_t size) {
    return size >= SIGNATURE && !png_sig_cmp(bytes, 0, SIGNATURE);
}

static ls_status fail_reading(const struct coder *coder, const char *name) {
    return ls_fail(LS_DATA_LOSS, "PNG image '%s' is damaged near offset %zu of %zu: %s", name, coder->at, coder->size,
                   coder->message);
}

static ls_status begin_reading(struct coder *coder) {
    coder->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, coder, fail_coding, ignore_warning);
    coder->info = coder->png ? png_create_info_struct(coder->png) : NULL;
    return coder->info ? LS_OK : ls_fail_memory("a PNG decoder", 0);
}

/* After setjmp. */
static void read_info(struct coder *coder) {
    png_set_read_fn(coder->png, coder, give_bytes);
    png_set_user_limits(coder->png, LS_IMAGE_MAX_SIDE, LS_IMAGE_MAX_SIDE);
    png_read_info(coder->png, coder->info);
    int color = png_get_color_type(coder->png, coder->info);
    coder->image.height = (int)png_get_image_height(coder->png, coder->info);
    coder->image.width = (int)png_get_image_width(coder->png, coder->info);
    coder->image.channels = color & PNG_COLOR_MASK_COLOR ? 3 : 1;
}

/* After setjmp: what is in the file becomes 1 or 3 bytes a pixel. 29900 and 58700 are the weights of red and green in
 * hundred-thousandths; blue has the rest (ITU-R BT.601, as tf.image.rgb_to_grayscale). */
static void set_transformations(struct coder *coder, int channels) {
    png_structp png = coder->png;
    int color = png_get_color_type(png, coder->info);
    png_set_strip_16(png);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_alpha(png);
    if (channels == 3 && !(color & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    if (channels == 1 && color & PNG_COLOR_MASK_COLOR)
        png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, 29900, 58700);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, coder->info);
}

static bool make_row_pointers(struct coder *coder, size_t length) {
    size_t height = (size_t)coder->image.height;
    if (!coder->image.pixels) coder->image.pixels = ls_alloc_array(height, length);
    coder->rows = ls_alloc_array(height, sizeof(*coder->rows));
    if (!coder->image.pixels || !coder->rows) return false;
    for (size_t y = 0; y < height; y++) coder->rows[y] = coder->image.pixels + y * length;
    return true;
}

/* After setjmp: header and transformations. The bytes of a row. */
static size_t prepare_rows(struct coder *coder, int channels) {
    read_info(coder);
    if (channels) coder->image.channels = channels;
    set_transformations(coder, coder->image.channels);
    return (size_t)coder->image.width * (size_t)coder->image.channels;
}

static ls_status decode_pixels(struct coder *coder, const char *name, int channels) {
    if (setjmp(png_jmpbuf(coder->png))) return fail_reading(coder, name);
    size_t length = prepare_rows(coder, channels);
    if (png_get_rowbytes(coder->png, coder->info) != length) png_error(coder->png, "pixels of an unknown form");
    if (!make_row_pointers(coder, length)) return ls_fail_memory("an image", 0);
    png_read_image(coder->png, coder->rows);
    png_read_end(coder->png, NULL);
    return LS_OK;
}

static ls_status probe(struct coder *coder, const char *name) {
    if (setjmp(png_jmpbuf(coder->png))) return fail_reading(coder, name);
    read_info(coder);
    return LS_OK;
}

ls_status ls_png_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image) {
    struct coder coder = {.bytes = bytes, .size = size};
    ls_status status = begin_reading(&coder);
    if (!status) status = probe(&coder, name);
    png_destroy_read_struct(&coder.png, &coder.info, NULL);
    if (!status) *image = coder.image;
    return status;
}

ls_status ls_png_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                        struct ls_image *image) {
    struct coder coder = {.bytes = bytes, .size = size};
    ls_status status = begin_reading(&coder);
    if (!status) status = decode_pixels(&coder, name, wish->channels);
    png_destroy_read_struct(&coder.png, &coder.info, NULL);
    ls_free(coder.rows);
    return LS_HAND_OVER(status, image, coder.image, ls_free(coder.image.pixels));
}

static ls_status encode_png(struct coder *coder) {
    const struct ls_image *image = &coder->image;
    if (setjmp(png_jmpbuf(coder->png)))
        return ls_fail(LS_RESOURCE_EXHAUSTED, "an image cannot be written as PNG: %s", coder->message);
    png_set_write_fn(coder->png, coder, take_bytes, flush_nothing);
    png_set_IHDR(coder->png, coder->info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 image->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(coder->png, coder->info);
    png_write_image(coder->png, coder->rows);
    png_write_end(coder->png, NULL);
    return LS_OK;
}

ls_status ls_png_encode(const struct ls_image *image, uint8_t **bytes, size_t *size) {
    struct coder coder = {.image = *image};
    coder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &coder, fail_coding, ignore_warning);
    coder.info = coder.png ? png_create_info_struct(coder.png) : NULL;
    bool ready = coder.info && make_row_pointers(&coder, (size_t)image->width * (size_t)image->channels);
    ls_status status = ready ? encode_png(&coder) : ls_fail_memory("a PNG encoder", 0);
    png_destroy_write_struct(&coder.png, &coder.info);
    ls_free(coder.rows);
    if (!status) *size = coder.length;
    return LS_HAND_OVER(status, bytes, coder.output, ls_free(coder.output));
}
