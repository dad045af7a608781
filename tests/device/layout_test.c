/* The layout of a GPU's threads over images: each element has exactly one thread, for every shape, within CUDA's
 * limits. */
#include "device/cuda/layout.h"

#include <string.h>

#include "base/memory.h"
#include "harness.h"

static const struct {
    int64_t rows, channels;
} shapes[] = {{1, 1}, {6, 1}, {7, 3}, {49, 16}, {50, 17}, {300, 5}, {40, 1280}, {30, 3000}, {4097, 2}, {784, 576}};
#define SHAPE_COUNT ((int)(sizeof(shapes) / sizeof(shapes[0])))
static const struct ls_cuda_wish wishes[] = {{1024, 8}, {512, 2}, {1, 1}};

/* As a kernel finds its place; seen counts who comes to (row, channel). */
static void visit(const struct ls_cuda_rows *r, uint8_t *seen) {
    for (int64_t group = 0; group < (int64_t)r->across * r->columns; group++)
        for (int64_t chunk = 0; chunk < r->chunks; chunk++)
            for (int line = 0; line < r->lines; line++) {
                int64_t channel = group * r->vector, end = (chunk + 1) * r->chunk;
                for (int64_t row = chunk * r->chunk + line; row < end && row < r->rows; row += r->lines)
                    for (int v = 0; channel < r->channels && v < r->vector; v++)
                        seen[row * r->channels + channel + v]++;
            }
}

/* Frees seen. */
static void expect_once(uint8_t *seen, int64_t count) {
    int64_t once = 0;
    for (int64_t i = 0; i < count; i++) once += seen[i] == 1;
    ck_assert_int_eq(once, count);
    ls_free(seen);
}

TEST_EACH(rows_cover_each_element_once, SHAPE_COUNT) {
    int64_t rows = shapes[_i].rows, channels = shapes[_i].channels;
    for (int w = 0; w < 3; w++)
        for (int vector = 1; vector <= 8; vector *= 2) {
            if (channels % vector) continue;
            struct ls_cuda_rows r = ls_cuda_rows_over(rows, channels, vector, wishes[w]);
            ck_assert_int_le(r.columns * r.lines, LS_CUDA_THREADS);
            ck_assert_int_ge(r.columns * r.lines, LS_CUDA_THREADS / 2);
            ck_assert_int_le(r.across * r.chunks, r.across > wishes[w].blocks ? r.across : wishes[w].blocks);
            ck_assert_int_lt((r.chunks - 1) * r.chunk, rows); /* no chunk is empty */
            uint8_t *seen = ls_alloc_array((size_t)(rows * channels), 1);
            ck_assert_ptr_nonnull(seen);
            visit(&r, seen);
            expect_once(seen, rows * channels);
        }
}

static void visit_stripes(const struct ls_cuda_stripes *s, uint8_t *seen) {
    for (int64_t group = 0; group < (int64_t)s->across * s->columns; group++)
        for (int64_t line = 0; line < (int64_t)s->blocks * s->lines; line++)
            for (int64_t row = line; row < s->rows; row += (int64_t)s->blocks * s->lines)
                for (int64_t c = group * s->vector; c < s->channels && c < (group + 1) * s->vector; c++)
                    seen[row * s->channels + c]++;
}

TEST_EACH(stripes_cover_each_element_once, SHAPE_COUNT) {
    int64_t rows = shapes[_i].rows, channels = shapes[_i].channels;
    for (int waves = 1; waves <= 4; waves += 3)
        for (int vector = 1; vector <= 8; vector *= 2) {
            if (channels % vector) continue;
            struct ls_cuda_stripes s = ls_cuda_stripes_over(rows, channels, vector, waves);
            ck_assert_int_le(s.columns * s.lines, LS_CUDA_THREADS);
            ck_assert_int_ge(s.columns * s.lines, LS_CUDA_THREADS / 2);
            ck_assert(s.blocks == 1 || (int64_t)s.blocks * s.lines * 8 <= rows); /* no thread has few */
            uint8_t *seen = ls_alloc_array((size_t)(rows * channels), 1);
            ck_assert_ptr_nonnull(seen);
            visit_stripes(&s, seen);
            expect_once(seen, rows * channels);
        }
}

/* Three blocks on each of 132 multiprocessors. */
TEST(stripes_come_in_whole_waves) {
    static const struct {
        int64_t rows, channels;
        int waves, blocks;
    } cases[] = {{802816, 144, 1, 396}, {802816, 144, 4, 1584}, {50176, 256, 4, 396},  {200704, 1024, 4, 396},
                 {12544, 2048, 1, 49},  {2000000, 8192, 4, 48}, {100000, 200000, 4, 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ls_cuda_stripes s = ls_cuda_stripes_over(cases[i].rows, cases[i].channels, 8, cases[i].waves);
        ck_assert_int_eq(s.blocks, cases[i].blocks);
    }
}

static const int64_t images[][4] = {{1, 1, 1, 1},     {2, 7, 5, 3},      {64, 112, 112, 32}, {64, 7, 7, 960},
                                    {1, 224, 224, 3}, {70000, 2, 2, 16}, {2, 70000, 3, 8}};
#define IMAGE_COUNT ((int)(sizeof(images) / sizeof(images[0])))

TEST_EACH(lines_cover_each_element_once, IMAGE_COUNT) {
    const int64_t *image = images[_i];
    for (int vector = 1; vector <= 8; vector *= 2)
        for (int positions = 1; positions <= 4; positions *= 2) {
            if (image[3] % vector) continue;
            struct ls_cuda_lines l = ls_cuda_lines_over(image, vector, positions);
            ck_assert_int_eq(l.images, image[0]);
            ck_assert_int_eq(l.height, image[1]);
            ck_assert_int_ge(l.width * positions, image[2]);
            ck_assert_int_lt((l.width - 1) * positions, image[2]);
            ck_assert_int_ge((int64_t)l.across * l.block, l.width * image[3] / vector);
            ck_assert(l.block % 32 == 0 && l.block <= LS_CUDA_THREADS && l.lines_each >= 1);
            ck_assert_int_le(l.down, LS_CUDA_GRID);
            ck_assert_int_le(l.deep, LS_CUDA_GRID);
            ck_assert(l.down == LS_CUDA_GRID || (int64_t)l.down * l.lines_each >= l.height);
        }
}

/* Blocks go down an image only where there are enough of them to fill a GPU. */
TEST(lines_fill_the_device) {
    ck_assert_int_eq(ls_cuda_lines_over(images[2], 8, 4).lines_each, 4);
    ck_assert_int_eq(ls_cuda_lines_over(images[3], 8, 4).lines_each, 1);
}

/* As a kernel of strips finds its places; seen counts who comes to (image, line, group of columns, channel). */
static void visit_strips(const struct ls_cuda_strips *s, uint8_t *seen) {
    for (int block = 0; block < s->across * s->chunks; block++)
        for (int thread = 0; thread < s->lanes * s->tall; thread++) {
            int channel = (block % s->across * s->lanes + thread % s->lanes) * s->vector;
            for (int item = block / s->across * s->tall + thread / s->lanes; item < s->items && channel < s->channels;
                 item += s->chunks * s->tall) {
                int64_t above = item / s->width, first = above % s->down * s->lines;
                for (int64_t line = first; line < first + s->lines && line < s->height; line++)
                    seen[((above / s->down * s->height + line) * s->width + item % s->width) * s->channels + channel]++;
            }
        }
}

TEST_EACH(strips_cover_each_element_once, 7) {
    static const int64_t strips[][4] = {{1, 1, 1, 8},      {2, 7, 5, 24},   {3, 56, 56, 144}, {4, 7, 7, 960},
                                        {1, 113, 30, 592}, {1, 5, 4, 2056}, {2, 70, 9, 5000}};
    const int64_t *image = strips[_i];
    for (int columns = 1; columns <= 7; columns += 3)
        for (int blocks = 0; blocks <= 528; blocks += SANITIZED ? 264 : 66) {
            struct ls_cuda_strips s = ls_cuda_strips_over(image, 2, columns, 2, blocks);
            int64_t places = image[0] * image[1] * s.width * image[3], once = 0;
            uint8_t *seen = ls_alloc_array((size_t)places, 1);
            ck_assert_ptr_nonnull(seen);
            ck_assert(s.width * columns >= image[2] && (s.width - 1) * columns < image[2]);
            ck_assert(s.lanes * s.tall <= LS_CUDA_STRIP_THREADS && s.tall >= 1);
            ck_assert(!blocks || s.chunks == 1 || s.across * s.chunks <= blocks);
            ck_assert((s.chunks - 1) * s.tall < s.items); /* no block is idle */
            memset(seen, 0, (size_t)places);
            visit_strips(&s, seen);
            for (int64_t i = 0; i < places; i++) once += seen[i] == (i % 2 == 0);
            ck_assert_int_eq(once, places);
            ls_free(seen);
        }
}

/* Sectors are whole, and few threads have nothing to do. */
TEST(strips_have_lanes_for_all_channels) {
    static const struct {
        int64_t channels;
        int lanes, across;
    } expected[] = {{8, 4, 1}, {24, 12, 1}, {32, 16, 1}, {144, 24, 3}, {192, 96, 1}, {960, 96, 5}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const int64_t image[] = {256, 14, 14, expected[i].channels};
        struct ls_cuda_strips s = ls_cuda_strips_over(image, 2, 4, 2, 0);
        ck_assert_int_eq(s.lanes, expected[i].lanes);
        ck_assert_int_eq(s.across, expected[i].across);
    }
}

TEST(the_vector_width_follows_alignment) {
    static const int places[] = {LS_ARG_X, LS_ARG_Y, -1};
    struct ls_op op = {.kind = LS_OP_POOL_FORWARD};
    char *base = ls_alloc_aligned(64);
    ck_assert_ptr_nonnull(base);
    op.tensors[LS_ARG_X].data = base;
    ck_assert_int_eq(ls_cuda_vector(&op, 16, LS_FLOAT32, places), 4);
    ck_assert_int_eq(ls_cuda_vector(&op, 16, LS_BFLOAT16, places), 8);
    ck_assert_int_eq(ls_cuda_vector(&op, 12, LS_FLOAT16, places), 1);
    ck_assert_int_eq(ls_cuda_vector(&op, 17, LS_FLOAT32, places), 1);
    op.tensors[LS_ARG_DY].data = base + 4; /* not asked for */
    ck_assert_int_eq(ls_cuda_vector(&op, 16, LS_FLOAT32, places), 4);
    op.tensors[LS_ARG_Y].data = base + 8;
    ck_assert_int_eq(ls_cuda_vector(&op, 16, LS_FLOAT32, places), 1);
    ls_free(base);
}

TESTS("layout")
