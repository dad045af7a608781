/* From bytes to floats in [0, 1]: x / 255, rounded once, in every example that holds pixels; and back. */
#include "data/pixels.h"

#include "base/clones.h"
#include "data/sources.h"

LS_CLONES static void to_unit(const uint8_t *pixels, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) values[i] = (float)pixels[i] / 255.0F;
}

void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values) {
    to_unit(pixels, count, values);
}

LS_CLONES static void look_up(const struct ls_pixel_table *table, const uint8_t *pixels, size_t count, float *values) {
    size_t channels = (size_t)table->channels;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = c; i < count; i += channels) values[i] = table->values[c][pixels[i]];
}

void ls_pixels_expand(const struct ls_pixel_table *table, const uint8_t *pixels, size_t count, float *values) {
    if (table->plain)
        to_unit(pixels, count, values);
    else
        look_up(table, pixels, count, values);
}

void ls_pixels_from_unit(const float *values, size_t count, uint8_t *pixels) {
    for (size_t i = 0; i < count; i++)
        pixels[i] = values[i] > 0 ? values[i] < 1 ? (uint8_t)(values[i] * 255.0F + 0.5F) : 255 : 0;
}
