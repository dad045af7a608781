/* CIFAR-10 folders. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/sources.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "harness.h"

static void write_training(void) {
    for (int i = 1; i <= 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        cifar10_write(name, i, 2 * i, false);
    }
}

/* Files follow one another; planes become the last axis. */
TEST(training_files_are_read_in_order) {
    ls_dataset *dataset;
    folder_clear();
    write_training();
    assert_ok(ls_dataset_cifar10(folder_path(), NULL, &dataset));
    ls_shape shape = ls_dataset_shape(dataset);
    ck_assert(shape.rank == 3 && shape.dims[0] == 32 && shape.dims[1] == 32 && shape.dims[2] == 3);
    ck_assert_int_eq(ls_dataset_count(dataset), 15);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 10);
    int64_t index = 0;
    for (int file = 1; file <= 5; file++)
        for (int record = 0; record < file; record++, index++) {
            static float features[32 * 32 * 3];
            int32_t label;
            assert_ok(ls_source_read(dataset->source, index, features, LS_LABELS(&label)));
            ck_assert_int_eq(label, (2 * file + record) % 10);
            for (int p = 0; p < 1024; p++)
                for (int c = 0; c < 3; c++) require(features[3 * p + c] == (float)((record + c + p) % 256) / 255.0F);
        }
    ls_dataset_free(dataset);
}

TEST(the_test_split_is_read) {
    ls_dataset *dataset;
    folder_clear();
    cifar10_write("test_batch.bin", 30, 0, false);
    assert_ok(ls_dataset_cifar10(folder_path(), LS_DATASET(.split = LS_TEST), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 30);
    ls_dataset_free(dataset);
}

TEST(bad_folders_are_refused) {
    ls_dataset *dataset = NULL;
    static uint8_t wrong[2 * LS_CIFAR10_RECORD];
    folder_clear();
    assert_fails(ls_dataset_cifar10("/no/such", NULL, &dataset), LS_NOT_FOUND, "'/no/such'");
    write_training();
    assert_fails(ls_dataset_cifar10(folder_path(), LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "test_batch.bin': No such file");
    folder_truncate("data_batch_3.bin", 2 * LS_CIFAR10_RECORD + 100);
    assert_fails(ls_dataset_cifar10(folder_path(), NULL, &dataset), LS_DATA_LOSS,
                 "data_batch_3.bin' is truncated: the record at offset 6146 has 100 bytes, not 3073");
    wrong[LS_CIFAR10_RECORD] = 10;
    folder_write("data_batch_3.bin", wrong, sizeof(wrong), false);
    assert_fails(ls_dataset_cifar10(folder_path(), NULL, &dataset), LS_DATA_LOSS, "label 10 at offset 3073");
    folder_truncate("data_batch_2.bin", 0);
    assert_fails(ls_dataset_cifar10(folder_path(), NULL, &dataset), LS_DATA_LOSS, "data_batch_2.bin' is empty");
    ck_assert_ptr_null(dataset);
}

TESTS("cifar10", .begin = folder_make, .end = folder_remove)
