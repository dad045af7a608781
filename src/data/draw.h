/* Draws one handwritten-like digit. */
#pragma once
#include <stdint.h>

#define LS_DRAW_SIDE   28
#define LS_DRAW_PIXELS (LS_DRAW_SIDE * LS_DRAW_SIDE)

/* The class of an example, a pure function of its number: of ten in a row, each class comes once. */
int ls_draw_label(uint64_t seed, uint64_t stream, int64_t index);
/* Draws an example of that class: a pure function of the arguments, the same on every machine. */
void ls_draw_digit(uint64_t seed, uint64_t stream, int64_t index, int label, uint8_t pixels[LS_DRAW_PIXELS]);
