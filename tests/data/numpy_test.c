/* .npy and .npz: NumPy's own, and damaged ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/files.h"
#include "base/half.h"
#include "data/fixture.h"
#include "data/npy.h"
#include "data/zip.h"
#include "harness.h"

static void check_golden(const ls_dataset *dataset) {
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        float features[12];
        int32_t label;
        assert_ok(ls_source_read(dataset->source, i, features, LS_LABELS(&label)));
        ck_assert_int_eq(label, i % 3);
        for (int p = 0; p < 12; p++) ck_assert(features[p] == (float)((40 * i + 7 * p) % 256) / 255.0F);
    }
}

TEST(files_of_numpy_are_read) {
    ls_dataset *dataset = NULL;
    ls_shape shape = LS_SHAPE(4, 3, 1);
    assert_ok(ls_dataset_open(FILES_GOLDEN "/stored.npz", NULL, &dataset));
    ls_shape got = ls_dataset_shape(dataset);
    ck_assert(ls_dataset_count(dataset) == 5 && ls_dataset_num_classes(dataset) == 3 && dataset->source->bytes);
    ck_assert_mem_eq(&got, &shape, sizeof(shape));
    check_golden(dataset);
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_numpy(FILES_GOLDEN "/stored.npz", LS_DATASET(.split = LS_TEST), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 2);
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_numpy(FILES_GOLDEN "/packed.npz", NULL, &dataset));
    got = ls_dataset_shape(dataset);
    ck_assert(!dataset->source->bytes);
    ck_assert_mem_eq(&got, &shape, sizeof(shape));
    check_golden(dataset);
    ls_dataset_free(dataset);
    assert_fails(ls_dataset_numpy(FILES_GOLDEN "/packed.npz", LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "holds no file 'x_test.npy'");
}

static ls_status parse(const char *header, size_t data, struct ls_npy *npy) {
    uint8_t bytes[512] = "\x93NUMPY\x01";
    size_t length = strlen(header);
    bytes[8] = (uint8_t)length;
    memcpy(bytes + 10, header, length);
    return ls_npy_parse("a.npy", bytes, 10 + length + data, npy);
}

TEST(types_are_parsed_or_refused) {
    struct ls_npy npy = {.item = -1};
    assert_ok(parse("{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }", 12, &npy));
    ck_assert(npy.kind == 'i' && npy.item == 2 && npy.count == 6 && npy.shape.rank == 2 && npy.shape.dims[0] == 3);
    assert_ok(parse("{'shape': (), 'descr': '|b1', 'fortran_order': True}", 1, &npy));
    ck_assert(npy.count == 1 && npy.shape.rank == 0);
    assert_ok(parse("{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}", 0, &npy));
    ck_assert_int_eq(npy.count, 0);
    npy.item = -1;
    static const struct {
        const char *header;
        size_t data;
        ls_status status;
        const char *says;
    } bad[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, LS_UNIMPLEMENTED,
         "elements of type '|O': integers"},
        {"{'descr': '<U10', 'fortran_order': False, 'shape': (1,)}", 40, LS_UNIMPLEMENTED, "type '<U10': integers"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, LS_UNIMPLEMENTED,
         "elements of type '<c8': integers"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, LS_DATA_LOSS, "a bad shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9,9,9,9,9,9,9,9,9)}", 4, LS_UNIMPLEMENTED,
         "more than 8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 9000000000)}", 4, LS_DATA_LOSS, "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8, LS_DATA_LOSS, "a bad shape"},
        {"{'descr': '<f4', 'shape': (2,)}", 8, LS_DATA_LOSS, "has no fortran_order"},
        {"{'fortran_order': False, 'shape': (2,)}", 8, LS_DATA_LOSS, "has no descr"},
        {"{'descr': '<f4', 'fortran_order': False}", 8, LS_DATA_LOSS, "has no shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, LS_DATA_LOSS, "is truncated: 2 elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9, LS_DATA_LOSS, "longer than its header says"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_fails(parse(bad[i].header, bad[i].data, &npy), bad[i].status, bad[i].says);
    ck_assert_int_eq(npy.item, -1);
}

/* The bytes of one element of that type, the last one first where the machine would have it so. */
static void put_element(const char *type, double value, uint8_t *at) {
    int item = type[2] - '0';
    float single = (float)value;
    uint16_t half = ls_half_from_float(single);
    int64_t whole = (int64_t)value;
    const void *from = type[1] != 'f' ? (void *)&whole
                       : item == 2    ? (void *)&half
                       : item == 4    ? (void *)&single
                                      : &value;
    memcpy(at, from, (size_t)item);
    for (int i = 0; *type == '>' && i < item / 2; i++) {
        uint8_t other = at[i];
        at[i] = at[item - 1 - i];
        at[item - 1 - i] = other;
    }
}

/* Each type, in either order of bytes and of axes, Python 2's header too: the same numbers, row by row. */
TEST(all_orders_are_read_row_by_row) {
    static const char *const types[] = {"<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<i2", ">i4", "<i8", ">i8", "|i1"};
    enum { A = 2, B = 3, C = 4 };
    for (size_t t = 0; t < 2 * sizeof(types) / sizeof(types[0]); t++) {
        const char *type = types[t / 2];
        bool fortran = t % 2;
        int item = type[2] - '0';
        uint8_t bytes[700] = "\x93NUMPY\x01";
        struct ls_npy npy;
        float values[A * B * C];
        int length = snprintf((char *)bytes + 10, 200, "{'descr': '%s', 'fortran_order': %s, 'shape': (%dL, 3, 4L), }",
                              type, fortran ? "True" : "False", A);
        bytes[8] = (uint8_t)length;
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++)
                for (int c = 0; c < C; c++)
                    put_element(type, 100 * a + 10 * b - c,
                                bytes + 10 + length + (fortran ? a + A * (b + B * c) : c + C * (b + B * a)) * item);
        assert_ok(ls_npy_parse(type, bytes, (size_t)(10 + length + A * B * C * item), &npy));
        ls_npy_floats(&npy, 0, A * B * C, false, values);
        for (int i = 0; i < A * B * C; i++) {
            int wanted = 100 * (i / (B * C)) + 10 * (i / C % B) - i % C;
            ck_assert_msg((int)values[i] == wanted && ls_npy_integer(&npy, i) == wanted, "%s %d: %g", type, i,
                          (double)values[i]);
        }
    }
}

TEST(values_are_converted) {
    static const int16_t numbers[] = {-2, 300};
    static const double doubles[] = {0.25, -1e10};
    static const uint8_t bytes[] = {0, 255};
    float values[2];
    struct ls_npy npy = {'i', 2, LS_SHAPE(2), 2, (const uint8_t *)numbers};
    ls_npy_floats(&npy, 0, 2, true, values);
    ck_assert(values[0] == -2 && values[1] == 300 && ls_npy_integer(&npy, 0) == -2);
    npy = (struct ls_npy){'f', 8, LS_SHAPE(2), 2, (const uint8_t *)doubles};
    ls_npy_floats(&npy, 0, 2, true, values);
    ck_assert(values[0] == 0.25F && values[1] == -1e10F);
    npy = (struct ls_npy){'u', 1, LS_SHAPE(2), 2, bytes};
    ls_npy_floats(&npy, 1, 1, true, values);
    ck_assert(values[0] == 1);
    ls_npy_floats(&npy, 1, 1, false, values);
    ck_assert(values[0] == 255);
}

/* Every change of a byte of the archive that could matter is an error; none is a crash. */
TEST_EACH(a_damaged_archive_is_found, 2) {
    static const char *const archives[] = {FILES_GOLDEN "/stored.npz", FILES_GOLDEN "/packed.npz"};
    uint8_t *bytes, *right;
    size_t size, length;
    int found = 0;
    assert_ok(ls_file_read(archives[_i], &bytes, &size));
    assert_ok(ls_zip_read(&(struct ls_zip){"a.npz", bytes, size}, "x_train.npy", &right, &length));
    for (size_t at = 0; at < size; at++) {
        uint8_t *output = NULL;
        size_t got;
        bytes[at] ^= 0x11;
        ls_status status = ls_zip_read(&(struct ls_zip){"a.npz", bytes, size}, "x_train.npy", &output, &got);
        bytes[at] ^= 0x11;
        found += status != LS_OK;
        if (!status) ck_assert(got == length && !memcmp(output, right, length));
        if (status) ck_assert_ptr_null(output);
        ls_free(output);
        uint8_t *part = malloc(at ? at : 1);
        memcpy(part, bytes, at);
        ck_assert_int_eq(ls_zip_read(&(struct ls_zip){"a.npz", part, at}, "x_train.npy", &output, &got), LS_DATA_LOSS);
        free(part);
    }
    ck_assert_int_ge(found, 150);
    ls_free(right);
    ls_free(bytes);
}

TEST(wrong_arrays_are_refused) {
    ls_dataset *dataset = NULL;
    char header[LS_NPY_HEADER + 16] = {0};
    folder_clear();
    ls_npy_header("<f4", &LS_SHAPE(2, 2), header);
    folder_write("x_train.npy", header, LS_NPY_HEADER + 16, false);
    assert_fails(ls_dataset_open(folder_path(), NULL, &dataset), LS_NOT_FOUND, "y_train.npy");
    ls_npy_header("<f4", &LS_SHAPE(2), header);
    folder_write("y_train.npy", header, LS_NPY_HEADER + 8, false);
    assert_ok(ls_dataset_open(folder_path(), NULL, &dataset)); /* a regression */
    ls_dataset_free(ls_steal(dataset));
    ls_npy_header("|u1", &LS_SHAPE(3), header);
    folder_write("y_train.npy", header, LS_NPY_HEADER + 3, false);
    assert_refused(ls_dataset_open(folder_path(), NULL, &dataset), "y_train has shape (3), x_train has 2 examples");
    ls_npy_header("|i1", &LS_SHAPE(2), header);
    header[LS_NPY_HEADER] = -1;
    folder_write("y_train.npy", header, LS_NPY_HEADER + 2, false);
    assert_refused(ls_dataset_open(folder_path(), NULL, &dataset), "label -1 of example 0");
    assert_refused(ls_dataset_open(folder_path(), NULL, &dataset), "for a regression save it as float32");
    ck_assert_ptr_null(dataset);
}

static ls_dataset *make_ids(int32_t *ids, int32_t *labels, const ls_dataset_options *options) {
    ls_dataset *dataset = NULL;
    for (int i = 0; i < 6; i++) ids[i] = (1 << 24) + i; /* as floats some would be equal */
    for (int i = 0; i < 3; i++) labels[i] = i;
    assert_ok(ls_dataset_from_arrays(
        LS_ARRAYS(.count = 3, .ids = ids, .shape = LS_SHAPE(2), .labels = labels, .classes = 3), options, &dataset));
    return dataset;
}

/* As NumPy writes int64, too. */
TEST_EACH(integers_stay_integers, 2) {
    int32_t ids[6], labels[3], found[2], label;
    ls_dataset *made = make_ids(ids, labels, LS_DATASET(.cache = true)), *dataset = NULL;
    const ls_file_format format = _i ? LS_FORMAT_NPZ : LS_FORMAT_NPY;
    char path[4096];
    folder_clear();
    (void)snprintf(path, sizeof(path), "%s/written", folder_path());
    assert_ok(ls_dataset_write(made, format, path, NULL));
    assert_fails(ls_dataset_write(made, LS_FORMAT_TFRECORD, path, NULL), LS_UNIMPLEMENTED,
                 "the arrays dataset's examples are integers");
    assert_ok(ls_dataset_numpy(path, LS_DATASET(.ids = true), &dataset));
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(ls_source_read(dataset->source, i, (float *)(void *)found, LS_LABELS(&label)));
        ck_assert(found[0] == ids[2 * i] && found[1] == ids[2 * i + 1] && label == i);
    }
    ls_dataset_free(ls_steal(dataset));
    assert_ok(ls_dataset_numpy(path, NULL, &dataset));
    ck_assert(!dataset->source->integers);
    ls_dataset_free(dataset);
    ls_dataset_free(made);
}

TEST(what_holds_no_ids_is_refused) {
    const ls_map maps[] = {ls_rescale(2, 0), {.kind = (ls_map_kind)0}};
    const int64_t wide[] = {1, INT64_C(1) << 32};
    const uint8_t classes[] = {0, 0};
    int32_t ids[6], labels[3];
    const ls_arrays arrays = {
        .size = sizeof(arrays), .count = 3, .ids = ids, .shape = LS_SHAPE(2), .labels = labels, .classes = 3};
    char header[LS_NPY_HEADER + sizeof(wide)] = {0};
    ls_dataset *dataset = NULL;
    folder_clear();
    ls_dataset_free(make_ids(ids, labels, NULL));
    assert_refused(ls_dataset_from_arrays(&arrays, LS_DATASET(.maps = maps), &dataset), "maps are of floats");
    assert_refused(ls_dataset_digits(LS_DATASET(.ids = true), &dataset), "ids is set");
    ls_npy_header("|u1", &LS_SHAPE(2), header);
    memcpy(header + LS_NPY_HEADER, classes, sizeof(classes));
    folder_write("y_train.npy", header, LS_NPY_HEADER + sizeof(classes), false);
    ls_npy_header("<i8", &LS_SHAPE(2, 1), header);
    memcpy(header + LS_NPY_HEADER, wide, sizeof(wide));
    folder_write("x_train.npy", header, sizeof(header), false);
    assert_fails(ls_dataset_numpy(folder_path(), LS_DATASET(.ids = true), &dataset), LS_DATA_LOSS,
                 "id 4294967296 of example 1 in x_train is no int32");
    ls_npy_header("<f8", &LS_SHAPE(2, 1), header);
    folder_write("x_train.npy", header, sizeof(header), false);
    assert_refused(ls_dataset_numpy(folder_path(), LS_DATASET(.ids = true), &dataset), "x_train holds floats");
    ck_assert_ptr_null(dataset);
}

TESTS("numpy", .begin = folder_make, .end = folder_remove)
