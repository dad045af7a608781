/* Tokenizers: what tiktoken has recorded, GPT-2's slow encoder on random vocabularies, and files that are damaged. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "data/fixture.h"
#include "property/draw.h"
#include "vocabulary.h"

#define GOLDEN(name) TOKENS_GOLDEN "/" name

static size_t draw_number(void *context, size_t below) {
    return draw_below(context, below);
}

static ls_status open_gpt2(const char *folder, bool special, ls_tokenizer **tokenizer) {
    char merges[512], vocabulary[512];
    (void)snprintf(merges, sizeof(merges), "%s/vocab.bpe", folder);
    (void)snprintf(vocabulary, sizeof(vocabulary), "%s/encoder.json", folder);
    return ls_tokenizer_new_gpt2(merges, vocabulary, special, tokenizer);
}

/* Encodes and decodes; the text comes back. *ids is freed by the caller. */
static size_t turn(const ls_tokenizer *tokenizer, const void *text, size_t size, int32_t **ids) {
    size_t count = 0, back_size = 0;
    char *back = NULL;
    assert_ok(ls_tokenizer_encode(tokenizer, text, size, ids, &count));
    assert_ok(ls_tokenizer_decode(tokenizer, *ids, count, &back, &back_size));
    ck_assert_uint_eq(back_size, size);
    ck_assert(!memcmp(back, text, size) && back[size] == '\0');
    ls_memory_free(back);
    return count;
}

static void expect(const ls_tokenizer *tokenizer, const char *text, size_t size, const int32_t *right, size_t count) {
    int32_t *ids = NULL;
    size_t found = turn(tokenizer, text, size, &ids);
    ck_assert_uint_eq(found, count);
    for (size_t i = 0; i < count; i++) ck_assert_msg(ids[i] == right[i], "ids[%zu] of '%s' is %d", i, text, ids[i]);
    ls_memory_free(ids);
}
#define EXPECT(tokenizer, text, ...)                                                                                   \
    expect(tokenizer, text, sizeof(text) - 1, (const int32_t[]){__VA_ARGS__},                                          \
           sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* ---- against tiktoken ---- */

static size_t read_hex(const char *hex, char *text) {
    size_t size = 0;
    unsigned byte;
    for (; *hex != '-' && sscanf(hex, "%2x", &byte) == 1; hex += 2) text[size++] = (char)byte;
    return size;
}

/* The texts of the lines of that name. */
static int compare_golden(const ls_tokenizer *tokenizer, const char *name) {
    FILE *file = fopen(GOLDEN("texts.txt"), "r");
    ck_assert_ptr_nonnull(file);
    char line[4096], text[1024];
    int compared = 0;
    while (fgets(line, sizeof(line), file)) {
        int32_t ids[512];
        size_t count = 0;
        char *state = NULL, *word = strtok_r(line, " \n", &state);
        if (strcmp(word, name) != 0) continue;
        size_t size = read_hex(strtok_r(NULL, " \n", &state), text);
        text[size] = '\0';
        while ((word = strtok_r(NULL, " \n", &state))) ids[count++] = (int32_t)strtol(word, NULL, 10);
        expect(tokenizer, text, size, ids, count);
        compared++;
    }
    (void)fclose(file);
    return compared;
}

TEST(a_small_vocabulary_encodes_as_tiktoken_does) {
    ls_tokenizer *tokenizer = NULL;
    assert_ok(open_gpt2(TOKENS_GOLDEN, false, &tokenizer));
    ck_assert_int_eq(ls_tokenizer_vocabulary(tokenizer), 557);
    ck_assert_int_eq(ls_tokenizer_end_of_text(tokenizer), 556);
    ck_assert_int_gt(compare_golden(tokenizer, "small"), 100);
    ls_tokenizer_free(tokenizer);
}

/* LOCKSTEP_TEST_TEXT is a folder with OpenAI's vocab.bpe and encoder.json, and tinyshakespeare.txt. */
TEST(gpt2_encodes_as_tiktoken_does) {
    const char *folder = getenv("LOCKSTEP_TEST_TEXT");
    ls_tokenizer *tokenizer = NULL;
    if (!folder) return;
    assert_ok(open_gpt2(folder, false, &tokenizer));
    ck_assert_int_eq(ls_tokenizer_vocabulary(tokenizer), 50257);
    ck_assert_int_eq(ls_tokenizer_end_of_text(tokenizer), 50256);
    ck_assert_int_gt(compare_golden(tokenizer, "gpt2"), 100);
    char path[512], *text = malloc(1 << 21);
    (void)snprintf(path, sizeof(path), "%s/tinyshakespeare.txt", folder);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(text, 1, 1 << 21, file);
    (void)fclose(file);
    int32_t *ids = NULL;
    ck_assert_uint_eq(turn(tokenizer, text, size, &ids), 338025);
    ls_memory_free(ids);
    free(text);
    ls_tokenizer_free(tokenizer);
}

/* ---- against encoder.py ---- */

static void write_vocabulary(const struct vocabulary *made) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    vocabulary_put_merges(out, made);
    (void)fclose(out);
    folder_write("vocab.bpe", text, size, false);
    free(text);
    out = open_memstream(&text, &size);
    vocabulary_put_ids(out, made);
    (void)fclose(out);
    folder_write("encoder.json", text, size, false);
    free(text);
}

/* A word of letters alone, or of bytes that are not UTF-8: it is not cut. */
TEST_EACH(random_merges_are_those_of_the_slow_encoder, 30) {
    struct draw draw = draw_from((uint64_t)_i, 1);
    struct vocabulary made;
    ls_tokenizer *tokenizer = NULL;
    folder_clear();
    vocabulary_draw(&made, draw_number, &draw);
    write_vocabulary(&made);
    assert_ok(open_gpt2(folder_path(), false, &tokenizer));
    for (int trial = 0; trial < 200; trial++) {
        char word[64];
        int32_t right[64];
        bool letters = trial % 2;
        size_t size = 1 + draw_below(&draw, sizeof(word));
        for (size_t i = 0; i < size; i++)
            word[i] = letters ? "ab"[draw_below(&draw, 2)] : "\xFF\xA9"[draw_below(&draw, 2)];
        expect(tokenizer, word, size, right, vocabulary_encode(&made, (const uint8_t *)word, size, right));
    }
    ls_tokenizer_free(tokenizer);
}

/* ---- words ---- */

/* Bytes alone, and the merge "a b". */
static ls_tokenizer *open_one_merge(bool special) {
    struct vocabulary made;
    ls_tokenizer *tokenizer = NULL;
    folder_clear();
    vocabulary_begin(&made);
    ck_assert(vocabulary_add(&made, 'a', 'b') && vocabulary_add(&made, 0xE6, 0x97));
    write_vocabulary(&made);
    assert_ok(open_gpt2(folder_path(), special, &tokenizer));
    return tokenizer;
}
enum { ONE_MERGE = 258 };
#define BYTE(byte) (ONE_MERGE - 1 - (byte))
#define AB         (ONE_MERGE - 1 - 256)
#define CUT        (ONE_MERGE - 1 - 257) /* the first two bytes of U+65E5 */

TEST(special_tokens_are_text_unless_they_are_asked_for) {
    ls_tokenizer *plain = open_one_merge(false), *special = open_one_merge(true);
    int32_t *ids = NULL;
    ck_assert_uint_eq(turn(plain, "<|endoftext|>", 13, &ids), 13);
    ls_memory_free(ids);
    EXPECT(special, "<|endoftext|>", ONE_MERGE);
    EXPECT(special, "ab<|endoftext|><|endoftext|>a", AB, ONE_MERGE, ONE_MERGE, BYTE('a'));
    EXPECT(special, "b<|endoftext|", BYTE('b'), BYTE('<'), BYTE('|'), BYTE('e'), BYTE('n'), BYTE('d'), BYTE('o'),
           BYTE('f'), BYTE('t'), BYTE('e'), BYTE('x'), BYTE('t'), BYTE('|'));
    ls_tokenizer_free(plain);
    ls_tokenizer_free(special);
}

/* A run of them is a word of its own: no merge goes over its ends, and it parts what stands before and behind. */
TEST(bytes_that_are_not_utf8_are_a_word) {
    ls_tokenizer *tokenizer = open_one_merge(false);
    EXPECT(tokenizer, "\xE6\x97", CUT);
    EXPECT(tokenizer, "\xE6\x97\xA5", CUT, BYTE(0xA5));
    EXPECT(tokenizer,
           "ab\xFF\xE6\x97"
           "ab",
           AB, BYTE(0xFF), CUT, AB);
    EXPECT(tokenizer,
           "a\x80"
           "b",
           BYTE('a'), BYTE(0x80), BYTE('b'));
    EXPECT(tokenizer, "\xED\xA0\x80", BYTE(0xED), BYTE(0xA0), BYTE(0x80)); /* a surrogate */
    ls_tokenizer_free(tokenizer);
}

/* Neither the stack nor the time grows with a run's square. */
TEST_EACH(long_runs_take_no_longer_than_short_ones, 5) {
    static const char *const units[] = {"a", "ab", " ", "\xFF", "\xE3\x80\x80"};
    ls_tokenizer *tokenizer = open_one_merge(false);
    size_t unit = strlen(units[_i]), size = unit * MANY(2000000);
    char *text = malloc(size);
    int32_t *ids = NULL;
    for (size_t i = 0; i < size; i++) text[i] = units[_i][i % unit];
    int64_t start = ls_now();
    size_t count = turn(tokenizer, text, size, &ids);
    ck_assert_uint_eq(count, _i == 1 ? size / 2 : size);
    assert_within(start, 10);
    ls_memory_free(ids);
    free(text);
    ls_tokenizer_free(tokenizer);
}

/* ---- bytes and chars ---- */

TEST(a_byte_is_its_value) {
    ls_tokenizer *tokenizer = NULL;
    char all[256];
    int32_t right[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i, right[i] = i;
    assert_ok(ls_tokenizer_new_bytes(&tokenizer));
    expect(tokenizer, all, sizeof(all), right, 256);
    expect(tokenizer, "", 0, right, 0);
    ck_assert(ls_tokenizer_vocabulary(tokenizer) == 256 && ls_tokenizer_end_of_text(tokenizer) == -1);
    ls_tokenizer_free(tokenizer);
}

TEST(a_character_is_its_place_among_those_of_the_text) {
    static const char text[] = "\xF0\x9F\x98\x80"
                               "b\xC3\xA9\n\0bb\xE2\x82\xAC";
    ls_tokenizer *tokenizer = NULL;
    assert_ok(ls_tokenizer_new_chars(text, sizeof(text) - 1, &tokenizer));
    ck_assert_int_eq(ls_tokenizer_vocabulary(tokenizer), 6);
    expect(tokenizer, text, sizeof(text) - 1, (const int32_t[]){5, 2, 3, 1, 0, 2, 2, 4}, 8);
    ls_tokenizer_free(tokenizer);
}

TEST(texts_that_chars_cannot_have_are_refused_with_their_byte) {
    ls_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t count;
    assert_refused(ls_tokenizer_new_chars("", 0, &tokenizer), "the text is empty");
    assert_refused(ls_tokenizer_new_chars("ab\xC3", 3, &tokenizer), "byte 2, 0xc3: it is not UTF-8");
    assert_refused(ls_tokenizer_new_chars("\xC0\x80", 2, &tokenizer), "byte 0, 0xc0: it is not UTF-8");
    assert_refused(ls_tokenizer_new_chars("a\xED\xA0\x80", 4, &tokenizer), "byte 1, 0xed: it is not UTF-8");
    assert_ok(ls_tokenizer_new_chars("ab", 2, &tokenizer));
    assert_refused(ls_tokenizer_encode(tokenizer, "abc", 3, &ids, &count), "byte 2, 0x63: the vocabulary has no such");
    assert_refused(ls_tokenizer_encode(tokenizer, "a\xFF", 2, &ids, &count), "byte 1, 0xff: it is not UTF-8");
    ck_assert_ptr_null(ids);
    ls_tokenizer_free(tokenizer);
}

TEST(ids_that_are_none_are_refused_with_their_place) {
    ls_tokenizer *tokenizer = NULL;
    char *text = NULL;
    size_t size;
    assert_ok(ls_tokenizer_new_bytes(&tokenizer));
    assert_refused(ls_tokenizer_decode(tokenizer, (const int32_t[]){1, 256}, 2, &text, &size),
                   "ids[1] is 256: the vocabulary has the ids 0 to 255");
    assert_refused(ls_tokenizer_decode(tokenizer, (const int32_t[]){-1}, 1, &text, &size), "ids[0] is -1");
    ck_assert_ptr_null(text);
    ls_tokenizer_free(tokenizer);
}

/* ---- damaged files ---- */

/* A change of a sound file: what stands there for the first time, and what is put in its place. */
static const struct {
    bool merges;
    const char *from, *to, *says;
} damages[] = {
    {true, "#version", "version", "line 1: it does not begin with #version"},
    {true, "\na b\n", "\n\na b\n", "line 2: it is not two tokens with a space between"},
    {true, "\na b\n", "\nab\n", "line 2: it is not two tokens with a space between"},
    {true, "\na b\n", "\na  b\n", "line 2: ' b' has a character that stands for no byte, or none"},
    {true, "\na b\n", "\n b\n", "line 2: '' has a character that stands for no byte, or none"},
    {true, "\na b\n", "\na b\r\n", "line 2: 'b\r' has a character that stands for no byte"},
    {true, "\na b\n", "\na \xE2\x82\xAC\n", "has a character that stands for no byte"},
    {true, "\na b\n", "\na \xFF\n", "has a character that stands for no byte"},
    {true, "\na b\n", "\nzz b\n", "line 2: 'zz' is no token of '"},
    {true, "\na b\n", "\nb a\n", "encoder.json' has no token of that merge"},
    {true, "\na b\n", "\nab c\na b\n", "line 2: 'ab' is neither a byte nor made by a line before"},
    {true, "\na b\n", "\na b\na b\n", "line 3: it makes the token of id 1, as line 2 does"},
    {true, "\na b\n", "\n", "line 2: 'ab' is neither a byte nor made by a line before"},
    {true, "ab c\n", "", "line 2: the file ends, and no line has made the token of id 0 of '"},
    {false, "{", "[", "it is no JSON at byte "},
    {false, ": 258}", ": 258", "it is no JSON at byte "},
    {false, ": 258}", ": 258} x", "it is no JSON at byte "},
    {false, "\"ab\": 1", "\"ab\": 1.5", "the id of token 'ab' is no whole number from 0 to 258"},
    {false, "\"ab\": 1", "\"ab\": 259", "the id of token 'ab' is no whole number from 0 to 258"},
    {false, "\"ab\": 1", "\"ab\": -1", "the id of token 'ab' is no whole number"},
    {false, "\"ab\": 1", "\"ab\": \"2\"", "the id of token 'ab' is no whole number"},
    {false, "\"ab\": 1", "\"ab\": 0", "tokens 'ab' and 'abc' have the id 0"},
    {false, "\"ab\": 1", "\"a\": 1", "token 'a' stands twice"},
    {false, "\"ab\": 1", "\"abc\": 1", "ids 0 and 1 have the same token"},
    {false, "\"ab\": 1", "\"\": 1", "token '' of id 1 has a character that stands for no byte, or none"},
    {false, "\"ab\": 1", "\"a\\u20ac\": 1", "of id 1 has a character that stands for no byte"},
    {false, "\"ab\": 1", "\"ab\\u0000\": 1", "is a zero, or stands for one"},
    {false, "\"ab\": 1", "\"ba\": 1", "line 2: '"},
    {false, "\"a\": ", "\"aa\": ", "no token is the byte 0x61 alone"},
};

static size_t read_sound(const char *name, char text[16384]) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder_path(), name);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(text, 1, 16384, file);
    (void)fclose(file);
    return size;
}

/* Two merges: "a b" makes id 1, "ab c" id 0, and 258 is the end of text. */
static void write_two_merges(void) {
    struct vocabulary made;
    folder_clear();
    vocabulary_begin(&made);
    ck_assert(vocabulary_add(&made, 'a', 'b') && vocabulary_add(&made, 256, 'c'));
    write_vocabulary(&made);
}

TEST_EACH(damaged_files_are_refused_with_line_or_byte, COUNT_OF(damages)) {
    static char text[16384], changed[20000];
    const char *name = damages[_i].merges ? "vocab.bpe" : "encoder.json";
    ls_tokenizer *tokenizer = NULL;
    write_two_merges();
    size_t size = read_sound(name, text), length = strlen(damages[_i].from), put = strlen(damages[_i].to);
    char *at = memmem(text, size, damages[_i].from, length);
    ck_assert_ptr_nonnull(at);
    size_t before = (size_t)(at - text);
    memcpy(changed, text, before);
    memcpy(changed + before, damages[_i].to, put);
    memcpy(changed + before + put, at + length, size - before - length);
    folder_write(name, changed, size - length + put, false);
    assert_fails(open_gpt2(folder_path(), false, &tokenizer), LS_DATA_LOSS, damages[_i].says);
    ck_assert_ptr_nonnull(strstr(ls_error(), name));
    ck_assert_ptr_null(tokenizer);
}

/* A vocabulary whose merges end too soon is not all made. */
TEST(every_truncation_of_a_file_is_refused) {
    static char text[16384];
    for (int file = 0; file < 2; file++) {
        const char *name = file ? "vocab.bpe" : "encoder.json";
        write_two_merges();
        size_t size = read_sound(name, text) - 2; /* what stands before the last line end */
        for (size_t left = 0; left < size; left += file ? 1 : 7) {
            ls_tokenizer *tokenizer = NULL;
            folder_write(name, text, left, false);
            assert_fails(open_gpt2(folder_path(), false, &tokenizer), LS_DATA_LOSS, name);
        }
    }
}

TEST(files_that_are_not_there_are_named) {
    ls_tokenizer *tokenizer = NULL;
    folder_clear();
    assert_refused(open_gpt2(folder_path(), false, &tokenizer), "vocab.bpe' cannot be read: No such file");
    write_two_merges();
    assert_ok(open_gpt2(folder_path(), true, &tokenizer));
    ls_tokenizer_free(tokenizer);
}

TEST(special_needs_an_end_of_text) {
    static char text[16384];
    ls_tokenizer *tokenizer = NULL;
    write_two_merges();
    size_t size = read_sound("encoder.json", text);
    char *at = memmem(text, size, ", \"<|endoftext|>\"", 17);
    ck_assert_ptr_nonnull(at);
    at[0] = '}';
    folder_write("encoder.json", text, (size_t)(at - text) + 1, false);
    assert_refused(open_gpt2(folder_path(), true, &tokenizer), "has no token <|endoftext|>; leave special out");
    assert_ok(open_gpt2(folder_path(), false, &tokenizer));
    ck_assert_int_eq(ls_tokenizer_end_of_text(tokenizer), -1);
    ls_tokenizer_free(tokenizer);
}

TESTS("tokenizer", .begin = folder_make, .end = folder_remove)
