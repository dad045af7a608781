/* From bytes to floats in [0, 1]: x / 255, rounded once, in every example that holds pixels. */
#include "base/clones.h"
#include "data/sources.h"

LS_CLONES void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) values[i] = (float)pixels[i] / 255.0F;
}
