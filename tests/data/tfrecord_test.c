/* TFRecord files of Examples: TensorFlow's own, ours there and back, and damaged ones. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/record_frame.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/example.h"
#include "data/files.h"
#include "data/fixture.h"
#include "data/record.h"
#include "harness.h"

/* RFC 3720's examples, of every length that the loops tell apart. */
TEST(checksums_equal_rfc_3720) {
    uint8_t bytes[32] = {0};
    ck_assert_uint_eq(ls_crc32c("123456789", 9), 0xE3069283U);
    ck_assert_uint_eq(ls_crc32c(bytes, 32), 0x8A9136AAU);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    ck_assert_uint_eq(ls_crc32c(bytes, 32), 0x46DD794EU);
    ck_assert_uint_eq(ls_crc32c("", 0), 0);
}

static void copy_golden(const char *name, const char *to) {
    char path[512];
    uint8_t *bytes;
    size_t size;
    (void)snprintf(path, sizeof(path), FILES_GOLDEN "/%s", name);
    assert_ok(ls_file_read(path, &bytes, &size));
    folder_write(to, bytes, size, false);
    ls_free(bytes);
}

/* Examples from first on, as tests/golden/files.py makes them. */
static void check_golden(const ls_dataset *dataset, int64_t first) {
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        float features[12];
        int32_t label;
        assert_ok(ls_source_read(dataset->source, i, features, LS_LABELS(&label)));
        ck_assert_int_eq(label, (first + i) % 3);
        for (int p = 0; p < 12; p++) ck_assert(features[p] == (float)((40 * (first + i) + 7 * p) % 256) / 255.0F);
    }
}

TEST(files_of_tensorflow_are_read) {
    static const char *const names[] = {"plain.tfrecord", "gzipped.tfrecord", "zlib.tfrecord", "numbers.tfrecord"};
    for (int i = 0; i < 4; i++) {
        ls_dataset *dataset;
        folder_clear();
        copy_golden(names[i], "pets-train.tfrecord-00000-of-00001");
        assert_ok(ls_dataset_open(folder_path(), NULL, &dataset));
        ck_assert_str_eq(dataset->source->kind, "tfrecord");
        ck_assert(ls_dataset_count(dataset) == 5 && ls_dataset_num_classes(dataset) == 3);
        ls_shape shape = ls_dataset_shape(dataset);
        ck_assert_int_eq(shape.rank, i < 3 ? 3 : 1);
        check_golden(dataset, 0);
        ls_dataset_free(dataset);
    }
}

/* Files of a split follow one another in the order of their names. */
TEST(files_of_a_split_follow_their_names) {
    ls_dataset *dataset = NULL;
    folder_clear();
    copy_golden("plain.tfrecord", "pets.tfrecord");
    assert_ok(ls_dataset_tfrecord(folder_path(), NULL, &dataset));
    ls_dataset_free(dataset);
    assert_fails(ls_dataset_tfrecord(folder_path(), LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "of the test (or validation) split");
    copy_golden("plain.tfrecord", "pets-validation.tfrecord");
    copy_golden("plain.tfrecord", "pets-train.tfrecord-00000-of-00002");
    copy_golden("gzipped.tfrecord", "pets-train.tfrecord-00001-of-00002");
    folder_write("label.labels.txt", "cat\ndog\nfish\nbird\n", 18, false);
    assert_ok(ls_dataset_tfrecord(folder_path(), NULL, &dataset));
    ck_assert(ls_dataset_count(dataset) == 10 && ls_dataset_num_classes(dataset) == 4);
    ck_assert_str_eq(ls_dataset_class_name(dataset, 3), "bird");
    ls_dataset_free(dataset);
    folder_write("label.labels.txt", "cat\ndog\n", 8, false);
    float features[12];
    int32_t label;
    assert_ok(ls_dataset_tfrecord(folder_path(), LS_DATASET(.split = LS_TEST), &dataset));
    assert_fails(ls_source_read(dataset->source, 2, features, LS_LABELS(&label)), LS_DATA_LOSS,
                 "has label 2: it must be 0 to 1");
    ls_dataset_free(dataset);
}

/* More shards than descriptors; one that is written meanwhile is not taken for the old one. */
TEST(shards_beyond_the_limit_of_descriptors) {
    enum { SHARDS = 100, LIMIT = 92 };
    struct rlimit limit;
    ls_dataset *dataset;
    float features[12];
    int32_t label;
    char name[64];
    folder_clear();
    for (int i = 0; i < SHARDS; i++) {
        (void)snprintf(name, sizeof(name), "pets-%05d-of-%05d", i, SHARDS);
        copy_golden("plain.tfrecord", name);
    }
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = LIMIT;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_ok(ls_dataset_tfrecord(folder_path(), NULL, &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), (int64_t)SHARDS * 5);
    for (int64_t i = SHARDS * 5 - 1; i >= 0; i -= 7) {
        assert_ok(ls_source_read(dataset->source, i, features, LS_LABELS(&label)));
        ck_assert_int_eq(label, i % 5 % 3);
    }
    folder_write(name, "another", 7, false);
    assert_fails(ls_source_read(dataset->source, SHARDS * 5 - 1, features, LS_LABELS(&label)), LS_FAILED_PRECONDITION,
                 "was written while the dataset was open");
    ls_dataset_free(dataset);
}

/* Every byte that is changed is found, and so is every cut. */
TEST(every_damage_is_found) {
    uint8_t *bytes;
    size_t size;
    folder_clear();
    assert_ok(ls_file_read(FILES_GOLDEN "/plain.tfrecord", &bytes, &size));
    for (size_t at = 0; at < size; at += SANITIZED ? 5 : 1) {
        struct ls_record_file *file = NULL;
        char path[512], *broken;
        uint8_t *record;
        size_t length;
        bytes[at] ^= 0x40;
        folder_write("a.tfrecord", bytes, size, false);
        bytes[at] ^= 0x40;
        (void)snprintf(path, sizeof(path), "%s/a.tfrecord", folder_path());
        ls_status status = ls_record_file_open(path, false, &file, &broken);
        for (int64_t i = 0; file && i < ls_record_file_count(file) && !status; i++) {
            status = ls_record_file_read(file, i, &record, &length);
            if (!status) ls_free(record);
        }
        ck_assert_msg(status == LS_DATA_LOSS && strstr(ls_error(), "offset"), "byte %zu: %s", at, ls_error());
        ls_record_file_free(file);
    }
    ls_free(bytes);
}

TEST(damaged_records_are_left_out) {
    uint8_t *bytes;
    size_t size;
    ls_dataset *dataset = NULL;
    folder_clear();
    assert_ok(ls_file_read(FILES_GOLDEN "/plain.tfrecord", &bytes, &size));
    bytes[40] ^= 1; /* in the first record */
    folder_write("a.tfrecord", bytes, size - 10, false);
    ls_free(bytes);
    const ls_dataset_options options = {.size = sizeof(options), .damage = LS_DAMAGE_SKIPPED};
    assert_fails(ls_dataset_tfrecord(folder_path(), NULL, &dataset), LS_DATA_LOSS, "is truncated: record 4 at offset");
    assert_ok(ls_dataset_tfrecord(folder_path(), &options, &dataset));
    ck_assert(ls_dataset_count(dataset) == 3 && ls_dataset_num_damaged(dataset) == 2);
    check_golden(dataset, 1);
    ls_dataset_free(dataset);
}

static void write_record(const void *bytes, size_t size) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/a.tfrecord", folder_path());
    FILE *file = fopen(path, "wb");
    assert_ok(ls_record_frame_write(file, path, bytes, size));
    ck_assert_int_eq(fclose(file), 0);
}

TEST(other_examples_are_refused) {
    static const float features[] = {1, 2, 3};
    static const int64_t dims[] = {3};
    struct ls_example numbers = {.features = features, .feature_count = 3, .dims = dims, .rank = 1, .label = -1};
    ls_dataset *dataset = NULL;
    uint8_t *bytes;
    size_t size;
    folder_clear();
    write_record("junk", 4);
    assert_fails(ls_dataset_tfrecord(folder_path(), NULL, &dataset), LS_DATA_LOSS, "record 0 at offset 0 of '");
    write_record("", 0);
    assert_refused(ls_dataset_tfrecord(folder_path(), NULL, &dataset), "has neither a byte string");
    assert_ok(ls_example_pack(&numbers, &bytes, &size));
    write_record(bytes, size);
    ls_free(bytes);
    assert_fails(ls_dataset_tfrecord(folder_path(), NULL, &dataset), LS_DATA_LOSS, "has label -1");
    ck_assert_ptr_null(dataset);
}

TESTS("tfrecord", .seconds = 60, .begin = folder_make, .end = folder_remove)
