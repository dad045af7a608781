/* From bytes to floats in [0, 1]. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pixels are kept as bytes and become float32 in [0, 1] when read. */
void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values);
/* The value of each byte of an example, by the channel of its last axis. One channel: it is the same for all. */
enum { LS_MOST_CHANNELS = 3 };
struct ls_pixel_table {
    int channels;
    bool plain; /* x / 255 */
    float values[LS_MOST_CHANNELS][UINT8_MAX + 1];
};
/* count bytes, from a first channel on. */
void ls_pixels_expand(const struct ls_pixel_table *table, const uint8_t *pixels, size_t count, float *values);
/* The nearest bytes: the inverse. */
void ls_pixels_from_unit(const float *values, size_t count, uint8_t *pixels);
