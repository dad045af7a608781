/* MNIST folders: the names that are recognised, what is read, and what is wrong. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "harness.h"

static void check_example(const ls_dataset *dataset, int64_t index, int pixels) {
    float features[64];
    int32_t label;
    assert_ok(ls_source_read(dataset->source, index, features, LS_LABELS(&label)));
    ck_assert_int_eq(label, index % 10);
    for (int i = 0; i < pixels; i++) require(features[i] == (float)((index * pixels + i) % 256) / 255.0F);
}

TEST_EACH(both_splits_are_read, 2) {
    bool gzipped = _i;
    ls_dataset *dataset;
    folder_clear();
    idx_write_split("train", 50, 4, 5, gzipped);
    idx_write_split("t10k", 20, 4, 5, gzipped);
    assert_ok(ls_dataset_mnist(folder_path(), NULL, &dataset));
    ls_shape shape = ls_dataset_shape(dataset);
    ck_assert(shape.rank == 3 && shape.dims[0] == 4 && shape.dims[1] == 5 && shape.dims[2] == 1);
    ck_assert_int_eq(ls_dataset_count(dataset), 50);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 10);
    for (int64_t i = 0; i < 50; i++) check_example(dataset, i, 20);
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_mnist(folder_path(), LS_DATASET(.split = LS_TEST, .limit = 7), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 7);
    ls_dataset_free(dataset);
}

/* As some archives unpack them. */
TEST(dotted_names_are_found) {
    size_t size;
    ls_dataset *dataset;
    folder_clear();
    uint8_t *images = idx_make(3, (uint32_t[]){3, 2, 2}, NULL, 256, &size);
    folder_write("train-images.idx3-ubyte", images, size, false);
    uint8_t *labels = idx_make(1, (uint32_t[]){3}, (uint8_t[]){0, 46, 1}, 0, &size);
    folder_write("train-labels.idx1-ubyte.gz", labels, size, true);
    assert_ok(ls_dataset_mnist(folder_path(), NULL, &dataset));
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 47);
    ls_dataset_free(dataset);
    ls_free(images);
    ls_free(labels);
}

static void rename_inside(const char *from, const char *to) {
    char old[300], new[300];
    (void)snprintf(old, sizeof(old), "%s/%s", folder_path(), from);
    (void)snprintf(new, sizeof(new), "%s/%s", folder_path(), to);
    ck_assert_int_eq(rename(old, new), 0);
}

/* EMNIST's archives call their sets so, and their test split "test". Two sets in a folder are none. */
TEST(names_may_begin_with_the_set) {
    ls_dataset *dataset = NULL;
    folder_clear();
    idx_write_split("train", 5, 2, 2, true);
    idx_write_split("test", 4, 2, 2, false);
    rename_inside("train-images-idx3-ubyte.gz", "emnist-letters-train-images-idx3-ubyte.gz");
    rename_inside("train-labels-idx1-ubyte.gz", "emnist-letters-train-labels-idx1-ubyte.gz");
    rename_inside("test-images-idx3-ubyte", "emnist-letters-test-images-idx3-ubyte");
    rename_inside("test-labels-idx1-ubyte", "emnist-letters-test-labels-idx1-ubyte");
    for (int test = 0; test < 2; test++) {
        assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.split = test ? LS_TEST : LS_TRAIN), &dataset));
        ck_assert_int_eq(ls_dataset_count(dataset), test ? 4 : 5);
        check_example(dataset, 3, 4);
        ls_dataset_free(dataset);
    }
    idx_write_split("train", 5, 2, 2, true);
    rename_inside("train-images-idx3-ubyte.gz", "emnist-digits-train-images-idx3-ubyte.gz");
    dataset = NULL;
    assert_refused(ls_dataset_mnist(folder_path(), NULL, &dataset), "keep each set in a folder");
}

TEST(missing_files_are_named) {
    ls_dataset *dataset = NULL;
    folder_clear();
    assert_refused(ls_dataset_mnist(NULL, NULL, &dataset), "no folder");
    assert_refused(ls_dataset_mnist("", NULL, &dataset), "no folder");
    assert_fails(ls_dataset_mnist("/no/such/folder", NULL, &dataset), LS_NOT_FOUND, "'/no/such/folder': No such file");
    assert_fails(ls_dataset_mnist(folder_path(), NULL, &dataset), LS_NOT_FOUND, "no file train-images-idx3-ubyte");
    idx_write_split("train", 5, 2, 2, false);
    assert_fails(ls_dataset_mnist(folder_path(), LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "no file t10k-images-idx3-ubyte");
    ck_assert_ptr_null(dataset);
}

TEST(files_that_disagree_are_refused) {
    ls_dataset *dataset = NULL;
    size_t size;
    folder_clear();
    idx_write_split("train", 5, 2, 2, false);
    uint8_t *labels = idx_make(1, (uint32_t[]){4}, NULL, 10, &size);
    folder_write("train-labels-idx1-ubyte", labels, size, false);
    assert_fails(ls_dataset_mnist(folder_path(), NULL, &dataset), LS_DATA_LOSS, "5 train images but 4 labels");
    ls_free(labels);
    uint8_t *square = idx_make(2, (uint32_t[]){5, 1}, NULL, 10, &size);
    folder_write("train-labels-idx1-ubyte", square, size, false);
    assert_fails(ls_dataset_mnist(folder_path(), NULL, &dataset), LS_DATA_LOSS,
                 "rank 2 at offset 3; labels have rank 1");
    folder_write("train-images-idx3-ubyte", square, size, false);
    assert_fails(ls_dataset_mnist(folder_path(), NULL, &dataset), LS_DATA_LOSS, "images have rank 3");
    ls_free(square);
    ck_assert_ptr_null(dataset);
}

TEST(a_truncated_file_is_named) {
    ls_dataset *dataset = NULL;
    folder_clear();
    idx_write_split("train", 5, 2, 2, false);
    folder_truncate("train-images-idx3-ubyte", 35);
    assert_fails(
        ls_dataset_mnist(folder_path(), NULL, &dataset), LS_DATA_LOSS,
        "train-images-idx3-ubyte' is truncated: its header and data needs 36 bytes, the data ends at offset 35");
    folder_clear();
    idx_write_split("train", 5, 2, 2, true);
    folder_truncate("train-labels-idx1-ubyte.gz", 20);
    assert_fails(ls_dataset_mnist(folder_path(), NULL, &dataset), LS_DATA_LOSS, "train-labels-idx1-ubyte.gz");
    ck_assert_ptr_null(dataset);
}

TESTS("mnist", .begin = folder_make, .end = folder_remove)
