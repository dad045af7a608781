/* Which decoder an image's first bytes ask for, and bilinear resizing with half-pixel centres. */
#include "data/image.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/pixels.h"
#include "data/sources.h"

/* The name of a known other image format that begins with these bytes, or NULL. */
static const char *foreign_kind(const uint8_t *bytes, size_t size) {
    static const struct {
        const char *kind, *begins;
        size_t at, length;
    } kinds[] = {{"a WebP", "WEBP", 8, 4},    {"a GIF", "GIF8", 0, 4},   {"a BMP", "BM", 0, 2},
                 {"a TIFF", "II*\0", 0, 4},   {"a TIFF", "MM\0*", 0, 4}, {"an AVIF", "ftypavif", 4, 8},
                 {"a HEIC", "ftypheic", 4, 8}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (size >= kinds[i].at + kinds[i].length && !memcmp(bytes + kinds[i].at, kinds[i].begins, kinds[i].length))
            return kinds[i].kind;
    return NULL;
}

static ls_status fail_kind(const char *name, const uint8_t *bytes, size_t size) {
    if (!size) return ls_fail(LS_DATA_LOSS, "image '%s' is empty", name);
    const char *kind = foreign_kind(bytes, size);
    if (kind)
        return ls_fail(LS_DATA_LOSS,
                       "'%s' is %s image by its first bytes, whatever its name says: convert it to JPEG or PNG", name,
                       kind);
    return ls_fail(LS_DATA_LOSS, "'%s' is neither a JPEG nor a PNG: at offset 0 it has %02x %02x", name, bytes[0],
                   size > 1 ? bytes[1] : 0);
}

ls_status ls_image_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image) {
    if (ls_jpeg_is(bytes, size)) return ls_jpeg_probe(name, bytes, size, image);
    if (ls_png_is(bytes, size)) return ls_png_probe(name, bytes, size, image);
    return fail_kind(name, bytes, size);
}

ls_status ls_image_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                          struct ls_image *image) {
    if (ls_jpeg_is(bytes, size)) return ls_jpeg_decode(name, bytes, size, wish, image);
    if (ls_png_is(bytes, size)) return ls_png_decode(name, bytes, size, wish, image);
    return fail_kind(name, bytes, size);
}

/* Between which two source positions an output position lies, and how far from the first: lower + part * (upper -
 * lower). */
struct tap {
    int lower, upper;
    float part;
};

/* Pixels are areas and their centres lie at .5, so output centre i + 0.5 maps to (i + 0.5) scale in the source, as in
 * tf.image.resize (TensorFlow 2) and not with its older align_corners. Beyond the outer centres lower and upper are the
 * same pixel, and part does not count. */
static struct tap tap_at(int i, int from, int to) {
    float scale = (float)from / (float)to;
    float at = ((float)i + 0.5F) * scale - 0.5F, floor_at = floorf(at);
    int lower = (int)floor_at, upper = (int)ceilf(at);
    return (struct tap){lower < 0 ? 0 : lower, upper >= from ? from - 1 : upper, at - floor_at};
}

LS_CLONES static void to_floats(const uint8_t *bytes, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) values[i] = (float)bytes[i];
}

static void resize_grey_row(const float *row, const struct tap *taps, int width, float *output) {
    for (int x = 0; x < width; x++) {
        float left = row[taps[x].lower], right = row[taps[x].upper];
        output[x] = left + (right - left) * taps[x].part;
    }
}

/* A pixel of three channels is taken as four, the next one's first being of no matter: one float behind the row is read
 * and one behind the output written. */
typedef float floats4 __attribute__((vector_size(16)));

static inline floats4 load_pixel(const float *row, int x) {
    floats4 pixel;
    memcpy(&pixel, row + 3 * (size_t)x, sizeof(pixel));
    return pixel;
}

static void resize_color_row(const float *row, const struct tap *taps, int width, float *output) {
    for (int x = 0; x < width; x++) {
        floats4 left = load_pixel(row, taps[x].lower), right = load_pixel(row, taps[x].upper);
        floats4 pixel = left + (right - left) * taps[x].part;
        memcpy(output + 3 * (size_t)x, &pixel, sizeof(pixel));
    }
}

LS_CLONES static void blend_rows(const float *top, const float *bottom, float part, size_t count, float *output) {
    for (size_t i = 0; i < count; i++) output[i] = (top[i] + (bottom[i] - top[i]) * part) / 255.0F;
}

/* The two source rows that were resized last, by number; output rows ask for them in order. */
struct rows {
    const struct ls_image *image;
    struct tap *taps; /* owns: one an output column */
    int width;        /* of the output */
    float *source;    /* owns: the present source row, with a float behind it */
    int number[2];
    float *resized[2]; /* own, with a float behind them */
};

static void free_rows(struct rows *rows) {
    ls_free(rows->taps);
    ls_free(rows->source);
    ls_free(rows->resized[0]);
    ls_free(rows->resized[1]);
}

static ls_status make_rows(const struct ls_image *image, int width, struct rows *rows) {
    size_t from = (size_t)image->width * (size_t)image->channels, to = (size_t)width * (size_t)image->channels;
    *rows = (struct rows){.image = image, .width = width, .number = {-1, -1}};
    rows->taps = ls_alloc_array((size_t)width, sizeof(*rows->taps));
    rows->source = ls_alloc_array(from + 1, sizeof(float));
    for (int i = 0; i < 2; i++) rows->resized[i] = ls_alloc_array(to + 1, sizeof(float));
    if (!rows->taps || !rows->source || !rows->resized[0] || !rows->resized[1])
        return ls_fail_memory("an image's rows", 2 * to * sizeof(float));
    for (int x = 0; x < width; x++) rows->taps[x] = tap_at(x, image->width, width);
    return LS_OK;
}

/* Source row y, resized; it takes the place of a row that is not other. Output rows rise, and two neighbours of them
 * mostly share source rows: each source row is resized once where the image is enlarged, and rows that no output needs
 * are never touched where it shrinks. */
static const float *resized_row(struct rows *rows, int y, int other) {
    const struct ls_image *image = rows->image;
    size_t length = (size_t)image->width * (size_t)image->channels;
    for (int i = 0; i < 2; i++)
        if (rows->number[i] == y) return rows->resized[i];
    int slot = rows->number[0] == other;
    rows->number[slot] = y;
    to_floats(image->pixels + (size_t)y * length, length, rows->source);
    if (image->channels == 3)
        resize_color_row(rows->source, rows->taps, rows->width, rows->resized[slot]);
    else
        resize_grey_row(rows->source, rows->taps, rows->width, rows->resized[slot]);
    return rows->resized[slot];
}

static ls_status resize(const struct ls_image *image, int height, int width, float *values) {
    size_t length = (size_t)width * (size_t)image->channels;
    LS_CLEANUP(free_rows) struct rows rows;
    ls_status status = make_rows(image, width, &rows);
    for (int y = 0; y < height && !status; y++) {
        struct tap tap = tap_at(y, image->height, height);
        const float *top = resized_row(&rows, tap.lower, tap.upper);
        const float *bottom = resized_row(&rows, tap.upper, tap.lower);
        blend_rows(top, bottom, tap.part, length, values + (size_t)y * length);
    }
    return status;
}

ls_status ls_image_to_unit(const struct ls_image *image, int height, int width, float *values) {
    if (image->height != height || image->width != width) return resize(image, height, width, values);
    ls_pixels_to_unit(image->pixels, (size_t)height * (size_t)width * (size_t)image->channels, values);
    return LS_OK;
}
