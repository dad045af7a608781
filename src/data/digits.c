/* The built-in dataset: digits drawn from strokes, example i being a function of (seed, split, i). Examples are drawn
 * when first read and kept as bytes.
 *
 * A pen writes them. A glyph's control points are shaken, bent by a random affine map, joined by Catmull-Rom curves and
 * inked by distance; paper noise comes last. Every number drawn is Philox at (seed, stream, example, draw) and all
 * arithmetic is +, -, *, / and square root in float32 without contraction, which IEEE 754 fixes to the bit. */
#include "data/sources.h"

#include <math.h>

#include "base/need.h"
#include "data/pixels.h"

#define TRAIN_COUNT 60000
#define TEST_COUNT  10000
#define MAX_COUNT   (INT64_C(1) << 26) /* 48 GiB of pixels */
#define SIDE        28
#define PIXELS      (SIDE * SIDE)
#define DRAWS       64 /* blocks of four words kept for one example; the paper's noise takes most */
#define CURVE_STEPS 4  /* straight pieces between two control points */
#define FAR         1e9F

/* ---- the glyphs ---- */

#define STROKE_POINTS 11
#define GLYPH_STROKES 3

/* Control points of a smooth curve through all of them: x to the right, y down, 0 to 100 within the glyph's box. */
struct stroke {
    int count;
    uint8_t points[STROKE_POINTS][2];
};
struct glyph {
    int strokes;
    struct stroke stroke[GLYPH_STROKES];
};

/* Two or three ways of writing each digit. A corner is where one stroke ends and the next begins. */
static const struct glyph zero[] = {
    {1, {{9, {{50, 5}, {24, 24}, {20, 55}, {30, 86}, {52, 95}, {74, 82}, {80, 50}, {72, 20}, {48, 6}}}}},
    {1, {{9, {{60, 8}, {38, 15}, {26, 45}, {28, 80}, {48, 95}, {66, 80}, {73, 45}, {64, 14}, {44, 12}}}}},
};
static const struct glyph one[] = {
    {1, {{3, {{52, 5}, {50, 50}, {49, 95}}}}},
    {2, {{3, {{30, 27}, {43, 19}, {54, 5}}}, {3, {{54, 5}, {53, 50}, {52, 95}}}}},
    {3, {{3, {{32, 24}, {44, 16}, {52, 5}}}, {3, {{52, 5}, {52, 50}, {52, 95}}}, {3, {{30, 95}, {52, 95}, {74, 95}}}}},
};
static const struct glyph two[] = {
    {2,
     {{7, {{22, 26}, {34, 8}, {58, 5}, {76, 22}, {70, 44}, {48, 68}, {22, 94}}}, {3, {{22, 94}, {50, 92}, {80, 93}}}}},
    {1, {{10, {{24, 22}, {44, 5}, {70, 12}, {74, 34}, {56, 62}, {32, 88}, {20, 84}, {28, 74}, {50, 86}, {82, 92}}}}},
};
static const struct glyph three[] = {
    {2,
     {{5, {{24, 16}, {48, 5}, {72, 16}, {68, 36}, {44, 46}}}, {5, {{44, 46}, {72, 54}, {78, 78}, {52, 95}, {22, 85}}}}},
    {3,
     {{3, {{24, 8}, {50, 7}, {74, 8}}},
      {3, {{74, 8}, {58, 25}, {44, 42}}},
      {5, {{44, 42}, {70, 49}, {77, 74}, {54, 95}, {22, 87}}}}},
};
static const struct glyph four[] = {
    {3, {{3, {{58, 5}, {40, 35}, {20, 65}}}, {3, {{20, 65}, {50, 65}, {82, 63}}}, {3, {{62, 34}, {61, 65}, {58, 97}}}}},
    {3, {{3, {{28, 8}, {24, 35}, {28, 53}}}, {3, {{28, 53}, {50, 56}, {78, 50}}}, {3, {{74, 8}, {71, 50}, {66, 96}}}}},
};
static const struct glyph five[] = {
    {3,
     {{3, {{76, 7}, {52, 7}, {31, 8}}},
      {3, {{31, 8}, {28, 27}, {26, 45}}},
      {6, {{26, 45}, {50, 37}, {74, 52}, {74, 80}, {48, 95}, {20, 87}}}}},
    {1, {{8, {{78, 7}, {46, 9}, {30, 25}, {37, 42}, {62, 51}, {75, 71}, {56, 93}, {22, 90}}}}},
};
static const struct glyph six[] = {
    {1, {{9, {{68, 6}, {42, 22}, {26, 50}, {26, 78}, {46, 95}, {70, 86}, {74, 66}, {54, 54}, {30, 66}}}}},
    {1, {{9, {{58, 4}, {40, 30}, {28, 60}, {34, 88}, {56, 94}, {71, 78}, {60, 60}, {40, 62}, {29, 76}}}}},
};
static const struct glyph seven[] = {
    {2, {{3, {{20, 10}, {50, 8}, {80, 9}}}, {3, {{80, 9}, {61, 46}, {44, 96}}}}},
    {3, {{3, {{20, 9}, {50, 8}, {79, 8}}}, {3, {{79, 8}, {60, 48}, {46, 96}}}, {3, {{36, 52}, {54, 50}, {74, 49}}}}},
    {3, {{3, {{20, 25}, {21, 17}, {22, 9}}}, {3, {{22, 9}, {50, 8}, {79, 10}}}, {3, {{79, 10}, {64, 46}, {52, 96}}}}},
};
static const struct glyph eight[] = {
    {1,
     {{11,
       {{70, 18}, {48, 5}, {28, 18}, {38, 40}, {62, 56}, {76, 76}, {52, 95}, {25, 80}, {36, 58}, {62, 40}, {72, 20}}}}},
    {2,
     {{8, {{50, 46}, {29, 34}, {30, 14}, {50, 5}, {70, 14}, {71, 34}, {50, 46}, {34, 52}}},
      {7, {{50, 46}, {25, 60}, {25, 84}, {50, 96}, {75, 84}, {75, 60}, {50, 46}}}}},
};
static const struct glyph nine[] = {
    {2,
     {{7, {{73, 28}, {55, 8}, {33, 13}, {27, 36}, {46, 51}, {68, 40}, {74, 20}}}, {3, {{74, 20}, {72, 56}, {60, 96}}}}},
    {2,
     {{6, {{71, 15}, {46, 6}, {27, 24}, {36, 46}, {60, 43}, {72, 20}}}, {4, {{72, 20}, {76, 56}, {62, 88}, {31, 93}}}}},
};

static const struct glyphs {
    const struct glyph *list;
    int count;
} glyphs[10] = {
#define GLYPHS(digit)                                                                                                  \
    { digit, sizeof(digit) / sizeof(digit[0]) }
    GLYPHS(zero), GLYPHS(one), GLYPHS(two),   GLYPHS(three), GLYPHS(four),
    GLYPHS(five), GLYPHS(six), GLYPHS(seven), GLYPHS(eight), GLYPHS(nine),
};

/* ---- the pen ---- */

struct pen {
    float xx, xy, yx, yy, x, y; /* the affine map from the glyph's box to pixels */
    float shake;                /* of control points, in the box's units */
    float radius, softness;     /* of the stroke, pixels */
    float ink, noise;           /* 0 to 1 */
};

struct point {
    float x, y;
};

/* Squared distance of each pixel's centre to the nearest stroke. */
struct paper {
    float nearest[SIDE][SIDE];
};

static float uniform(struct ls_source_words *words, float low, float high) {
    return low + (high - low) * ((float)(ls_source_word(words) >> 8) * 0x1p-24F);
}

/* Between -1 and 1, mostly near 0: a handwriting's deviations. */
static float deviation(struct ls_source_words *words) {
    float a = uniform(words, -0.5F, 0.5F);
    return a + uniform(words, -0.5F, 0.5F);
}

static struct ls_source_words words_of(uint64_t seed, uint64_t stream, int64_t index) {
    return (struct ls_source_words){.seed = seed, .stream = stream, .index = (uint64_t)index * DRAWS};
}

/* The class of an example, a function of its number: of ten in a row, each class comes once. */
static int draw_label(uint64_t seed, uint64_t stream, int64_t index) {
    struct ls_source_words words = words_of(seed, stream ^ 1, index / 10);
    int classes[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (uint32_t i = 9; i > 0; i--) {
        uint32_t j = (uint32_t)((uint64_t)ls_source_word(&words) * (i + 1) >> 32);
        int held = classes[i];
        classes[i] = classes[j];
        classes[j] = held;
    }
    return classes[index % 10];
}

static struct pen choose_pen(struct ls_source_words *words) {
    float slope = 0.36F * deviation(words), norm = 1 / sqrtf(1 + slope * slope); /* rotation by atan(slope) */
    float shear = -0.08F + 0.40F * deviation(words);
    float width = uniform(words, 13, 22), height = uniform(words, 15, 22);
    float cosine = norm, sine = slope * norm;
    struct pen pen;
    pen.xx = cosine * width;
    pen.xy = cosine * shear * height - sine * height;
    pen.yx = sine * width;
    pen.yy = sine * shear * height + cosine * height;
    pen.x = 13.5F + 3.2F * deviation(words);
    pen.y = 13.5F + 3.2F * deviation(words);
    pen.shake = uniform(words, 0.03F, 0.08F);
    pen.radius = uniform(words, 0.6F, 1.7F);
    pen.softness = uniform(words, 0.9F, 1.6F);
    pen.ink = uniform(words, 0.7F, 1);
    pen.noise = uniform(words, 0, 0.15F);
    return pen;
}

/* A control point on the paper. */
static struct point place_draw(const struct pen *pen, const uint8_t point[2], struct ls_source_words *words) {
    float x = ((float)point[0] - 50) * 0.01F + pen->shake * deviation(words);
    float y = ((float)point[1] - 50) * 0.01F + pen->shake * deviation(words);
    return (struct point){pen->xx * x + pen->xy * y + pen->x, pen->yx * x + pen->yy * y + pen->y};
}

static int clamp_pixel(float value) {
    return value < 0 ? 0 : value > SIDE - 1 ? SIDE - 1 : (int)value;
}

static float smaller(float a, float b) {
    return a < b ? a : b;
}

static float larger(float a, float b) {
    return a > b ? a : b;
}

/* Lowers the distances around a straight piece. */
static void draw_line(struct paper *paper, struct point a, struct point b, float reach) {
    float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    float inverse = length > 0 ? 1 / length : 0;
    int left = clamp_pixel(smaller(a.x, b.x) - reach), right = clamp_pixel(larger(a.x, b.x) + reach);
    int top = clamp_pixel(smaller(a.y, b.y) - reach), bottom = clamp_pixel(larger(a.y, b.y) + reach);
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            float px = (float)x - a.x, py = (float)y - a.y;
            float along = smaller(larger((px * dx + py * dy) * inverse, 0), 1);
            float ex = px - along * dx, ey = py - along * dy;
            paper->nearest[y][x] = smaller(paper->nearest[y][x], ex * ex + ey * ey);
        }
}

static float curve(float p0, float p1, float p2, float p3, float t) {
    float a = p2 - p0, b = 2 * p0 - 5 * p1 + 4 * p2 - p3, c = 3 * (p1 - p2) + p3 - p0;
    return p1 + 0.5F * t * (a + t * (b + t * c));
}

/* The Catmull-Rom curve through all points, its ends repeated. */
static void draw_curve(struct paper *paper, const struct point *points, int count, float reach) {
    for (int i = 0; i + 1 < count; i++) {
        struct point p0 = points[i ? i - 1 : 0], p1 = points[i], p2 = points[i + 1];
        struct point p3 = points[i + 2 < count ? i + 2 : count - 1], from = p1;
        for (int step = 1; step <= CURVE_STEPS; step++) {
            float t = (float)step / CURVE_STEPS;
            struct point to = {curve(p0.x, p1.x, p2.x, p3.x, t), curve(p0.y, p1.y, p2.y, p3.y, t)};
            draw_line(paper, from, to, reach);
            from = to;
        }
    }
}

/* The distance from its middle to which a stroke leaves ink. */
static float reach_of(const struct pen *pen) {
    return pen->radius + 0.5F * pen->softness;
}

static void draw_glyph(struct paper *paper, const struct glyph *glyph, const struct pen *pen,
                       struct ls_source_words *words) {
    float reach = reach_of(pen);
    for (int i = 0; i < glyph->strokes; i++) {
        struct point points[STROKE_POINTS];
        for (int j = 0; j < glyph->stroke[i].count; j++) points[j] = place_draw(pen, glyph->stroke[i].points[j], words);
        draw_curve(paper, points, glyph->stroke[i].count, reach);
    }
}

/* Ink at a pixel, from the squared distance to the stroke's middle. */
static float ink_at(const struct pen *pen, float reach, float nearest) {
    if (nearest >= reach * reach) return 0;
    return pen->ink * smaller(larger((pen->radius - sqrtf(nearest)) / pen->softness + 0.5F, 0), 1);
}

/* Distances become ink; noise is added as the paper's grain. */
static void develop(const struct paper *paper, const struct pen *pen, struct ls_source_words *words, uint8_t *pixels) {
    const float *nearest = &paper->nearest[0][0];
    float grain = pen->noise / 255, reach = reach_of(pen);
    uint32_t word = 0;
    for (int i = 0; i < PIXELS; i++) {
        word = i % 4 ? word >> 8 : ls_source_word(words);
        float ink = ink_at(pen, reach, nearest[i]) + grain * (float)(word & 0xFF);
        pixels[i] = (uint8_t)(255 * smaller(ink, 1) + 0.5F);
    }
}

/* Draws an example of that class: a function of the arguments alone, the same on every machine. */
static void draw_digit(uint64_t seed, uint64_t stream, int64_t index, int label, uint8_t pixels[PIXELS]) {
    struct ls_source_words words = words_of(seed, stream, index);
    const struct glyphs *of = &glyphs[label];
    const struct glyph *glyph = &of->list[(uint64_t)ls_source_word(&words) * (uint32_t)of->count >> 32];
    struct pen pen = choose_pen(&words);
    struct paper paper;
    for (int i = 0; i < PIXELS; i++) paper.nearest[i / SIDE][i % SIDE] = FAR;
    draw_glyph(&paper, glyph, &pen, &words);
    develop(&paper, &pen, &words, pixels);
}

/* ---- the dataset ---- */

static ls_status bytes_of_digits(const struct ls_source *source, int64_t index, uint8_t *features,
                                 const struct ls_targets *targets) {
    const struct ls_source_drawn *digits = (const struct ls_source_drawn *)source;
    *targets->labels = draw_label(digits->seed, digits->stream, index);
    draw_digit(digits->seed, digits->stream, index, *targets->labels, features);
    return LS_OK;
}

static ls_status read_digits_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    uint8_t pixels[PIXELS];
    ls_status status = bytes_of_digits(source, index, pixels, targets);
    ls_pixels_to_unit(pixels, sizeof(pixels), features);
    return status;
}

static const struct ls_source_ops digits_ops = {
    .read = read_digits_example, .free = ls_source_free, .bytes = bytes_of_digits};

static ls_status open_digits(struct ls_source **source, const char *path, const ls_dataset_options *options) {
    (void)path;
    ls_status status = ls_source_draw(*source, options, &(struct ls_source_counts){TRAIN_COUNT, TEST_COUNT, MAX_COUNT});
    return status ? status : ls_source_cache(source);
}

ls_status ls_dataset_digits(const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {
        .source = {.ops = &digits_ops, .kind = "digits", .shape = {3, {SIDE, SIDE, 1}}, .classes = 10, .bytes = true},
        .size = sizeof(struct ls_source_drawn),
        .open = open_digits};
    return ls_source_open(&start, NULL, options, dataset);
}
