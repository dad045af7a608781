/* Each format there and back: the same examples in the same order, and hence the same batches. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "harness.h"

#define MAX_ELEMENTS (64 * 64 * 3)

/* Examples are equal; those of an image folder come sorted by class. */
static void check_equal(const ls_dataset *a, const ls_dataset *b, bool by_class) {
    static float one[MAX_ELEMENTS], other[MAX_ELEMENTS];
    int64_t next = 0, count = ls_dataset_count(a), elements = 1;
    ls_shape shape = ls_dataset_shape(a), again = ls_dataset_shape(b);
    ck_assert_mem_eq(&shape, &again, sizeof(shape));
    for (int i = 0; i < shape.rank; i++) elements *= shape.dims[i];
    ck_assert_int_eq(count, ls_dataset_count(b));
    for (int label = 0; label < (by_class ? ls_dataset_num_classes(a) : 1); label++)
        for (int64_t i = 0; i < count; i++) {
            int32_t got, wanted;
            assert_ok(ls_source_read(a->source, i, one, LS_LABELS(&wanted)));
            if (by_class && wanted != label) continue;
            assert_ok(ls_source_read(b->source, next++, other, LS_LABELS(&got)));
            ck_assert_int_eq(got, wanted);
            ck_assert(!memcmp(one, other, (size_t)elements * sizeof(float)));
        }
}

static ls_dataset *write_and_open(const ls_dataset *from, ls_file_format format, const ls_write_options *options) {
    ls_dataset *to;
    folder_clear();
    assert_ok(ls_dataset_write(from, format, folder_path(), options));
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.split = from->options.split), &to));
    return to;
}

TEST_EACH(every_format_keeps_images, 4) {
    static const char *const names[] = {"digits", "shapes"};
    ls_dataset *from, *to;
    assert_ok(ls_dataset_open(names[_i % 2], LS_DATASET(.limit = 21, .split = _i < 2 ? LS_TRAIN : LS_TEST), &from));
    for (ls_file_format format = LS_FORMAT_PNG; format <= LS_FORMAT_NPZ; format++) {
        to = write_and_open(from, format, LS_WRITE(.shards = 4));
        check_equal(from, to, format == LS_FORMAT_PNG);
        ls_dataset_free(to);
    }
    ls_dataset_free(from);
}

TEST(every_format_keeps_numbers) {
    ls_dataset *from = numbers_make(9, NULL), *to;
    for (ls_file_format format = LS_FORMAT_TFRECORD; format <= LS_FORMAT_NPZ; format++) {
        to = write_and_open(from, format, NULL);
        check_equal(from, to, false);
        ls_dataset_free(to);
    }
    folder_clear();
    assert_fails(ls_dataset_write(from, LS_FORMAT_JPEG, folder_path(), NULL), LS_UNIMPLEMENTED,
                 "shape (1) are no images");
    assert_refused(ls_dataset_write(from, (ls_file_format)9, folder_path(), NULL), "format 9");
    assert_fails(ls_dataset_write(from, LS_FORMAT_NPZ, "/no/such", NULL), LS_NOT_FOUND, "'/no/such'");
    assert_refused(ls_dataset_write(from, LS_FORMAT_NPZ, folder_path(), LS_WRITE(.shards = -1)), "shards is -1");
    ls_dataset_free(from);
}

/* JPEGs are copied, byte for byte, so that a folder and its TFRecords decode alike. */
TEST(a_jpeg_is_copied) {
    ls_dataset *shapes, *folder, *records;
    char inside[128];
    assert_ok(ls_dataset_shapes(LS_DATASET(.limit = 12), &shapes));
    folder = write_and_open(shapes, LS_FORMAT_JPEG, LS_WRITE(.quality = 80));
    (void)snprintf(inside, sizeof(inside), "%s/records", folder_path());
    assert_ok(ls_dataset_write(folder, LS_FORMAT_TFRECORD, inside, LS_WRITE(.name = "shapes", .shards = 5)));
    assert_ok(ls_dataset_open(inside, NULL, &records));
    check_equal(folder, records, false);
    ck_assert_str_eq(ls_dataset_class_name(records, 1), "triangle");
    ls_dataset_free(records);
    ls_dataset_free(folder);
    ls_dataset_free(shapes);
}

TESTS("write", .begin = folder_make, .end = folder_remove)
