/* Random vocabularies and random bytes, of which some are UTF-8: each tokenizer gives back what it has encoded, words
 * are merged as the slow encoder merges them, and no token goes over a special one. */
#define _GNU_SOURCE /* memmem */
#include <inttypes.h>
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "data/text/gpt2.h"
#include "property/draw.h"
#include "vocabulary.h"

enum { MOST = 400 };

#define EXPECT(condition)                                                                                              \
    if (!(condition)) trial_fail("--seed %" PRIu64 ": not %s: %s", seed, #condition, ls_error())

static size_t draw_number(void *context, size_t below) {
    return draw_below(context, below);
}

/* Bytes of a kind that changes now and then. */
static size_t draw_text(struct draw *draw, char text[MOST]) {
    static const char *const pieces[] = {"a",
                                         "b",
                                         "ab",
                                         "'s",
                                         "'ll",
                                         " ",
                                         "\n",
                                         "  ",
                                         "1",
                                         "!",
                                         "_",
                                         "\xC3\xA9",
                                         "\xE6\x97\xA5",
                                         "\xE3\x80\x80",
                                         "\xFF",
                                         "\xC3",
                                         "\xED\xA0\x80",
                                         "<|endoftext|>",
                                         "<|",
                                         "\xF0\x9F\x98\x80"};
    size_t size = 0, wanted = draw_below(draw, MOST - 16);
    bool bytes = draw_once_in(draw, 4);
    while (size < wanted) {
        const char *piece = pieces[draw_below(draw, sizeof(pieces) / sizeof(*pieces))];
        if (bytes || draw_once_in(draw, 10))
            text[size++] = (char)draw_below(draw, 256);
        else
            for (; *piece; piece++) text[size++] = *piece;
    }
    return size;
}

static size_t turn(uint64_t seed, const ls_tokenizer *tokenizer, const char *text, size_t size, int32_t ids[MOST]) {
    int32_t *made = NULL;
    char *back = NULL;
    size_t count = 0, length = 0;
    EXPECT(ls_tokenizer_encode(tokenizer, text, size, &made, &count) == LS_OK && count <= size);
    EXPECT(ls_tokenizer_decode(tokenizer, made, count, &back, &length) == LS_OK);
    EXPECT(length == size && !memcmp(back, text, size));
    memcpy(ids, made, count * sizeof(*ids));
    ls_memory_free(made);
    ls_memory_free(back);
    return count;
}

static ls_tokenizer *make_gpt2(uint64_t seed, const struct vocabulary *made, bool special) {
    char *texts[2] = {NULL, NULL};
    size_t sizes[2];
    ls_tokenizer *tokenizer = NULL;
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);
        (i ? vocabulary_put_ids : vocabulary_put_merges)(out, made);
        (void)fclose(out);
    }
    EXPECT(ls_gpt2_make(&(struct ls_gpt2_file){"merges", texts[0], sizes[0]},
                        &(struct ls_gpt2_file){"vocabulary", texts[1], sizes[1]}, special, &tokenizer) == LS_OK);
    free(texts[0]);
    free(texts[1]);
    return tokenizer;
}

static void check_simple(uint64_t seed, const char *text, size_t size) {
    int32_t ids[MOST];
    ls_tokenizer *tokenizer = NULL;
    EXPECT(ls_tokenizer_new_bytes(&tokenizer) == LS_OK);
    EXPECT(turn(seed, tokenizer, text, size, ids) == size);
    ls_tokenizer_free(tokenizer);
    tokenizer = NULL;
    ls_status status = ls_tokenizer_new_chars(text, size, &tokenizer);
    EXPECT(!status || status == LS_INVALID_ARGUMENT);
    if (!status) (void)turn(seed, tokenizer, text, size, ids);
    ls_tokenizer_free(tokenizer);
}

/* The parts between special tokens are encoded as each is alone. */
static void check_special(uint64_t seed, const struct vocabulary *made, const char *text, size_t size) {
    ls_tokenizer *plain = make_gpt2(seed, made, false), *special = make_gpt2(seed, made, true);
    int32_t all[MOST], part[MOST];
    size_t count = turn(seed, special, text, size, all), at = 0;
    for (const char *from = text, *end = text + size, *found; from; from = found ? found + 13 : NULL) {
        found = memmem(from, (size_t)(end - from), "<|endoftext|>", 13);
        size_t length = turn(seed, plain, from, (size_t)((found ? found : end) - from), part);
        EXPECT(at + length <= count && !memcmp(all + at, part, length * sizeof(*part)));
        at += length;
        EXPECT(found ? at < count && all[at++] == made->count : at == count);
    }
    ls_tokenizer_free(plain);
    ls_tokenizer_free(special);
}

/* A word of letters is not cut. */
static void check_word(uint64_t seed, struct draw *draw, const struct vocabulary *made) {
    ls_tokenizer *tokenizer = make_gpt2(seed, made, false);
    char word[MOST];
    int32_t ids[MOST], right[MOST];
    size_t size = 1 + draw_below(draw, MOST - 1);
    for (size_t i = 0; i < size; i++) word[i] = "ab"[draw_below(draw, 2)];
    size_t count = turn(seed, tokenizer, word, size, ids);
    EXPECT(count == vocabulary_encode(made, (const uint8_t *)word, size, right));
    EXPECT(!memcmp(ids, right, count * sizeof(*ids)));
    ls_tokenizer_free(tokenizer);
}

static long one_text(uint64_t seed) {
    struct draw draw = draw_from(seed, 0);
    struct vocabulary made;
    char text[MOST];
    vocabulary_draw(&made, draw_number, &draw);
    size_t size = draw_text(&draw, text);
    check_simple(seed, text, size);
    check_special(seed, &made, text, size);
    check_word(seed, &draw, &made);
    return 1;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/tokenizer", one_text);
}
