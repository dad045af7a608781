/* From bytes to floats in [0, 1]. */
#pragma once
#include "data/sources.h"

/* Pixels are kept as bytes and become float32 in [0, 1] when read. */
void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values);
/* The nearest bytes: the inverse. */
void ls_pixels_from_unit(const float *values, size_t count, uint8_t *pixels);
