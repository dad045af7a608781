/* The built-in images: circles and triangles in random colours on random grounds, so that only the shape tells the
 * class. Example i is a pure function of (seed, split, i), drawn at each reading in whole numbers: the same bytes
 * everywhere. */
#include <stdlib.h>

#include "base/need.h"
#include "base/status.h"
#include "data/sources.h"

#define DEFAULT_SIDE 64
#define TRAIN_COUNT  2000
#define TEST_COUNT   500
#define MAX_COUNT    (INT64_C(1) << 31)
#define FINE         4    /* samples a pixel and axis */
#define UNIT         1024 /* of a direction */
#define DIRECTIONS   24

/* In samples. */
struct figure {
    int64_t x, y, radius;
    int64_t corner[3][2]; /* of a triangle */
    bool triangle;
    int ink[3], ground[2][3]; /* colours: the ground runs from one to the other, left to right */
};

/* From 0 to below limit. */
static int64_t below(struct ls_source_words *words, int64_t limit) {
    return (int64_t)((uint64_t)ls_source_word(words) * (uint64_t)limit >> 32);
}

/* The sine of a number of 24ths of a turn, in units. */
static int64_t sine(int64_t direction) {
    static const int64_t quarter[] = {0, 265, 512, 724, 887, 989, 1024};
    direction %= DIRECTIONS;
    int64_t sign = direction >= 12 ? -1 : 1, half = direction % 12;
    return sign * quarter[half <= 6 ? half : 12 - half];
}

static int brightness_of(const int *color) {
    return (299 * color[0] + 587 * color[1] + 114 * color[2]) / 1000;
}

static void draw_color(struct ls_source_words *words, int *color) {
    for (int c = 0; c < 3; c++) color[c] = (int)below(words, 256);
}

/* Colours until the ink stands out from the ground; the last ones are as they are. */
static void draw_colors(struct ls_source_words *words, struct figure *figure) {
    for (int attempt = 0; attempt < 16; attempt++) {
        draw_color(words, figure->ink);
        draw_color(words, figure->ground[0]);
        draw_color(words, figure->ground[1]);
        int ink = brightness_of(figure->ink);
        if (abs(ink - brightness_of(figure->ground[0])) > 60 && abs(ink - brightness_of(figure->ground[1])) > 60)
            return;
    }
}

static struct figure draw_figure(struct ls_source_words *words, int64_t height, int64_t width, bool triangle) {
    int64_t least = (height < width ? height : width) * FINE;
    struct figure figure = {.triangle = triangle, .radius = least / 5 + below(words, least / 6 + 1)};
    int64_t around = DIRECTIONS / 3, turn = below(words, DIRECTIONS), radius = figure.radius;
    figure.x = radius + below(words, width * FINE - 2 * radius + 1);
    figure.y = radius + below(words, height * FINE - 2 * radius + 1);
    for (int i = 0; i < 3; i++) {
        int64_t direction = turn + i * around;
        figure.corner[i][0] = figure.x + radius * sine(direction + DIRECTIONS / 4) / UNIT;
        figure.corner[i][1] = figure.y + radius * sine(direction) / UNIT;
    }
    draw_colors(words, &figure);
    return figure;
}

/* A point lies in a triangle if it lies on the same side of all three edges, which the sign of a cross product tells.
 * All is integer arithmetic, so that no rounding differs between processors. */
static bool inside(const struct figure *figure, int64_t x, int64_t y) {
    int64_t dx = x - figure->x, dy = y - figure->y;
    if (dx * dx + dy * dy > figure->radius * figure->radius) return false;
    for (int i = 0; i < 3 && figure->triangle; i++) {
        const int64_t *a = figure->corner[i], *b = figure->corner[(i + 1) % 3];
        if ((b[0] - a[0]) * (y - a[1]) < (b[1] - a[1]) * (x - a[0])) return false;
    }
    return true;
}

/* The number of a pixel's samples that lie inside. */
static int coverage(const struct figure *figure, int64_t x, int64_t y) {
    int samples = 0;
    for (int64_t i = 0; i < FINE * FINE; i++) samples += inside(figure, x * FINE + i % FINE, y * FINE + i / FINE);
    return samples;
}

static ls_status bytes_of_shapes(const struct ls_source *source, int64_t index, uint8_t *features,
                                 const struct ls_targets *targets) {
    const struct ls_source_drawn *shapes = (const struct ls_source_drawn *)source;
    struct ls_source_words words = {shapes->seed, shapes->stream, (uint64_t)index * 64, {0}, 0};
    int64_t height = source->shape.dims[0], width = source->shape.dims[1];
    struct figure figure = draw_figure(&words, height, width, index % 2);
    for (int64_t i = 0; i < height * width; i++, features += 3) {
        int64_t x = i % width, inked = coverage(&figure, x, i / width), all = FINE * FINE;
        for (int c = 0; c < 3; c++) {
            int64_t ground = (figure.ground[0][c] * (width - x) + figure.ground[1][c] * x) / width;
            features[c] = (uint8_t)((ground * (all - inked) + figure.ink[c] * inked) / all);
        }
    }
    *targets->labels = (int32_t)(index % 2);
    return LS_OK;
}

static const char *class_shapes_name(const struct ls_source *source, int label) {
    (void)source;
    return label ? "triangle" : "circle";
}

static const struct ls_source_ops shapes_ops = {
    .free = ls_source_free, .class_name = class_shapes_name, .bytes = bytes_of_shapes};

static ls_status open_shapes(struct ls_source **source, const char *path, const ls_dataset_options *options) {
    (void)path;
    if (options->image_channels == 1)
        return ls_fail(LS_INVALID_ARGUMENT, "shapes: image_channels is 1, and they have 3");
    (*source)->shape = LS_SHAPE(options->image_height ? options->image_height : DEFAULT_SIDE,
                                options->image_width ? options->image_width : DEFAULT_SIDE, 3);
    return ls_source_draw(*source, options, &(struct ls_source_counts){TRAIN_COUNT, TEST_COUNT, MAX_COUNT});
}

ls_status ls_dataset_shapes(const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {
        .source = {.ops = &shapes_ops, .kind = "shapes", .classes = 2, .bytes = true, .slow = true},
        .size = sizeof(struct ls_source_drawn),
        .open = open_shapes};
    return ls_source_open(&start, NULL, options, dataset);
}
