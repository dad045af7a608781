/* ls_dataset_open: which kind a name means. */
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "data/fixture.h"
#include "harness.h"

/* As records of the split in the folder. */
static ls_status numbers_write(int64_t count, ls_split split) {
    ls_dataset *dataset = numbers_make(count, LS_DATASET(.split = split));
    ls_status status = ls_dataset_write(dataset, LS_FORMAT_TFRECORD, folder_path(), LS_WRITE(.name = "numbers"));
    ls_dataset_free(dataset);
    return status;
}

static void check_kind(const char *name, const ls_dataset_options *options, const char *kind) {
    ls_dataset *dataset;
    assert_ok(ls_dataset_open(name, options, &dataset));
    ck_assert_str_eq(dataset->source->kind, kind);
    ls_dataset_free(dataset);
}

TEST(a_name_decides_the_kind) {
    folder_clear();
    check_kind("digits", LS_DATASET(.limit = 10), "digits");
    cifar10_write("data_batch_1.bin", 1, 0, false);
    for (int i = 2; i <= 5; i++) {
        char name[] = "data_batch_0.bin";
        name[11] = (char)('0' + i);
        cifar10_write(name, 1, 0, false);
    }
    check_kind(folder_path(), NULL, "cifar10");
    idx_write_split("t10k", 3, 2, 2, true);
    check_kind(folder_path(), NULL, "cifar10"); /* the training split is CIFAR's only */
    check_kind(folder_path(), LS_DATASET(.split = LS_TEST), "mnist");
}

/* tensorflow_datasets', Kaggle's and ImageNet's names; a word of a split is a whole one. */
TEST_EACH(records_are_known_by_many_names, 4) {
    static const struct {
        const char *train, *test;
    } names[] = {{"a-train.tfrecord-00000-of-00001", "a-test.tfrecord-00000-of-00001"},
                 {"flowers00-train.tfrec", "flowers00-val.tfrec"},
                 {"train-00000-of-00002", "validation-00000-of-00002"},
                 {"trainers_train.tfrecord", "contest_of_trainers_dev.tfrecord"}};
    char made[600], path[600];
    ls_dataset *dataset;
    folder_clear();
    for (int test = 0; test < 2; test++) {
        assert_ok(numbers_write(test ? 3 : 5, test ? LS_TEST : LS_TRAIN));
        (void)snprintf(made, sizeof(made), "%s/numbers-%s.tfrecord-00000-of-00001", folder_path(),
                       test ? "test" : "train");
        (void)snprintf(path, sizeof(path), "%s/%s", folder_path(), test ? names[_i].test : names[_i].train);
        ck_assert_int_eq(rename(made, path), 0);
    }
    for (int test = 0; test < 2; test++) {
        assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.split = test ? LS_TEST : LS_TRAIN), &dataset));
        ck_assert_str_eq(dataset->source->kind, "tfrecord");
        ck_assert_int_eq(ls_dataset_count(dataset), test ? 3 : 5);
        ls_dataset_free(dataset);
    }
}

TEST(unknown_names_are_refused) {
    ls_dataset *dataset = NULL;
    folder_clear();
    assert_fails(ls_dataset_open("mnits", NULL, &dataset), LS_NOT_FOUND, "no dataset 'mnits' is built in");
    assert_refused(ls_dataset_open(NULL, NULL, &dataset), "no folder");
    assert_fails(ls_dataset_open(folder_path(), NULL, &dataset), LS_NOT_FOUND,
                 "holds neither train-images-idx3-ubyte (or .gz) nor data_batch_1.bin");
    assert_fails(ls_dataset_open(folder_path(), LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "holds neither t10k-images-idx3-ubyte (or .gz) nor test_batch.bin");
    assert_refused(ls_dataset_open("digits", LS_DATASET(.repeat = -1), &dataset), "repeat is -1");
    ck_assert_ptr_null(dataset);
}

TESTS("open", .begin = folder_make, .end = folder_remove)
