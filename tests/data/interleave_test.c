/* Files that are read in turn: tf.data's order, and zlib's TFRecords, which may be damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/fixture.h"
#include "data/reader.h"
#include "data/record.h"
#include "data/sources.h"
#include "harness.h"

enum { MOST = 64 };

/* A source whose example i is the number i, in files of those sizes. */
struct numbered {
    struct ls_source source;
    int sizes[MOST];
};

static ls_status read_number(const struct ls_source *source, int64_t index, float *features,
                             const struct ls_targets *targets) {
    (void)source;
    features[0] = (float)index;
    *targets->labels = 0;
    return LS_OK;
}

static int64_t file_of(const struct ls_source *source, int64_t index) {
    const struct numbered *numbered = (const struct numbered *)source;
    int64_t file = 0;
    for (; index >= numbered->sizes[file]; file++) index -= numbered->sizes[file];
    return file;
}

static void free_numbered(struct ls_source *source) {
    ls_free(source);
}

static const struct ls_source_ops in_files = {.read = read_number, .free = free_numbered, .file = file_of};
static const struct ls_source_ops without_files = {.read = read_number, .free = free_numbered};

static struct numbered *make_numbered(const struct ls_source_ops *ops, const int *sizes, int files) {
    struct numbered *made = ls_alloc(sizeof(*made));
    ck_assert_ptr_nonnull(made);
    made->source =
        (struct ls_source){.ops = ops, .kind = "numbered", .shape = LS_SHAPE(1), .classes = 1, .files = files};
    for (int i = 0; i < files; i++) made->source.count += made->sizes[i] = sizes[i];
    return made;
}

static int read_numbers(FILE *file, int *numbers, int count) {
    for (int i = 0; i < count; i++) ck_assert_int_eq(fscanf(file, "%d", &numbers[i]), 1);
    return count;
}

TEST(the_order_is_that_of_tf_data) {
    FILE *golden = fopen(FILES_GOLDEN "/interleave.txt", "re");
    int head[3], sizes[MOST], wanted[MOST], cases = 0;
    ck_assert_ptr_nonnull(golden);
    for (; fscanf(golden, "%d %d %d", &head[0], &head[1], &head[2]) == 3; cases++) {
        ls_dataset *dataset = NULL;
        read_numbers(golden, sizes, head[2]);
        struct numbered *source = make_numbered(&in_files, sizes, head[2]);
        read_numbers(golden, wanted, (int)source->source.count);
        assert_ok(ls_dataset_from_source(LS_OK, &source->source,
                                         LS_DATASET(.interleave = head[0], .block_length = head[1]), &dataset));
        for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
            float number;
            int32_t label;
            assert_ok(ls_source_read(dataset->source, i, &number, LS_LABELS(&label)));
            ck_assert_msg(number == (float)wanted[i], "case %d: example %d is %g, tf.data has %d", cases, (int)i,
                          (double)number, wanted[i]);
        }
        ls_dataset_free(dataset);
    }
    ck_assert_int_ge(cases, 5);
    (void)fclose(golden);
}

TEST(bad_interleaving_is_refused) {
    static const int sizes[] = {3, 2};
    ls_dataset *dataset = NULL;
    assert_refused(ls_dataset_from_source(LS_OK, &make_numbered(&without_files, sizes, 2)->source,
                                          LS_DATASET(.interleave = 2), &dataset),
                   "has no files to read in turn");
    assert_refused(ls_dataset_from_source(LS_OK, &make_numbered(&in_files, sizes, 2)->source,
                                          LS_DATASET(.interleave = -1), &dataset),
                   "interleave is -1");
    assert_refused(ls_dataset_from_source(LS_OK, &make_numbered(&in_files, sizes, 2)->source,
                                          LS_DATASET(.block_length = -1), &dataset),
                   "block_length is -1");
    ck_assert_ptr_null(dataset);
}

/* Every truncation and every changed byte of a packed file is an error that names it. */
TEST(damaged_zlib_is_named) {
    uint8_t *bytes, *output = NULL;
    size_t size, length;
    assert_ok(ls_file_read(FILES_GOLDEN "/zlib.tfrecord", &bytes, &size));
    ck_assert(ls_reader_is_zlib(bytes));
    assert_ok(ls_reader_inflate_zlib("whole", bytes, size, &output, &length));
    ls_free(output);
    output = NULL;
    for (size_t at = 0; at < size; at++) {
        uint8_t *part = malloc(at ? at : 1);
        memcpy(part, bytes, at);
        assert_fails(ls_reader_inflate_zlib("a.tfrecord", part, at, &output, &length), LS_DATA_LOSS, "'a.tfrecord'");
        free(part);
        bytes[at] ^= 0x11;
        if (!ls_reader_inflate_zlib("a.tfrecord", bytes, size, &output, &length))
            ck_assert_msg(at < 2, "byte %zu", at); /* the header's level says nothing */
        bytes[at] ^= 0x11;
        ls_free(output);
        output = NULL;
    }
    folder_clear();
    folder_write("a.tfrecord", bytes, size / 2, false);
    ls_dataset *dataset = NULL;
    assert_fails(ls_dataset_open(folder_path(), NULL, &dataset), LS_DATA_LOSS, "a.tfrecord' beyond offset");
    ls_free(bytes);
}

TESTS("interleave", .begin = folder_make, .end = folder_remove)
