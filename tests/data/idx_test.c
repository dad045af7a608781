/* The IDX parser on memory, and reading IDX files. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/fixture.h"
#include "data/sources.h"
#include "harness.h"

static const uint8_t pair[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};

TEST(a_file_is_parsed) {
    struct ls_idx idx;
    assert_ok(ls_idx_parse("f", pair, sizeof(pair), &idx));
    ck_assert_int_eq(idx.rank, 2);
    ck_assert(idx.dims[0] == 2 && idx.dims[1] == 3 && idx.count == 6);
    ck_assert_ptr_eq(idx.values, pair + 12);
}

/* Every shorter piece of a file is refused, saying where it ends. */
TEST(every_truncation_is_refused) {
    struct ls_idx idx;
    for (size_t size = 0; size < sizeof(pair); size++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "the data ends at offset %zu", size);
        assert_fails(ls_idx_parse("some-file", pair, size, &idx), LS_DATA_LOSS, text);
        ck_assert_ptr_nonnull(strstr(ls_error(), "'some-file' is truncated"));
    }
}

static const struct {
    uint8_t bytes[24];
    size_t size;
    ls_status status;
    const char *text;
} bad[] = {
    {{1, 0, 8, 1, 0, 0, 0, 1, 9}, 9, LS_DATA_LOSS, "is no IDX file: it starts with 01 00 08 01"},
    {{0, 1, 8, 1, 0, 0, 0, 1, 9}, 9, LS_DATA_LOSS, "is no IDX file"},
    {{0x1f, 0x8b, 8, 0}, 4, LS_DATA_LOSS, "is no IDX file"},
    {{0, 0, 0x0A, 1, 0, 0, 0, 1, 9}, 9, LS_DATA_LOSS, "is no IDX file"},
    {{0, 0, 0x0D, 1, 0, 0, 0, 1, 0, 0, 0, 0}, 12, LS_UNIMPLEMENTED, "elements of type float32 (0x0d at offset 2)"},
    {{0, 0, 0x09, 1, 0, 0, 0, 1, 0}, 9, LS_UNIMPLEMENTED, "signed byte"},
    {{0, 0, 8, 0}, 4, LS_DATA_LOSS, "rank 0 at offset 3"},
    {{0, 0, 8, 5}, 4, LS_DATA_LOSS, "rank 5 at offset 3"},
    {{0, 0, 8, 1, 0, 0, 0, 0}, 8, LS_DATA_LOSS, "extent 0 at offset 4"},
    {{0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0}, 12, LS_DATA_LOSS, "extent 0 at offset 8"},
    {{0, 0, 8, 1, 0, 0, 0, 1, 9, 9}, 10, LS_DATA_LOSS, "data should end at offset 9"},
    {{0, 0, 8, 1, 255, 255, 255, 255, 9}, 9, LS_DATA_LOSS, "needs 4294967303 bytes, the data ends at offset 9"},
    {{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
     16,
     LS_DATA_LOSS,
     "overflows at offset 8"},
    {{0, 0, 8, 4, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}, 20, LS_DATA_LOSS, "overflows at offset 16"},
};

TEST_EACH(bad_headers_are_refused, COUNT_OF(bad)) {
    struct ls_idx idx;
    assert_fails(ls_idx_parse("f", bad[_i].bytes, bad[_i].size, &idx), bad[_i].status, bad[_i].text);
}

static ls_status read_named(const char *name, uint8_t **bytes, struct ls_idx *idx) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder_path(), name);
    return ls_idx_read(path, bytes, idx);
}

/* Sizes around the reader's first buffer, plain and gzipped. */
TEST(plain_and_gzipped_files_are_read) {
    static const uint32_t counts[] = {1, 65527, 65528, 65529, 131064, 131065, 300000};
    folder_clear();
    for (int i = 0; i < 14; i++) {
        size_t size;
        uint8_t *written = idx_make(1, &counts[i / 2], NULL, 251, &size), *bytes;
        struct ls_idx idx;
        folder_write("x", written, size, i % 2);
        assert_ok(read_named("x", &bytes, &idx));
        ck_assert_int_eq(idx.count, counts[i / 2]);
        ck_assert_mem_eq(idx.values, written + 8, counts[i / 2]);
        ls_free(bytes);
        ls_free(written);
    }
}

TEST(bad_files_are_named) {
    uint8_t *bytes = NULL, huge[] = {0, 0, 8, 3, 127, 255, 255, 255, 0, 1, 0, 0, 0, 0, 255, 0, 1, 2, 3};
    struct ls_idx idx;
    folder_clear();
    assert_fails(read_named("missing", &bytes, &idx), LS_NOT_FOUND, "missing': No such file");
    folder_write("x", pair, sizeof(pair), true);
    folder_truncate("x", 30);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "unexpected end of file");
    folder_write("x", pair, sizeof(pair), false);
    folder_truncate("x", sizeof(pair) - 1);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "needs 18 bytes, the data ends at offset 17");
    folder_write("x", huge, sizeof(huge), false);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "the data ends at offset 19");
    folder_write("x", huge, sizeof(huge), true);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "the data ends at offset 19");
    folder_write("x", huge, 0, false);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "the data ends at offset 0");
    assert_fails(ls_idx_read(folder_path(), &bytes, &idx), LS_FAILED_PRECONDITION, "Is a directory");
    ck_assert_ptr_null(bytes);
}

/* 1 TB of zeros behind it, which nobody reads. */
TEST(no_more_is_read_than_the_header_says) {
    const off_t far = (off_t)1 << 40;
    uint8_t *bytes = NULL;
    struct ls_idx idx;
    folder_clear();
    folder_write("x", pair, sizeof(pair), false);
    folder_truncate("x", far);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "longer than its header says");
    folder_write("x", "no IDX file", 11, false);
    folder_truncate("x", far);
    assert_fails(read_named("x", &bytes, &idx), LS_DATA_LOSS, "is no IDX file");
    ck_assert_ptr_null(bytes);
}

TESTS("idx", .begin = folder_make, .end = folder_remove)
