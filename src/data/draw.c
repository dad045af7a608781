/* A pen that writes digits. A glyph's control points are shaken, bent by a random affine map, joined by Catmull-Rom
 * curves and inked by distance; paper noise comes last. Every number drawn is Philox at (seed, stream, example, draw)
 * and all arithmetic is +, -, *, / and square root in float32 without contraction, which IEEE 754 fixes to the bit. */
#include "data/image.h"

#include <math.h>

#include "base/random.h"
#include "data/glyphs.h"

#define SIDE        LS_DRAW_SIDE
#define DRAWS       64 /* blocks of four words kept for one example; the paper's noise takes most */
#define CURVE_STEPS 4  /* straight pieces between two control points */
#define FAR         1e9F

/* Random words of one example, in order. */
struct words {
    uint64_t seed, stream, index;
    uint32_t block[4];
    unsigned used; /* words */
};

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

static uint32_t next_word(struct words *words) {
    if (words->used % 4 == 0) ls_philox(words->seed, words->stream, words->index + words->used / 4, words->block);
    return words->block[words->used++ % 4];
}

static float uniform(struct words *words, float low, float high) {
    return low + (high - low) * ((float)(next_word(words) >> 8) * 0x1p-24F);
}

/* Between -1 and 1, mostly near 0: a handwriting's deviations. */
static float deviation(struct words *words) {
    float a = uniform(words, -0.5F, 0.5F);
    return a + uniform(words, -0.5F, 0.5F);
}

static struct words words_of(uint64_t seed, uint64_t stream, int64_t index) {
    return (struct words){.seed = seed, .stream = stream, .index = (uint64_t)index * DRAWS};
}

int ls_draw_label(uint64_t seed, uint64_t stream, int64_t index) {
    struct words words = words_of(seed, stream ^ 1, index / 10);
    int classes[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (uint32_t i = 9; i > 0; i--) {
        uint32_t j = (uint32_t)((uint64_t)next_word(&words) * (i + 1) >> 32);
        int held = classes[i];
        classes[i] = classes[j];
        classes[j] = held;
    }
    return classes[index % 10];
}

static struct pen choose_pen(struct words *words) {
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
static struct point place_draw(const struct pen *pen, const uint8_t point[2], struct words *words) {
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

static void draw_glyph(struct paper *paper, const struct ls_glyph *glyph, const struct pen *pen, struct words *words) {
    float reach = reach_of(pen);
    for (int i = 0; i < glyph->strokes; i++) {
        struct point points[LS_STROKE_POINTS];
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
static void develop(const struct paper *paper, const struct pen *pen, struct words *words, uint8_t *pixels) {
    const float *nearest = &paper->nearest[0][0];
    float grain = pen->noise / 255, reach = reach_of(pen);
    uint32_t word = 0;
    for (int i = 0; i < LS_DRAW_PIXELS; i++) {
        word = i % 4 ? word >> 8 : next_word(words);
        float ink = ink_at(pen, reach, nearest[i]) + grain * (float)(word & 0xFF);
        pixels[i] = (uint8_t)(255 * smaller(ink, 1) + 0.5F);
    }
}

void ls_draw_digit(uint64_t seed, uint64_t stream, int64_t index, int label, uint8_t pixels[LS_DRAW_PIXELS]) {
    struct words words = words_of(seed, stream, index);
    int variants;
    const struct ls_glyph *glyphs = ls_glyphs(label, &variants);
    const struct ls_glyph *glyph = &glyphs[(uint64_t)next_word(&words) * (uint32_t)variants >> 32];
    struct pen pen = choose_pen(&words);
    struct paper paper;
    for (int i = 0; i < LS_DRAW_PIXELS; i++) paper.nearest[i / SIDE][i % SIDE] = FAR;
    draw_glyph(&paper, glyph, &pen, &words);
    develop(&paper, &pen, &words, pixels);
}
