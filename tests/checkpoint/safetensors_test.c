/* The format: the bytes that are written, and everything that is refused when read. */
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "harness.h"
#include "property/draw.h"

#define LENGTH 8

/* A file: the length, the header, and so many bytes of data. The caller frees. */
static uint8_t *make_file(const char *header, size_t data, size_t *size) {
    size_t length = strlen(header);
    uint8_t *bytes = calloc(1, LENGTH + length + data);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < LENGTH; i++) bytes[i] = (uint8_t)(length >> 8 * i);
    memcpy(bytes + LENGTH, header, length);
    *size = LENGTH + length + data;
    return bytes;
}

static ls_status parse(const char *header, size_t data, struct ls_safetensors *file) {
    size_t size;
    uint8_t *bytes = make_file(header, data, &size);
    ls_status status = ls_safetensors_parse(bytes, size, file);
    free(bytes);
    return status;
}

TEST(the_header_is_written) {
    struct ls_safetensor tensors[] = {{.name = "b", .type = "F32", .shape = LS_SHAPE(2, 3)},
                                      {.name = "z", .type = "U8", .shape = LS_SHAPE(5)},
                                      {.name = "e", .type = "F64", .shape = {.rank = 0}},
                                      {.name = "a", .type = "F32", .shape = LS_SHAPE(0)}};
    struct ls_safetensors_text texts[] = {{"k", "v\n\"\\"}};
    struct ls_safetensors file = {.tensors = tensors, .tensor_count = 4, .texts = texts, .text_count = 1};
    static const char want[] = "{\"__metadata__\":{\"k\":\"v\\u000a\\\"\\\\\"},"
                               "\"e\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                               "\"z\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[32,37]}}";
    LS_CLEANUP(ls_free_pointer) char *header = NULL;
    assert_ok(ls_safetensors_header(&file, &header));
    size_t length = (strlen(want) + 7) / 8 * 8;
    ck_assert_uint_eq(file.data, LENGTH + length);
    ck_assert_uint_eq(file.size, 37);
    ck_assert_int_eq((uint8_t)header[0] | (uint8_t)header[1] << 8, (int)length);
    ck_assert_mem_eq(header + 2, "\0\0\0\0\0\0", 6);
    ck_assert_mem_eq(header + LENGTH, want, strlen(want));
    for (size_t i = strlen(want); i < length; i++) ck_assert_int_eq(header[LENGTH + i], ' ');
}

TEST(what_is_written_is_read) {
    struct ls_safetensor tensors[] = {{.name = "x/\"y\"", .type = "F32", .shape = LS_SHAPE(4)},
                                      {.name = "half", .type = "BF16", .shape = LS_SHAPE(1, 3)}};
    struct ls_safetensors_text texts[] = {{"lines", "a=1\nb=\t\x01\n"}, {"", ""}};
    struct ls_safetensors file = {.tensors = tensors, .tensor_count = 2, .texts = texts, .text_count = 2}, back = {0};
    LS_CLEANUP(ls_free_pointer) char *header = NULL;
    assert_ok(ls_safetensors_header(&file, &header));
    uint8_t *bytes = calloc(1, file.data + file.size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, header, file.data);
    assert_ok(ls_safetensors_parse(bytes, file.data + file.size, &back));
    free(bytes);
    ck_assert_uint_eq(back.data, file.data);
    ck_assert_uint_eq(back.size, 22);
    ck_assert_str_eq(ls_safetensors_text(&back, "lines"), texts[0].value);
    ck_assert_str_eq(ls_safetensors_text(&back, ""), "");
    ck_assert_ptr_null(ls_safetensors_text(&back, "none"));
    const struct ls_safetensor *half = ls_safetensors_find(&back, "half");
    ck_assert(half && !strcmp(half->type, "BF16") && half->begin == 16 && half->end == 22 && half->shape.rank == 2);
    ck_assert_ptr_null(ls_safetensors_find(&back, "none"));
    ls_safetensors_free(&back);
}

TEST(bad_tensors_are_not_written) {
    struct ls_safetensor twice[] = {{.name = "a", .type = "F32", .shape = LS_SHAPE(1)},
                                    {.name = "a", .type = "F32", .shape = LS_SHAPE(2)}};
    struct ls_safetensor unknown[] = {{.name = "a", .type = "F31", .shape = LS_SHAPE(1)}};
    struct ls_safetensor huge[] = {{.name = "a", .type = "F32", .shape = LS_SHAPE(INT64_MAX, 3)}};
    struct ls_safetensor negative[] = {{.name = "a", .type = "F32", .shape = LS_SHAPE(-1)}};
    struct ls_safetensors files[] = {{.tensors = twice, .tensor_count = 2},
                                     {.tensors = unknown, .tensor_count = 1},
                                     {.tensors = huge, .tensor_count = 1},
                                     {.tensors = negative, .tensor_count = 1}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char *header = NULL;
        ck_assert_int_eq(ls_safetensors_header(&files[i], &header), LS_INVALID_ARGUMENT);
        ck_assert_ptr_null(header);
    }
}

/* header, bytes of data, what the message says */
static const struct {
    const char *header;
    size_t data;
    const char *message;
} refusals[] = {
    {"", 0, "only 8 bytes"},
    {"", 9, "header of 0 bytes"},
    {"[]", 0, "begin with '{'"},
    {" {}", 0, "begin with '{'"},
    {"{", 0, "no JSON"},
    {"{\"a\":}", 0, "no JSON"},
    {"{} x", 0, "behind"},
    {"{}\t", 0, "behind"},
    {"{}", 1, "0 bytes of data, the file has 1"},
    {"{\"a\":1}", 0, "no dtype"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[4,0]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":33,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,6]}}", 6, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,1]}}", 1, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9007199254740991,9007199254740991],\"data_offsets\":[0,4]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "the file has 3"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, "begins at byte 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
     "\"data_offsets\":[1,3]}}",
     3, "'b' begins at byte 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
     "\"data_offsets\":[1,2]}}",
     2, "twice"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "'a' is no text"},
};

TEST_EACH(what_is_no_such_file_is_refused, COUNT_OF(refusals)) {
    struct ls_safetensors file = {.data = 99};
    ck_assert_int_eq(parse(refusals[_i].header, refusals[_i].data, &file), LS_DATA_LOSS);
    ck_assert_msg(strstr(ls_error(), refusals[_i].message), "%s: %s", refusals[_i].header, ls_error());
    ck_assert_uint_eq(file.data, 99);
}

/* Drawn files: tensors of any type and number of extents, each of which is in its place; those that are not read here
 * are told, and cannot be written. */
TEST(tensors_that_are_not_read_leave_the_others) {
    static const char *const types[] = {"F32", "I64", "F8_E8M0", "F4", "C64", "new"};
    struct draw draw = draw_from(first_seed(), 1);
    for (int round = 0; round < 500; round++) {
        enum { MOST = 5 };
        char header[4096] = "{";
        struct ls_safetensors file;
        int type[MOST], extents[MOST], count = 1 + (int)draw_below(&draw, MOST), others = 0;
        size_t used = 1, end[MOST], at = 0;
        for (int i = 0; i < count; i++) {
            type[i] = (int)draw_below(&draw, 6);
            extents[i] = (int)draw_below(&draw, LS_MAX_RANK + 3);
            size_t last = 1 + draw_below(&draw, 4),
                   size = type[i] < 2 ? (extents[i] ? last : 1) * (type[i] ? 8 : 4) : draw_below(&draw, 9);
            used += (size_t)snprintf(header + used, sizeof(header) - used, "%s\"%d\":{\"dtype\":\"%s\",\"shape\":[",
                                     i ? "," : "", i, types[type[i]]);
            for (int k = 0; k < extents[i]; k++)
                used += (size_t)snprintf(header + used, sizeof(header) - used, k ? ",%zu" : "%zu",
                                         k + 1 == extents[i] ? last : 1);
            used +=
                (size_t)snprintf(header + used, sizeof(header) - used, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
            end[i] = at += size;
        }
        (void)snprintf(header + used, sizeof(header) - used, "}");
        assert_ok(parse(header, at, &file));
        for (int i = 0; i < count; i++) {
            const char name[] = {(char)('0' + i), 0};
            const struct ls_safetensor *tensor = ls_safetensors_find(&file, name);
            ck_assert(tensor && tensor->end == end[i] && !strcmp(tensor->type, types[type[i]]));
            ck_assert_int_eq(tensor->unread, type[i] > 1 || extents[i] > LS_MAX_RANK);
            ck_assert_int_eq(tensor->extents, extents[i]);
            ck_assert_int_eq(tensor->shape.rank, extents[i] > LS_MAX_RANK ? 0 : extents[i]);
            others += tensor->unread;
        }
        char *written = NULL;
        ck_assert_int_eq(ls_safetensors_header(&file, &written), others ? LS_INVALID_ARGUMENT : LS_OK);
        ls_free(written);
        ls_safetensors_free(&file);
    }
}

TEST(lengths_are_checked) {
    struct ls_safetensors file = {0};
    const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    const uint8_t beyond[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    ck_assert_int_eq(ls_safetensors_parse(huge, sizeof(huge), &file), LS_DATA_LOSS);
    ck_assert_int_eq(ls_safetensors_parse(beyond, sizeof(beyond), &file), LS_DATA_LOSS);
    ck_assert_int_eq(ls_safetensors_parse(beyond, 3, &file), LS_DATA_LOSS);
    assert_ok(parse("{}   ", 0, &file));
    ls_safetensors_free(&file);
}

TESTS("safetensors")
