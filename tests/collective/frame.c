/* The frame's wire form and its comparison. */
#include "collective/algorithm.h"
#include "base/status.h"
#include "collective/run/frame.h"

#include <math.h>
#include <string.h>

#include "harness.h"

static struct ls_frame sample(void) {
    struct ls_frame frame = {.generation = 3,
                             .sequence = UINT64_C(1) << 40,
                             .count = 12345,
                             .total = 8,
                             .layout = 0xFEDCBA9876543210U,
                             .bytes = 4096,
                             .rank = 1,
                             .size = 4,
                             .root = -1,
                             .kind = LS_KIND_ALL_REDUCE,
                             .op = LS_MEAN,
                             .dtype = LS_BFLOAT16,
                             .communication = LS_RING,
                             .compression = LS_COMPRESS_BF16};
    frame.prescale = 0.5;
    frame.postscale = -0.0;
    ls_frame_name(&frame, "gradients/17");
    return frame;
}

TEST(what_is_encoded_decodes) {
    struct ls_frame frame = sample(), read;
    unsigned char bytes[LS_FRAME_SIZE], again[LS_FRAME_SIZE];
    ls_frame_encode(&frame, bytes);
    ck_assert_mem_eq(bytes, "LSCF\2\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0", 24); /* little-endian everywhere */
    assert_ok(ls_frame_decode(bytes, &read));
    assert_ok(ls_frame_compare(&frame, &read, 0, 1, ls_algorithm_name));
    ls_frame_encode(&read, again);
    ck_assert_mem_eq(bytes, again, sizeof(bytes));
}

static void expect_broken(size_t at, unsigned char value) {
    struct ls_frame frame = sample(), read = {.count = 99};
    unsigned char bytes[LS_FRAME_SIZE];
    ls_frame_encode(&frame, bytes);
    bytes[at] = value;
    ck_assert_msg(ls_frame_decode(bytes, &read) == LS_DATA_LOSS, "byte %zu = %u passed", at, value);
    ck_assert_uint_eq(read.count, 99); /* written only on success */
}

TEST(broken_frames_are_refused) {
    for (size_t i = 0; i < 8; i++) expect_broken(i, 0xEE); /* magic, version */
    expect_broken(64, 4);                                  /* rank = size */
    expect_broken(67, 0x80);                               /* negative rank */
    expect_broken(68, 0);                                  /* size 0 */
    expect_broken(72, 0xFE);                               /* root -2 */
    expect_broken(76, 0);                                  /* kind */
    expect_broken(76, 10);
    expect_broken(77, 6); /* op */
    expect_broken(78, 9); /* dtype */
    expect_broken(79, 3); /* communication */
    expect_broken(80, LS_ALGORITHM_COUNT);
    expect_broken(81, 3); /* compression */
    expect_broken(82, 1); /* reserved */
    expect_broken(83, 1);
    expect_broken(84, '\n');
    expect_broken(84, 0);    /* then the name has bytes after its end */
    expect_broken(143, 'x'); /* no end */
    struct ls_frame frame = sample(), read;
    unsigned char bytes[LS_FRAME_SIZE];
    frame.postscale = NAN;
    ls_frame_encode(&frame, bytes);
    ck_assert_int_eq(ls_frame_decode(bytes, &read), LS_DATA_LOSS);
}

/* A change of any byte that still decodes is a difference. */
TEST(a_failure_has_a_status_and_a_message) {
    static const struct {
        uint64_t status, bytes;
        bool good;
    } rows[] = {{LS_CANCELLED, 1, true}, {LS_UNAUTHENTICATED, LS_ERROR_SIZE - 1, true},
                {LS_OK, 1, false},       {LS_UNAUTHENTICATED + 1, 1, false},
                {LS_INTERNAL, 0, false}, {LS_INTERNAL, LS_ERROR_SIZE, false},
                {UINT64_MAX, 1, false},  {LS_INTERNAL, UINT64_MAX, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char bytes[LS_FRAME_SIZE];
        struct ls_frame frame = sample(), read;
        frame.kind = LS_KIND_FAILURE;
        frame.count = rows[i].status;
        frame.bytes = rows[i].bytes;
        ls_frame_encode(&frame, bytes);
        ck_assert_int_eq(ls_frame_decode(bytes, &read), rows[i].good ? LS_OK : LS_DATA_LOSS);
    }
}

TEST(every_byte_counts) {
    struct ls_frame frame = sample(), read;
    unsigned char bytes[LS_FRAME_SIZE];
    int decoded = 0;
    for (size_t i = 0; i < LS_FRAME_SIZE; i++) {
        if (i == 84) i = 144; /* behind the name */
        ls_frame_encode(&frame, bytes);
        bytes[i] ^= 1;
        if (ls_frame_decode(bytes, &read)) continue;
        decoded++;
        assert_refused(ls_frame_compare(&frame, &read, 0, 1, ls_algorithm_name), "differs");
    }
    ck_assert_int_gt(decoded, 56);
}

TEST(a_difference_names_everything) {
    struct ls_frame ours = sample(), theirs = sample();
    theirs.dtype = LS_FLOAT16;
    assert_refused(ls_frame_compare(&ours, &theirs, 0, 3, ls_algorithm_name),
                   "all_reduce 'gradients/17' (sequence 1099511627776): dtype differs: "
                   "bfloat16 on rank 0, float16 on rank 3");
}

TEST(names_of_any_length_and_bytes) {
    struct ls_frame frame = sample(), read;
    unsigned char bytes[LS_FRAME_SIZE];
    char name[300];
    for (size_t length = 0; length < sizeof(name); length++) {
        memset(name, (int)(1 + length % 255), sizeof(name));
        name[length] = 0;
        ls_frame_name(&frame, name);
        ls_frame_encode(&frame, bytes);
        assert_ok(ls_frame_decode(bytes, &read));
        ck_assert_uint_eq(strlen(read.name), length < LS_FRAME_NAME - 1 ? length : LS_FRAME_NAME - 1);
    }
}

TESTS("collective/frame")
