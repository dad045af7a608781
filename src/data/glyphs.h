/* The strokes that digits are drawn with. */
#pragma once
#include <stdint.h>

#define LS_STROKE_POINTS 11
#define LS_GLYPH_STROKES 3

/* Control points of a smooth curve through all of them: x to the right, y down, 0 to 100 within the glyph's box. */
struct ls_stroke {
    int count;
    uint8_t points[LS_STROKE_POINTS][2];
};
struct ls_glyph {
    int strokes;
    struct ls_stroke stroke[LS_GLYPH_STROKES];
};
/* The ways of writing digit (0 to 9): *count of them. */
const struct ls_glyph *ls_glyphs(int digit, int *count);
