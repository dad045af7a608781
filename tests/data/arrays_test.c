/* In-memory arrays, and the checks of options that all kinds share. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "harness.h"

static const float features[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const int32_t labels[] = {0, 2, 1};

static ls_status make(const ls_dataset_options *options, ls_dataset **dataset) {
    return ls_dataset_arrays(features, LS_SHAPE(2, 2), labels, 3, 3, options, dataset);
}

TEST(arrays_are_read) {
    ls_dataset *dataset;
    assert_ok(make(NULL, &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 3);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 3);
    ls_shape shape = ls_dataset_shape(dataset);
    ck_assert(shape.rank == 2 && shape.dims[0] == 2 && shape.dims[1] == 2);
    for (int64_t i = 0; i < 3; i++) {
        float example[4];
        int32_t label;
        assert_ok(ls_source_read(dataset->source, i, example, LS_LABELS(&label)));
        ck_assert_mem_eq(example, features + 4 * i, sizeof(example));
        ck_assert_int_eq(label, labels[i]);
    }
    ls_dataset_free(dataset);
    ls_dataset_free(NULL);
}

TEST(defaults_are_filled) {
    ls_dataset *dataset;
    assert_ok(make(NULL, &dataset));
    ck_assert_int_eq(dataset->options.batch_size, 32);
    ck_assert_int_eq(dataset->options.repeat, 1);
    ls_dataset_free(dataset);
    assert_ok(make(LS_DATASET(.limit = 2, .batch_size = 5), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 2);
    ck_assert_int_eq(dataset->options.batch_size, 5);
    ls_dataset_free(dataset);
    assert_ok(make(LS_DATASET(.limit = 4), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 3);
    ls_dataset_free(dataset);
}

TEST(bad_options_are_refused) {
    ls_dataset *dataset = NULL;
    assert_refused(make(LS_DATASET(.batch_size = -1), &dataset), "batch_size is -1");
    assert_refused(make(LS_DATASET(.batch_size = INT64_MAX), &dataset), "batch_size is 9223");
    assert_refused(make(LS_DATASET(.repeat = -2), &dataset), "repeat is -2");
    assert_refused(make(LS_DATASET(.repeat = INT64_C(1) << 47), &dataset), "an epoch has more");
    assert_refused(make(LS_DATASET(.limit = -3), &dataset), "limit is -3");
    assert_refused(make(LS_DATASET(.split = 3), &dataset), "split is 3");
    assert_refused(make(LS_DATASET(.shuffle = 3), &dataset), "shuffle is 3");
    assert_refused(make(LS_DATASET(.division = 2), &dataset), "division is 2");
    assert_refused(make(LS_DATASET(.auto_shard = 4), &dataset), "auto_shard is 4");
    assert_refused(make(&(ls_dataset_options){.batch_size = 4}, &dataset), "ls_dataset_options.size");
    ck_assert_ptr_null(dataset);
}

TEST(bad_arguments_are_refused) {
    ls_dataset *dataset = NULL;
    const ls_shape pair = LS_SHAPE(2, 2);
    assert_refused(ls_dataset_arrays(NULL, pair, labels, 3, 3, NULL, &dataset), "features is NULL");
    assert_refused(ls_dataset_arrays(features, pair, NULL, 3, 3, NULL, &dataset), "labels is NULL");
    assert_refused(ls_dataset_arrays(features, pair, labels, 0, 3, NULL, &dataset), "count 0");
    assert_refused(ls_dataset_arrays(features, pair, labels, -1, 3, NULL, &dataset), "count -1");
    assert_refused(ls_dataset_arrays(features, pair, labels, 3, 0, NULL, &dataset), "classes 0");
    assert_refused(ls_dataset_arrays(features, pair, labels, 3, 2, NULL, &dataset),
                   "label 2 of example 1 is outside [0, 2)");
    assert_refused(ls_dataset_arrays(features, LS_SHAPE(2, 0), labels, 3, 3, NULL, &dataset), "shape (2, 0)");
    assert_refused(ls_dataset_arrays(features, LS_SHAPE(INT64_MAX), labels, 3, 3, NULL, &dataset), "do not fit");
    assert_refused(ls_dataset_arrays(features, (ls_shape){.rank = 9}, labels, 3, 3, NULL, &dataset), "rank 0 to 8");
    ck_assert_ptr_null(dataset);
}

static char *describe(const ls_dataset *dataset) {
    char *lines;
    assert_ok(ls_dataset_describe(dataset, &lines));
    return lines;
}

TEST(every_option_is_described) {
    const ls_dataset_options all = {.size = sizeof(all), .batch_size = 6, .seed = 5, .repeat = 2};
    ls_dataset_options changed[9];
    for (int i = 0; i < 9; i++) changed[i] = all;
    changed[0].batch_size = 7;
    changed[1].seed = 6;
    changed[2].repeat = 3;
    changed[3].drop_remainder = true;
    changed[4].division = LS_DIVIDE_TENSORFLOW;
    changed[5].auto_shard = LS_SHARD_OFF;
    changed[6].limit = 2;
    changed[7].shuffle = LS_SHUFFLE_ONCE;
    changed[8].split = LS_TEST;
    ls_dataset *dataset = numbers_make(10, &all);
    char *lines = describe(dataset);
    ck_assert_ptr_nonnull(strstr(lines, "examples=10\nshape=(1)\nclasses=7\n"));
    ck_assert_ptr_nonnull(strstr(lines, "batch_size=6\n"));
    for (int i = 0; i < 9; i++) {
        ls_dataset *other = numbers_make(10, &changed[i]);
        char *other_lines = describe(other);
        ck_assert_str_ne(lines, other_lines);
        ls_free(other_lines);
        ls_dataset_free(other);
    }
    ls_free(lines);
    ls_dataset_free(dataset);
}

/* Workers whose files differ are found, except where each may bring its own. */
TEST(contents_are_described) {
    const int32_t other_labels[] = {0, 2, 2};
    for (int own = 0; own < 2; own++) {
        const ls_dataset_options *options =
            own ? LS_DATASET(.division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_OFF) : NULL;
        ls_dataset *one, *other;
        assert_ok(make(options, &one));
        assert_ok(ls_dataset_arrays(features, LS_SHAPE(2, 2), other_labels, 3, 3, options, &other));
        char *one_lines = describe(one), *other_lines = describe(other);
        ck_assert_int_eq(strcmp(one_lines, other_lines) == 0, own);
        ls_free(one_lines);
        ls_free(other_lines);
        ls_dataset_free(one);
        ls_dataset_free(other);
    }
}

static void assert_described_unlike(ls_dataset *one, ls_dataset *other) {
    char *one_lines = describe(one), *other_lines = describe(other);
    ck_assert_str_ne(one_lines, other_lines);
    ls_free(one_lines);
    ls_free(other_lines);
    ls_dataset_free(one);
    ls_dataset_free(other);
}

/* One label of many, whichever. */
TEST_EACH(one_changed_label_is_found, 7) {
    static int32_t same[3000], unlike[3000];
    static float values[3000];
    ls_dataset *one, *other;
    unlike[371 * (_i + 1)] = 1;
    assert_ok(ls_dataset_arrays(values, LS_SHAPE(1), same, 3000, 2, NULL, &one));
    assert_ok(ls_dataset_arrays(values, LS_SHAPE(1), unlike, 3000, 2, NULL, &other));
    assert_described_unlike(one, other);
}

static ls_status copy(void *context, const ls_map_call *call) {
    (void)context;
    *call->output = *call->input;
    return LS_OK;
}

/* All stages are told of, however many, and a function by its name. */
TEST(every_stage_is_described) {
    ls_map one[62] = {{0}}, other[62] = {{0}};
    for (int i = 0; i < 60; i++) one[i] = other[i] = (ls_map)ls_rescale(1.2345678F + (float)i, 8.7654321F);
    other[59].amount += 0.5F;
    assert_described_unlike(numbers_make(10, LS_DATASET(.maps = one)), numbers_make(10, LS_DATASET(.maps = other)));
    assert_described_unlike(numbers_make(10, LS_DATASET(.maps = LS_MAPS(ls_map_function(copy, NULL, .name = "warm")))),
                            numbers_make(10, LS_DATASET(.maps = LS_MAPS(ls_map_function(copy, NULL, .name = "cold")))));
}

TESTS("arrays")
