/* Examples that stay bytes: what they stand for are the floats that a reading of floats gives, to the bit, from every
 * source, through what moves pixels, and by threads or without. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/shape.h"
#include "data/fixture.h"
#include "data/npy.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "harness.h"
#include "property/draw.h"

enum { EXAMPLES = 23, SIDE = 9, MOST = 32 * 32 * 3, BATCH = 7 };

/* ---- sources ---- */

static void write_array(const char *name, bool fortran) {
    static uint8_t file[LS_NPY_HEADER + EXAMPLES * SIDE * SIDE * 3];
    const ls_shape shape = LS_SHAPE(EXAMPLES, SIDE, SIDE, 3);
    ls_npy_header("|u1", &shape, (char *)file);
    char *order = memmem(file, LS_NPY_HEADER, "False", 5);
    ck_assert_ptr_nonnull(order);
    if (fortran) memcpy(order, "True ", 5);
    for (size_t i = LS_NPY_HEADER; i < sizeof(file); i++) file[i] = (uint8_t)(i * 7919 >> 3);
    folder_write(name, file, sizeof(file), false);
}

static void write_labels(const char *name) {
    uint8_t file[LS_NPY_HEADER + EXAMPLES];
    const ls_shape shape = LS_SHAPE(EXAMPLES);
    ls_npy_header("|u1", &shape, (char *)file);
    for (int i = 0; i < EXAMPLES; i++) file[LS_NPY_HEADER + i] = (uint8_t)(i % 5);
    folder_write(name, file, sizeof(file), false);
}

enum { MNIST, CIFAR10, DIGITS, FIGURES, ARRAYS, FORTRAN, KINDS };

static ls_dataset *open_kind(int kind, const ls_dataset_options *options) {
    ls_dataset *dataset = NULL;
    folder_clear();
    if (kind == MNIST) idx_write_split("train", EXAMPLES, SIDE, SIDE + 1, false);
    for (int i = 1; kind == CIFAR10 && i <= 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        cifar10_write(name, 5, i, false);
    }
    if (kind >= ARRAYS) write_array("x_train.npy", kind == FORTRAN), write_labels("y_train.npy");
    if (kind == DIGITS)
        assert_ok(ls_dataset_digits(options, &dataset));
    else if (kind == FIGURES)
        assert_ok(ls_dataset_shapes(options, &dataset));
    else
        assert_ok(ls_dataset_open(folder_path(), options, &dataset));
    ck_assert(dataset->source->bytes && ls_shape_count(&dataset->source->shape) <= MOST);
    return dataset;
}

/* Alone; kept; a part; a part of what is kept. Twice: then what is kept is read. */
TEST_EACH(bytes_of_a_source_are_its_floats, 4 * KINDS) {
    static float floats[MOST], stood_for[MOST];
    static uint8_t bytes[MOST];
    const ls_dataset_options options = {.size = sizeof(options),
                                        .limit = EXAMPLES,
                                        .image_height = SIDE,
                                        .image_width = SIDE,
                                        .cache = _i / KINDS % 2,
                                        .validation_split = _i / KINDS / 2 ? 0.25 : 0};
    ls_dataset *dataset = open_kind(_i % KINDS, &options);
    const struct ls_source *source = dataset->source;
    size_t count = (size_t)ls_shape_count(&source->shape);
    for (int64_t turn = 0; turn < 2 * dataset->count; turn++) {
        int64_t i = turn % dataset->count;
        int32_t label = -1, other = -2;
        bool first = turn % 3; /* who comes first */
        if (first) assert_ok(ls_source_bytes(source, i, bytes, LS_LABELS(&label)));
        assert_ok(ls_source_read(source, i, floats, LS_LABELS(&other)));
        if (!first) assert_ok(ls_source_bytes(source, i, bytes, LS_LABELS(&label)));
        ck_assert_int_eq(label, other);
        ls_pixels_to_unit(bytes, count, stood_for);
        ck_assert_mem_eq(floats, stood_for, count * sizeof(float));
    }
    ls_dataset_free(dataset);
}

/* ---- stages ---- */

/* Stages that move, then stages of an element; or, where a table is not to be had, others among them. */
static void draw_stages(struct draw *draw, bool tabled, ls_map *list) {
    const ls_map moves[] = {ls_random_flip(), ls_random_crop(SIDE, SIDE - 1, 1), ls_central_crop(SIDE - 2, SIDE - 3)};
    const ls_map points[] = {ls_rescale(2, -1), ls_normalise(.mean = {0.4F, 0.5F, 0.3F}, .deviation = {0.2F, 3, 0.7F}),
                             ls_rescale(0.3F, 0.01F)};
    const ls_map others[] = {ls_random_brightness(0.3F), ls_random_contrast(0.2F)};
    int count = 0;
    for (size_t i = draw_below(draw, 4); i > 0; i--) list[count++] = moves[draw_below(draw, 2)];
    if (draw_below(draw, 2)) list[count++] = moves[2];
    for (size_t i = draw_below(draw, 3); i > 0; i--) list[count++] = points[draw_below(draw, 3)];
    if (!tabled) list[count++] = others[draw_below(draw, 2)];
    if (!tabled && draw_below(draw, 2)) list[count++] = ls_random_flip();
    list[count] = (ls_map){0};
}

static struct ls_pipeline *open_pipeline(const ls_dataset *dataset, struct ls_read_memory memory) {
    struct ls_pipeline *pipeline = NULL;
    const struct ls_pipeline_config config = {dataset, 2, 0, 2, 0, 1, .memory = memory};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    return pipeline;
}

static void pin(void *context, void *memory, size_t size) {
    (void)memory;
    *(size_t *)context = size;
}

static void unpin(void *context, void *memory) {
    (void)context, (void)memory;
}

/* One replica's rows of a step as they are read, and as they lie. */
static void compare(const ls_dataset *dataset, const struct ls_pipeline *plain, const struct ls_pipeline *other,
                    int local) {
    static float wanted[BATCH * MOST], is[BATCH * MOST];
    int32_t labels[2][BATCH];
    const ls_shape shape = ls_dataset_shape(dataset);
    const struct ls_pixel_table *table = ls_pipeline_table(other);
    size_t count = (size_t)(ls_pipeline_rows(plain, local) * ls_shape_count(&shape));
    const void *found;
    assert_ok(ls_pipeline_read(plain, local, wanted, LS_LABELS(labels[0])));
    assert_ok(ls_pipeline_read(other, local, is, LS_LABELS(labels[1])));
    ck_assert_mem_eq(labels[0], labels[1], (size_t)ls_pipeline_rows(plain, local) * sizeof(int32_t));
    ck_assert_mem_eq(wanted, is, count * sizeof(float));
    assert_ok(ls_pipeline_find(other, 0, local, &found, LS_LABELS(labels[1])));
    if (table)
        ls_pixels_expand(table, found, count, is);
    else
        memcpy(is, found, count * sizeof(float));
    ck_assert_mem_eq(wanted, is, count * sizeof(float));
}

/* A slot of bytes is a quarter as large. */
TEST_EACH(rows_of_bytes_are_rows_of_floats, 40) {
    struct draw draw = draw_from(first_seed() + (uint64_t)_i, 1);
    bool tabled = _i % 4 != 3;
    ls_map list[16];
    size_t pinned = 0;
    draw_stages(&draw, tabled, list);
    ls_dataset_options options = {.size = sizeof(options),
                                  .limit = EXAMPLES,
                                  .image_height = SIDE,
                                  .image_width = SIDE,
                                  .batch_size = BATCH,
                                  .seed = 5,
                                  .cache = draw_once_in(&draw, 2),
                                  .workers = -1,
                                  .maps = list};
    int kind = (int)draw_below(&draw, KINDS);
    ls_dataset *alone = open_kind(kind, &options);
    options.workers = 2;
    ls_dataset *many = open_kind(kind, &options);
    struct ls_pipeline *plain = open_pipeline(alone, (struct ls_read_memory){0});
    struct ls_pipeline *other = open_pipeline(many, (struct ls_read_memory){pin, unpin, &pinned});
    size_t elements = (size_t)(ls_shape_count(&many->shape) * 2 * ls_pipeline_max_rows(other));
    ck_assert_ptr_null(ls_pipeline_table(plain));
    ck_assert_int_eq(ls_pipeline_table(other) != NULL, tabled);
    ck_assert_uint_le(pinned, 3 * (elements * (tabled ? 1 : sizeof(float)) + LS_ALIGNMENT));
    for (int64_t step = 0; step < 2 * ls_pipeline_steps(plain); step++) {
        int64_t epoch = step / ls_pipeline_steps(plain), at = step % ls_pipeline_steps(plain);
        assert_ok(ls_pipeline_seek(plain, epoch, at));
        assert_ok(ls_pipeline_seek(other, epoch, at));
        for (int local = 0; local < 2; local++) compare(many, plain, other, local);
    }
    ls_pipeline_free(plain);
    ls_pipeline_free(other);
    ls_dataset_free(alone);
    ls_dataset_free(many);
}

TESTS("bytes", .begin = folder_make, .end = folder_remove)
