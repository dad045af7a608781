/* Files of weights: Keras' own in all their forms, NumPy's, ours; damaged ones; and from one form to another. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shape.h"
#include "base/memory.h"
#include "data/files.h"
#include "data/fixture.h"
#include "faulty_files.h"
#include "harness.h"
#include "weights/arrays.h"
#include "weights/read.h"

#define FILE_NAME(name) WEIGHTS_GOLDEN "/" name

/* tests/golden/weights.py: in Keras' order; element i of variable k is k + i / 16. */
static const struct {
    const char *name;
    ls_shape shape;
} variables[] = {
    {"Conv1/kernel", {4, {3, 3, 1, 2}}},
    {"bn_Conv1/gamma", {1, {2}}},
    {"bn_Conv1/beta", {1, {2}}},
    {"bn_Conv1/moving_mean", {1, {2}}},
    {"bn_Conv1/moving_variance", {1, {2}}},
    {"depthwise_conv2d/kernel", {4, {3, 3, 2, 1}}},
    {"depthwise_conv2d/bias", {1, {2}}},
    {"batch_normalization/gamma", {1, {2}}},
    {"batch_normalization/beta", {1, {2}}},
    {"batch_normalization/moving_mean", {1, {2}}},
    {"batch_normalization/moving_variance", {1, {2}}},
    {"dense/kernel", {2, {8, 3}}},
    {"dense/bias", {1, {3}}},
    {"predictions/kernel", {2, {3, 2}}},
    {"predictions/bias", {1, {2}}},
};
#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

static void check_variable(const struct ls_weights *weights, size_t k, const char *name) {
    const struct ls_weight *weight = ls_weights_find(weights, name);
    ck_assert_msg(weight != NULL, "no '%s'", name);
    ck_assert(ls_shape_equal(&weight->shape, &variables[k].shape));
    for (int64_t i = 0; i < ls_shape_count(&weight->shape); i++) {
        float value;
        memcpy(&value, weight->values + (size_t)i * sizeof(value), sizeof(value));
        ck_assert_msg(value == (float)k + (float)i / 16, "%s[%d] = %g", name, (int)i, (double)value);
    }
}

static void check_all(const struct ls_weights *weights, bool keras2) {
    ck_assert_uint_eq(weights->count, VARIABLES);
    for (size_t k = 0; k < VARIABLES; k++) {
        bool renamed = keras2 && !strcmp(variables[k].name, "depthwise_conv2d/kernel");
        check_variable(weights, k, renamed ? "depthwise_conv2d/depthwise_kernel" : variables[k].name);
    }
}

static const char *const whole[] = {FILE_NAME("keras3.h5"),        FILE_NAME("keras2.h5"),   FILE_NAME("whole.h5"),
                                    FILE_NAME("named.weights.h5"), FILE_NAME("whole.keras"), FILE_NAME("weights.npz")};
enum { WHOLE = sizeof(whole) / sizeof(whole[0]) };

TEST_EACH(every_form_is_read, WHOLE) {
    struct ls_weights weights;
    assert_ok(ls_weights_read(whole[_i], &weights));
    check_all(&weights, strstr(whole[_i], "keras2"));
    ck_assert_ptr_null(ls_weights_find(&weights, "dense/gamma"));
    ls_weights_free(&weights);
}

/* Their file numbers the variables, so the names follow from the layers' classes. */
TEST(normalizations_of_positions_have_names) {
    static const char *const names[] = {"layer_normalization/gamma",
                                        "layer_normalization/beta",
                                        "rms/scale",
                                        "rms_normalization/scale",
                                        "last/gamma",
                                        "last/beta"};
    struct ls_weights weights;
    assert_ok(ls_weights_read(FILE_NAME("norms.weights.h5"), &weights));
    ck_assert_uint_eq(weights.count, sizeof(names) / sizeof(names[0]));
    for (size_t k = 0; k < weights.count; k++) {
        const struct ls_weight *weight = ls_weights_find(&weights, names[k]);
        float values[3];
        ck_assert_msg(weight != NULL, "no '%s'", names[k]);
        ck_assert(ls_shape_equal(&weight->shape, &LS_SHAPE(3)));
        memcpy(values, weight->values, sizeof(values));
        for (int i = 0; i < 3; i++) ck_assert(values[i] == (float)k + (float)i / 16);
    }
    ls_weights_free(&weights);
}

/* A cell's variables have the name of the layer around it. */
TEST_EACH(layers_over_sequences_have_names, 2) {
    static const struct {
        const char *name;
        ls_shape shape;
    } wanted[] = {
        {"embedding/embeddings", {2, {5, 4}}}, {"conv1d/kernel", {3, {2, 4, 4}}},       {"conv1d/bias", {1, {4}}},
        {"lstm/kernel", {2, {4, 12}}},         {"lstm/recurrent_kernel", {2, {3, 12}}}, {"lstm/bias", {1, {12}}},
        {"mine/kernel", {2, {3, 6}}},          {"mine/recurrent_kernel", {2, {2, 6}}},  {"mine/bias", {2, {2, 6}}},
        {"lstm_1/kernel", {2, {2, 8}}},        {"lstm_1/recurrent_kernel", {2, {2, 8}}}};
    struct ls_weights weights;
    assert_ok(ls_weights_read(_i ? FILE_NAME("sequences.h5") : FILE_NAME("sequences.weights.h5"), &weights));
    ck_assert_uint_eq(weights.count, sizeof(wanted) / sizeof(wanted[0]));
    for (size_t k = 0; k < weights.count; k++) {
        const struct ls_weight *weight = ls_weights_find(&weights, wanted[k].name);
        ck_assert_msg(weight != NULL, "no '%s'", wanted[k].name);
        ck_assert(ls_shape_equal(&weight->shape, &wanted[k].shape));
        for (int64_t i = 0; i < ls_shape_count(&weight->shape); i++) {
            float value;
            memcpy(&value, weight->values + (size_t)i * sizeof(value), sizeof(value));
            ck_assert(value == (float)k + (float)i / 16);
        }
    }
    ls_weights_free(&weights);
}

/* What Keras wrote, as safetensors, as npz and as safetensors again: the same bytes at both ends. */
TEST_EACH(a_file_converts_there_and_back, WHOLE) {
    struct ls_weights weights;
    uint8_t *first, *last;
    size_t first_size, last_size;
    char paths[3][600];
    static const char *const names[] = {"a.safetensors", "b.npz", "c.safetensors"};
    const char *from = whole[_i];
    folder_clear();
    for (int i = 0; i < 3; i++, from = paths[i - 1]) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder_path(), names[i]);
        assert_ok(ls_weights_read(from, &weights));
        assert_ok(ls_weights_arrays_write(paths[i], &weights));
        ls_weights_free(&weights);
    }
    assert_ok(ls_file_read(paths[0], &first, &first_size));
    assert_ok(ls_file_read(paths[2], &last, &last_size));
    ck_assert(first_size == last_size && !memcmp(first, last, first_size));
    assert_ok(ls_weights_read_bytes("first", first, first_size, &weights));
    check_all(&weights, strstr(whole[_i], "keras2"));
    ls_weights_free(&weights);
    ls_free(last);
}

TEST(bad_files_are_refused) {
    static const struct {
        const char *path;
        ls_status status;
        const char *says;
    } bad[] = {
        {FILE_NAME("missing.h5"), LS_NOT_FOUND, "missing.h5"},
        {FILE_NAME("latest.h5"), LS_UNIMPLEMENTED, "libver='latest'"},
        {FILE_NAME("unnamed.weights.h5"), LS_INVALID_ARGUMENT, "does not say which layer 'batch_normalization' is"},
        {FILE_NAME("../weights.py"), LS_INVALID_ARGUMENT, "is no file of weights"},
    };
    struct ls_weights weights = {0};
    char full[600];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_fails(ls_weights_read(bad[i].path, &weights), bad[i].status, bad[i].says);
    ck_assert_ptr_null(weights.items);
    assert_ok(ls_weights_read(whole[0], &weights));
    assert_refused(ls_weights_arrays_write("/tmp/weights.h5", &weights), "neither .safetensors nor .npz");
    assert_fails(ls_weights_arrays_write("/nowhere/a.npz", &weights), LS_NOT_FOUND, "cannot write '/nowhere/a.npz'");
    folder_clear();
    (void)snprintf(full, sizeof(full), "%s/full.npz", folder_path());
    ck_assert_int_eq(symlink("/dev/full", full), 0);
    assert_fails(ls_weights_arrays_write(full, &weights), LS_RESOURCE_EXHAUSTED, "full.npz': No space left");
    ls_weights_free(&weights);
}

/* An array that is not read is left to who wants it. */
TEST(arrays_that_are_not_read_are_named) {
    static const struct {
        const char *path, *says;
    } others[] = {{FILE_NAME("chunks.h5"), "is in chunks, as compressed ones are"},
                  {FILE_NAME("double.h5"), "is of another type than little-endian float32"}};
    for (size_t i = 0; i < 2; i++) {
        struct ls_weights weights;
        assert_ok(ls_weights_read(others[i].path, &weights));
        assert_fails(ls_weights_arrays_write("/tmp/weights.npz", &weights), LS_UNIMPLEMENTED, others[i].says);
        ls_weights_free(&weights);
    }
}

TEST(an_error_of_reading_is_no_damage) {
    struct ls_weights weights;
    int failures = 0;
    for (long k = 1;; k++, failures++) {
        faulty_files_begin(k, EIO);
        ls_status status = ls_weights_read(whole[0], &weights);
        bool reached = faulty_files_end();
        if (!status) ls_weights_free(&weights);
        if (!reached) break;
        ck_assert_msg(status == LS_UNKNOWN && strstr(ls_error(), whole[0]), "call %ld: %s", k, ls_error());
    }
    ck_assert_int_ge(failures, 3);
}

static ls_status parse_copy(const uint8_t *bytes, size_t size, struct ls_weights *weights) {
    uint8_t *copy = ls_alloc(size);
    ck_assert_ptr_nonnull(copy);
    if (size) memcpy(copy, bytes, size);
    return ls_weights_read_bytes("a.h5", copy, size, weights);
}

/* No truncation is taken for whole, but where only free space is missing; no changed byte is a crash. */
TEST_EACH(damage_is_found, WHOLE) {
    uint8_t *bytes;
    size_t size, truncated = 0, changed = 0;
    struct ls_weights weights;
    assert_ok(ls_file_read(whole[_i], &bytes, &size));
    for (size_t at = 0; at < size; at += 1 + at / 512) {
        ls_status status = parse_copy(bytes, at, &weights);
        truncated += status != LS_OK;
        if (!status) check_all(&weights, strstr(whole[_i], "keras2"));
        if (!status) ls_weights_free(&weights);
        bytes[at] ^= 0x2B;
        status = parse_copy(bytes, size, &weights);
        bytes[at] ^= 0x2B;
        changed += status != LS_OK;
        if (!status) ls_weights_free(&weights);
    }
    ck_assert_uint_gt(truncated, 500);
    ck_assert_uint_gt(changed, 50);
    ls_free(bytes);
}

TESTS("files", .seconds = 60, .begin = folder_make, .end = folder_remove)
