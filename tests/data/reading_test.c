/* The k-th call that looks for a file or reads one fails, for every k and every format: the error has its cause, no
 * example is taken for a damaged one or left out, and the next try has all of them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "data/reader.h"
#include "faulty_files.h"
#include "harness.h"

enum { IDX, IDX_GZIPPED, CIFAR10, NPZ, NPY, JPEG, PNG, RECORDS, RECORDS_GZIPPED, NUMBERS, TABLE, FORMATS };

static char source[512]; /* the folder, or the file in it */

/* Opens the dataset and reads all of it; *sum is of all that it says. */
static ls_status read_all(ls_on_damage damage, uint32_t *sum) {
    static float features[32 * 32 * 3];
    int32_t label = 0;
    ls_dataset *dataset = NULL;
    *sum = 0;
    const char *target = strstr(source, ".csv") ? "b" : NULL;
    ls_status status = ls_dataset_open(
        source, LS_DATASET(.batch_size = 2, .damage = damage, .workers = -1, .target = target), &dataset);
    for (int64_t i = 0; !status && i < ls_dataset_count(dataset); i++) {
        memset(features, 0, sizeof(features));
        status = ls_source_read(dataset->source, i, features, LS_LABELS(&label));
        *sum = ls_reader_crc32(*sum, features, sizeof(features));
        *sum = ls_reader_crc32(*sum, &label, sizeof(label));
    }
    ls_dataset_free(dataset);
    return status;
}

static void copy_golden(const char *name, const char *to) {
    char path[512];
    uint8_t bytes[4096];
    (void)snprintf(path, sizeof(path), FILES_GOLDEN "/%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    ck_assert(feof(file));
    (void)fclose(file);
    folder_write(to, bytes, size, false);
}

static ls_status write_shapes(ls_file_format format) {
    ls_dataset *shapes;
    assert_ok(ls_dataset_shapes(LS_DATASET(.limit = 5, .image_height = 16, .image_width = 16), &shapes));
    ls_status status = ls_dataset_write(shapes, format, folder_path(), NULL);
    ls_dataset_free(shapes);
    return status;
}

static void fill_folder(int format) {
    folder_clear();
    (void)snprintf(source, sizeof(source), "%s%s", folder_path(), format == TABLE ? "/table.csv" : "");
    if (format == TABLE) folder_write("table.csv", "a,b\n1,x\n2,y\n3,x\n", 16, false);
    if (format == IDX || format == IDX_GZIPPED) idx_write_split("train", 30, 5, 5, format == IDX_GZIPPED);
    for (int i = 1; i <= 5 && format == CIFAR10; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        cifar10_write(name, 3, 0, false);
    }
    if (format == NPZ) assert_ok(write_shapes(LS_FORMAT_NPZ));
    if (format == NPY) assert_ok(write_shapes(LS_FORMAT_NPY));
    if (format == JPEG) assert_ok(write_shapes(LS_FORMAT_JPEG));
    if (format == PNG) assert_ok(write_shapes(LS_FORMAT_PNG));
    if (format == RECORDS) assert_ok(write_shapes(LS_FORMAT_TFRECORD));
    if (format == RECORDS_GZIPPED) copy_golden("gzipped.tfrecord", "pets-train.tfrecord");
    if (format == NUMBERS) copy_golden("numbers.tfrecord", "pets-train.tfrecord");
}

static void check_next_try(ls_on_damage damage, uint32_t want) {
    uint32_t sum;
    assert_ok(read_all(damage, &sum));
    ck_assert_uint_eq(sum, want);
}

TEST_EACH(an_error_of_reading_is_no_damage, 2 * FORMATS) {
    static const int errors[] = {EIO, ESTALE};
    uint32_t want, sum;
    ls_on_damage damage = _i >= FORMATS ? LS_DAMAGE_SKIPPED : LS_DAMAGE_FAILS;
    int error = errors[_i % 2];
    long failures = 0;
    fill_folder(_i % FORMATS);
    assert_ok(read_all(damage, &want));
    for (long k = 1;; k++, failures++) {
        faulty_files_begin(k, error);
        ls_status status = read_all(damage, &sum);
        if (!faulty_files_end()) break;
        ck_assert_msg(status == LS_UNKNOWN, "call %ld: %s: %s", k, ls_status_name(status), ls_error());
        ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), strerror(error)), "%s", ls_error());
        ck_assert_msg(strstr(ls_error(), "try again") != NULL, "%s", ls_error());
        check_next_try(damage, want);
    }
    ck_assert_int_ge(failures, _i % FORMATS == TABLE ? 3 : 8);
}

/* A file may be read to its end once more than it must be. */
TEST_EACH(an_early_end_is_damage, FORMATS) {
    uint32_t want, sum;
    int damages = 0;
    fill_folder(_i);
    assert_ok(read_all(LS_DAMAGE_FAILS, &want));
    for (long k = 1;; k++) {
        faulty_files_begin(k, 0);
        ls_status status = read_all(LS_DAMAGE_FAILS, &sum);
        if (!faulty_files_end()) break;
        damages += status == LS_DATA_LOSS;
        ck_assert_msg(status == LS_DATA_LOSS || (!status && sum == want), "call %ld: %s: %s", k, ls_status_name(status),
                      ls_error());
        check_next_try(LS_DAMAGE_FAILS, want);
    }
    ck_assert_int_ge(damages, 1);
}

/* All files come to their place, or the error is told. The next try removes what is left beside them. */
TEST_EACH(what_was_made_is_not_lost, 2) {
    static const ls_file_format formats[] = {LS_FORMAT_NPZ, LS_FORMAT_JPEG};
    ls_on_damage damage = LS_DAMAGE_FAILS;
    uint32_t want;
    fill_folder(formats[_i] == LS_FORMAT_NPZ ? NPZ : JPEG);
    assert_ok(read_all(damage, &want));
    for (long k = 1;; k++) {
        folder_clear();
        faulty_files_begin(k, EIO);
        ls_status status = write_shapes(formats[_i]);
        if (!faulty_files_end()) break;
        if (status) ck_assert_int_eq(status, LS_UNKNOWN);
        if (!status) check_next_try(damage, want);
        folder_clear();
        assert_ok(write_shapes(formats[_i]));
        check_next_try(damage, want);
    }
}

TESTS("reading", .seconds = 60, .begin = folder_make, .end = folder_remove)
