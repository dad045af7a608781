/* Which decoder an image's first bytes ask for, and bilinear resizing with half-pixel centres. */
#include "data/image.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/sources.h"

static ls_status fail_kind(const char *name, const uint8_t *bytes, size_t size) {
    if (!size) return ls_fail(LS_DATA_LOSS, "image '%s' is empty", name);
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

static struct tap tap_at(int i, int from, int to) {
    float scale = (float)from / (float)to;
    float at = ((float)i + 0.5F) * scale - 0.5F, floor_at = floorf(at);
    int lower = (int)floor_at, upper = (int)ceilf(at);
    return (struct tap){lower < 0 ? 0 : lower, upper >= from ? from - 1 : upper, at - floor_at};
}

/* One source row, resized in its length. */
static void resize_row(const uint8_t *row, const struct tap *taps, int width, int channels, float *output) {
    for (int x = 0; x < width; x++) {
        const uint8_t *left = row + (size_t)taps[x].lower * (size_t)channels;
        const uint8_t *right = row + (size_t)taps[x].upper * (size_t)channels;
        for (int c = 0; c < channels; c++) *output++ = (float)left[c] + (float)(right[c] - left[c]) * taps[x].part;
    }
}

LS_CLONES static void blend_rows(const float *top, const float *bottom, float part, size_t count, float *output) {
    for (size_t i = 0; i < count; i++) output[i] = (top[i] + (bottom[i] - top[i]) * part) / 255.0F;
}

/* The two source rows that were resized last, by number; output rows ask for them in order. */
struct row_cache {
    int number[2];
    float *row[2];
};

static const float *cached_row(struct row_cache *cache, const struct ls_image *image, int y, int other,
                               const struct tap *taps, int width) {
    for (int i = 0; i < 2; i++)
        if (cache->number[i] == y) return cache->row[i];
    int slot = cache->number[0] == other;
    cache->number[slot] = y;
    resize_row(image->pixels + (size_t)y * (size_t)image->width * (size_t)image->channels, taps, width, image->channels,
               cache->row[slot]);
    return cache->row[slot];
}

static ls_status resize(const struct ls_image *image, int height, int width, float *values) {
    size_t length = (size_t)width * (size_t)image->channels;
    LS_CLEANUP(ls_free_pointer) float *rows = ls_alloc_array(2 * length, sizeof(*rows));
    LS_CLEANUP(ls_free_pointer) struct tap *taps = ls_alloc_array((size_t)width, sizeof(*taps));
    if (!rows || !taps) return ls_fail_memory("an image's rows", 2 * length * sizeof(*rows));
    struct row_cache cache = {{-1, -1}, {rows, rows + length}};
    for (int x = 0; x < width; x++) taps[x] = tap_at(x, image->width, width);
    for (int y = 0; y < height; y++) {
        struct tap tap = tap_at(y, image->height, height);
        const float *top = cached_row(&cache, image, tap.lower, tap.upper, taps, width);
        const float *bottom = cached_row(&cache, image, tap.upper, tap.lower, taps, width);
        blend_rows(top, bottom, tap.part, length, values + (size_t)y * length);
    }
    return LS_OK;
}

ls_status ls_image_to_unit(const struct ls_image *image, int height, int width, float *values) {
    if (image->height != height || image->width != width) return resize(image, height, width, values);
    ls_pixels_to_unit(image->pixels, (size_t)height * (size_t)width * (size_t)image->channels, values);
    return LS_OK;
}
