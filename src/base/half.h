/* The 16-bit floats in software. */
#pragma once
#include <lockstep/lockstep.h>

/* IEEE 754 binary16 and bfloat16; float to 16 bits rounds to nearest even, NaN stays NaN. */
float ls_half_to_float(uint16_t half);
uint16_t ls_half_from_float(float value);
float ls_half_bfloat16_to_float(uint16_t value);
uint16_t ls_half_bfloat16_from_float(float value);
/* The same of each of count values. */
void ls_half_bfloat16_from_floats(uint16_t *to, const float *from, size_t count);
