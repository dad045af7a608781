/* Files of tokens: each format's windows are those of a slow reader, ids and labels, whatever the stride; a text's end
 * is its validation part; a file that is wrong is told with the byte. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "harness.h"
#include "property/draw.h"

enum { MOST = 600, MOST_CONTEXT = 70, HEADER = 1024, TRIALS = SANITIZED ? 80 : 400 };

static char path[600];

static void put_number(uint8_t *bytes, uint32_t value, int width) {
    for (int i = 0; i < width; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

static void write_tokens(const void *bytes, size_t size) {
    folder_clear();
    folder_write("text", bytes, size, false);
    (void)snprintf(path, sizeof(path), "%s/text", folder_path());
}

/* A header as llm.c writes it. */
static void put_header(uint8_t header[HEADER], uint32_t magic, uint32_t version, uint32_t count) {
    memset(header, 0, HEADER);
    put_number(header, magic, 4);
    put_number(header + 4, version, 4);
    put_number(header + 8, count, 4);
}

/* ---- random windows ---- */

/* Characters of one to four bytes, in the order of their code points. */
static const char *const characters[] = {
    "\n", " ", "a", "z", "\x7f", "\xc3\xa9", "\xd0\x96", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
enum { CHARACTERS = sizeof(characters) / sizeof(characters[0]) };

struct text {
    ls_tokens format;
    int width; /* of a token; 0: characters */
    int64_t count;
    int32_t ids[MOST], vocabulary;
};

/* The ids of characters count those alone that occur. */
static size_t put_characters(struct draw *draw, struct text *text, uint8_t *bytes) {
    int which[MOST], ids[CHARACTERS];
    bool occurs[CHARACTERS] = {false};
    size_t size = 0;
    for (int64_t i = 0; i < text->count; i++) {
        which[i] = (int)draw_below(draw, CHARACTERS);
        occurs[which[i]] = true;
        memcpy(bytes + size, characters[which[i]], strlen(characters[which[i]]));
        size += strlen(characters[which[i]]);
    }
    text->vocabulary = 0;
    for (int c = 0; c < CHARACTERS; c++) ids[c] = occurs[c] ? text->vocabulary++ : -1;
    for (int64_t i = 0; i < text->count; i++) text->ids[i] = ids[which[i]];
    return size;
}

static size_t put_numbers(struct draw *draw, struct text *text, uint8_t *bytes) {
    size_t first = text->format == LS_TOKENS_LLMC ? HEADER : 0;
    int most = text->width == 1 ? 256 : text->width == 2 ? 65536 : 90000;
    text->vocabulary = 0;
    for (int64_t i = 0; i < text->count; i++) {
        text->ids[i] = (int32_t)draw_below(draw, (size_t)most);
        if (text->ids[i] >= text->vocabulary) text->vocabulary = text->ids[i] + 1;
        put_number(bytes + first + i * text->width, (uint32_t)text->ids[i], text->width);
    }
    if (text->width == 1) text->vocabulary = 256;
    bool wide = text->width == 4;
    if (first) put_header(bytes, wide ? 20240801 : 20240520, wide ? 7 : 1, (uint32_t)text->count);
    return first + (size_t)text->count * (size_t)text->width;
}

static void draw_text(struct draw *draw, struct text *text) {
    static const struct {
        ls_tokens format;
        int width;
    } formats[] = {
        {LS_TOKENS_BYTES, 1}, {LS_TOKENS_CHARS, 0}, {LS_TOKENS_UINT16, 2}, {LS_TOKENS_LLMC, 2}, {LS_TOKENS_LLMC, 4}};
    static uint8_t bytes[HEADER + MOST * 4];
    size_t drawn = draw_below(draw, 5);
    *text = (struct text){.format = formats[drawn].format, .width = formats[drawn].width};
    text->count = 2 + (int64_t)draw_below(draw, MOST - 2);
    write_tokens(bytes, text->width ? put_numbers(draw, text, bytes) : put_characters(draw, text, bytes));
}

static void check_window(const ls_dataset *dataset, const struct text *text, int64_t index, int64_t first) {
    int64_t context = ls_dataset_shape(dataset).dims[0];
    int32_t features[MOST_CONTEXT], labels[MOST_CONTEXT];
    assert_ok(ls_dataset_read_source(dataset, index, (float *)(void *)features, LS_LABELS(labels)));
    for (int64_t t = 0; t < context; t++)
        require(features[t] == text->ids[first + t] && labels[t] == text->ids[first + t + 1]);
}

static int64_t slow_count(const struct text *text, int64_t context, int64_t stride) {
    int64_t windows = 0;
    while (windows * stride + context + 1 <= text->count) windows++;
    return windows;
}

TEST(windows_are_those_of_a_slow_reader) {
    struct draw draw = draw_from(first_seed(), 0);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct text text;
        ls_dataset *dataset;
        draw_text(&draw, &text);
        int64_t most = text.count - 1 < MOST_CONTEXT ? text.count - 1 : MOST_CONTEXT;
        int64_t context = 1 + (int64_t)draw_below(&draw, (size_t)most), given = (int64_t)draw_below(&draw, 80);
        bool cached = draw_once_in(&draw, 3);
        assert_ok(ls_dataset_tokens(
            path, LS_DATASET(.tokens = text.format, .context = context, .stride = given, .cache = cached), &dataset));
        int64_t stride = given ? given : context, windows = slow_count(&text, context, stride);
        ck_assert_int_eq(ls_dataset_count(dataset), windows);
        ck_assert_int_eq(ls_dataset_num_classes(dataset), text.vocabulary);
        for (int64_t i = 0; i < windows; i++) check_window(dataset, &text, i, i * stride);
        if (cached) check_window(dataset, &text, 0, 0);
        ls_dataset_free(dataset);
    }
}

/* ---- parts ---- */

/* The numbers of the windows of a part: each of which begins with its own token. */
static int64_t read_part(const ls_dataset_options *options, int64_t begins[MOST]) {
    ls_dataset *dataset;
    int32_t features[MOST_CONTEXT], labels[MOST_CONTEXT];
    assert_ok(ls_dataset_open(path, options, &dataset));
    int64_t count = ls_dataset_count(dataset);
    for (int64_t i = 0; i < count; i++) {
        assert_ok(ls_dataset_read_source(dataset, i, (float *)(void *)features, LS_LABELS(labels)));
        begins[i] = features[0];
    }
    ls_dataset_free(dataset);
    return count;
}

static void write_rising(int64_t count) {
    uint8_t bytes[MOST * 2];
    for (int64_t i = 0; i < count; i++) put_number(bytes + i * 2, (uint32_t)i, 2);
    write_tokens(bytes, (size_t)count * 2);
}

TEST(the_end_of_a_text_is_its_validation_part) {
    int64_t begins[MOST];
    write_rising(101); /* 20 windows of 5 */
    ls_dataset_options options = *LS_DATASET(.tokens = LS_TOKENS_UINT16, .context = 5, .validation_split = 0.15);
    ck_assert_int_eq(read_part(&options, begins), 17);
    for (int i = 0; i < 17; i++) ck_assert_int_eq(begins[i], 5 * i);
    options.part = LS_PART_VALIDATION;
    ck_assert_int_eq(read_part(&options, begins), 3);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(begins[i], 85 + 5 * i);
    options.skip = 2;
    options.limit = 10;
    ck_assert_int_eq(read_part(&options, begins), 2);
    ck_assert(begins[0] == 50 && begins[1] == 55);
}

/* A window of 5 from every token on: 4 before the first one that validates have some of its tokens. */
TEST(no_window_of_both_parts_shares_features) {
    int64_t begins[MOST];
    write_rising(105);
    ls_dataset_options options =
        *LS_DATASET(.tokens = LS_TOKENS_UINT16, .context = 5, .stride = 1, .validation_split = 0.1);
    ck_assert_int_eq(read_part(&options, begins), 86);
    ck_assert_int_eq(begins[85], 85);
    options.part = LS_PART_VALIDATION;
    ck_assert_int_eq(read_part(&options, begins), 10);
    ck_assert_int_eq(begins[0], 90);
    options.validation_split = 0.004;
    assert_refused(ls_dataset_open(path, &options, &(ls_dataset *){NULL}), "it leaves none for validation");
    options.part = LS_PART_TRAINING;
    assert_refused(ls_dataset_open(path, &options, &(ls_dataset *){NULL}), "it leaves none for validation");
}

/* ---- vocabulary ---- */

TEST(a_vocabulary_of_characters_has_their_names) {
    ls_dataset *dataset;
    write_tokens("b\xc3\xa9"
                 "a\nab",
                 7);
    assert_ok(ls_dataset_tokens(path, LS_DATASET(.tokens = LS_TOKENS_CHARS, .context = 2, .vocabulary = 6), &dataset));
    static const char *const names[] = {"\n", "a", "b", "\xc3\xa9", NULL, NULL};
    for (int i = 0; i < 6; i++) {
        const char *name = ls_dataset_class_name(dataset, i);
        ck_assert(names[i] ? name && !strcmp(name, names[i]) : !name);
    }
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 6);
    ls_dataset_free(dataset);
}

TEST(an_id_that_the_vocabulary_has_not_is_told_with_its_offset) {
    ls_dataset *dataset;
    int32_t features[4], labels[4];
    write_rising(9);
    assert_ok(ls_dataset_tokens(path, LS_DATASET(.tokens = LS_TOKENS_UINT16, .context = 4, .vocabulary = 7), &dataset));
    assert_ok(ls_dataset_read_source(dataset, 0, (float *)(void *)features, LS_LABELS(labels)));
    assert_fails(ls_dataset_read_source(dataset, 1, (float *)(void *)features, LS_LABELS(labels)), LS_DATA_LOSS,
                 "has token 7 at offset 14, and the vocabulary has 7: ids are 0 to 6");
    ls_dataset_free(dataset);
}

/* ---- what is wrong ---- */

static void expect_refusal(const void *bytes, size_t size, const ls_dataset_options *options, ls_status status,
                           const char *message) {
    ls_dataset *dataset = NULL;
    write_tokens(bytes, size);
    assert_fails(ls_dataset_open(path, options, &dataset), status, message);
    ck_assert(strstr(ls_error(), "text'") != NULL);
    ck_assert_ptr_null(dataset);
}

TEST(a_wrong_file_is_told_with_the_byte) {
    static const struct {
        const char *bytes;
        size_t size;
        ls_tokens format;
        const char *message;
    } rows[] = {
        {"", 0, LS_TOKENS_BYTES, "is empty"},
        {"", 0, LS_TOKENS_LLMC, "is empty"},
        {"abcde", 5, LS_TOKENS_UINT16, "has 5 bytes, and uint16 tokens have 2 each: the last is cut at offset 4"},
        {"abcde", 5, LS_TOKENS_LLMC, "ends at offset 5"},
        {"ab\xff", 3, LS_TOKENS_CHARS, "has byte 0xff at offset 2"},
        {"ab\xc3", 3, LS_TOKENS_CHARS, "has byte 0xc3 at offset 2"},
        {"a\xc3"
         "b",
         3, LS_TOKENS_CHARS, "has byte 0xc3 at offset 1"},
        {"a\xc0\xaf", 3, LS_TOKENS_CHARS, "has byte 0xc0 at offset 1"},
        {"\xe0\x80\xaf", 3, LS_TOKENS_CHARS, "has byte 0xe0 at offset 0"},
        {"\xed\xa0\x80", 3, LS_TOKENS_CHARS, "has byte 0xed at offset 0"},
        {"\xf4\x90\x80\x80", 4, LS_TOKENS_CHARS, "has byte 0xf4 at offset 0"},
        {"\xf0\x80\x80\x80", 4, LS_TOKENS_CHARS, "has byte 0xf0 at offset 0"},
        {"a\x80", 2, LS_TOKENS_CHARS, "has byte 0x80 at offset 1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refusal(rows[i].bytes, rows[i].size, LS_DATASET(.tokens = rows[i].format, .context = 2), LS_DATA_LOSS,
                       rows[i].message);
}

TEST(a_wrong_header_is_told_with_its_field) {
    static const struct {
        uint32_t magic, version, count;
        const char *message;
    } rows[] = {
        {20240521, 1, 8, "has magic 20240521 at offset 0"},
        {0, 0, 0, "has magic 0 at offset 0"},
        {20240520, 7, 8, "has version 7 at offset 4: with magic 20240520 it is 1"},
        {20240801, 1, 4, "has version 1 at offset 4: with magic 20240801 it is 7"},
        {20240520, 1, 9, "tells of 9 tokens at offset 8, which are 18 bytes: from offset 1024 on it has 16"},
        {20240520, 1, 7, "tells of 7 tokens at offset 8"},
        {20240520, 1, 0, "tells of 0 tokens"},
        {20240801, 7, UINT32_MAX, "tells of 4294967295 tokens"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[HEADER + 16] = {0};
        put_header(bytes, rows[i].magic, rows[i].version, rows[i].count);
        expect_refusal(bytes, sizeof(bytes), LS_DATASET(.tokens = LS_TOKENS_LLMC, .context = 2), LS_DATA_LOSS,
                       rows[i].message);
    }
}

TEST(options_that_do_not_fit_are_named) {
    static const char text[] = "abcdefgh";
    static const struct {
        ls_dataset_options options;
        const char *message;
    } rows[] = {
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_BYTES}, "context is 0"},
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_BYTES, .context = -3}, "context is -3"},
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_BYTES, .context = 8},
         "has 8 tokens (8 bytes), and a window takes context + 1"},
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_CHARS, .context = INT64_MAX}, "has 8 tokens"},
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_BYTES, .context = 2, .vocabulary = 255},
         "vocabulary is 255"},
        {{.size = sizeof(ls_dataset_options), .tokens = LS_TOKENS_CHARS, .context = 2, .vocabulary = 7},
         "has 8 characters"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_refusal(text, 8, &rows[i].options, LS_INVALID_ARGUMENT, rows[i].message);
    ls_dataset *dataset;
    assert_refused(ls_dataset_open(path, LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = 2, .stride = -1), &dataset),
                   "stride is -1");
    assert_refused(
        ls_dataset_open(path, LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = 2, .vocabulary = -1), &dataset),
        "vocabulary is -1");
    assert_refused(ls_dataset_open(path, LS_DATASET(.tokens = (ls_tokens)5), &dataset), "tokens is 5");
    assert_refused(ls_dataset_tokens(path, NULL, &dataset), "tokens is not set");
    assert_fails(ls_dataset_open(path, LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = 2, .split = LS_TEST), &dataset),
                 LS_NOT_FOUND, "has no test split");
    assert_refused(ls_dataset_digits(LS_DATASET(.context = 3), &dataset), "context is set");
    assert_refused(ls_dataset_digits(LS_DATASET(.tokens = LS_TOKENS_BYTES), &dataset), "tokens is set");
}

TEST(a_path_that_is_no_file_is_told) {
    ls_dataset *dataset;
    const ls_dataset_options *options = LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = 2);
    assert_fails(ls_dataset_open("/no/such/file", options, &dataset), LS_NOT_FOUND, "'/no/such/file'");
    assert_refused(ls_dataset_open(folder_path(), options, &dataset), "is no file");
}

/* A look behind the end of a mapping would end the process. */
TEST(a_file_that_becomes_shorter_is_told) {
    ls_dataset *dataset;
    int32_t features[8], labels[8];
    write_rising(300);
    assert_ok(ls_dataset_open(path, LS_DATASET(.tokens = LS_TOKENS_UINT16, .context = 8), &dataset));
    ck_assert_int_eq(truncate(path, 5), 0);
    assert_fails(ls_dataset_read_source(dataset, 30, (float *)(void *)features, LS_LABELS(labels)), LS_DATA_LOSS,
                 "ends at offset 5, and had 600 bytes");
    ls_dataset_free(dataset);
}

/* A function that takes one label an example refuses several. */
TEST(labels_of_positions_are_no_label_of_an_example) {
    ls_dataset *dataset;
    int32_t label;
    write_rising(20);
    assert_ok(ls_dataset_open(path, LS_DATASET(.tokens = LS_TOKENS_UINT16, .context = 4), &dataset));
    assert_refused(ls_dataset_label(dataset, 0, &label), "a class for each position");
    assert_fails(ls_dataset_write(dataset, LS_FORMAT_NPZ, folder_path(), NULL), LS_UNIMPLEMENTED,
                 "a label for each position");
    ls_dataset_free(dataset);
}

TESTS("tokens", .begin = folder_make, .end = folder_remove)
