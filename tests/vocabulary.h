/* A small vocabulary of byte pair encoding that a test makes, its two files, and encoding as GPT-2's encoder.py does
 * it: slow, and simple. Merge k makes token 256 + k; the token's id is the last one less its number. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY_MERGES = 64, VOCABULARY_TOKENS = 256 + VOCABULARY_MERGES, VOCABULARY_LONGEST = 24 };

struct vocabulary {
    uint8_t bytes[VOCABULARY_TOKENS][VOCABULARY_LONGEST];
    size_t sizes[VOCABULARY_TOKENS];
    int left[VOCABULARY_TOKENS], right[VOCABULARY_TOKENS], count;
};

static inline void vocabulary_begin(struct vocabulary *made) {
    memset(made, 0, sizeof(*made));
    made->count = 256;
    for (int i = 0; i < 256; i++) made->bytes[i][0] = (uint8_t)i, made->sizes[i] = 1;
}

/* False where the token is too long, or there. */
static inline bool vocabulary_add(struct vocabulary *made, int left, int right) {
    int next = made->count;
    size_t size = made->sizes[left] + made->sizes[right];
    if (next == VOCABULARY_TOKENS || size > VOCABULARY_LONGEST) return false;
    memcpy(made->bytes[next], made->bytes[left], made->sizes[left]);
    memcpy(made->bytes[next] + made->sizes[left], made->bytes[right], made->sizes[right]);
    for (int i = 0; i < next; i++)
        if (made->sizes[i] == size && !memcmp(made->bytes[i], made->bytes[next], size)) return false;
    made->sizes[next] = size;
    made->left[next] = left;
    made->right[next] = right;
    made->count++;
    return true;
}

/* By numbers that next gives: tokens of few letters, so that words are full of merges. */
static inline void vocabulary_draw(struct vocabulary *made, size_t (*next)(void *context, size_t below),
                                   void *context) {
    static const char letters[] = "ab 's\n\xC3\xA9\xFF";
    vocabulary_begin(made);
    for (int tries = 0; tries < 400; tries++) {
        int part[2];
        for (int i = 0; i < 2; i++)
            part[i] = made->count > 256 && next(context, 2) ? 256 + (int)next(context, (size_t)made->count - 256)
                                                            : (uint8_t)letters[next(context, sizeof(letters) - 1)];
        (void)vocabulary_add(made, part[0], part[1]);
    }
}

/* ---- files ---- */

/* The letter of a byte, as bytes_to_unicode of encoder.py has it. */
static inline void vocabulary_put_letter(FILE *out, int byte, bool json) {
    int code = 256;
    bool visible[256];
    for (int i = 0; i < 256; i++) visible[i] = (i >= '!' && i <= '~') || (i >= 0xA1 && i != 0xAD);
    for (int i = 0; i < byte; i++) code += !visible[i];
    if (visible[byte]) code = byte;
    if (json && (code == '"' || code == '\\')) (void)fputc('\\', out);
    if (code < 0x80)
        (void)fputc(code, out);
    else
        (void)fprintf(out, "%c%c", 0xC0 | code >> 6, 0x80 | (code & 0x3F));
}

static inline void vocabulary_put_token(FILE *out, const struct vocabulary *made, int token, bool json) {
    for (size_t i = 0; i < made->sizes[token]; i++) vocabulary_put_letter(out, made->bytes[token][i], json);
}

static inline int32_t vocabulary_id(const struct vocabulary *made, int token) {
    return made->count - 1 - token;
}

static inline void vocabulary_put_merges(FILE *out, const struct vocabulary *made) {
    (void)fputs("#version: 0.2\n", out);
    for (int token = 256; token < made->count; token++) {
        vocabulary_put_token(out, made, made->left[token], false);
        (void)fputc(' ', out);
        vocabulary_put_token(out, made, made->right[token], false);
        (void)fputc('\n', out);
    }
}

/* The end of text has the id behind all others. */
static inline void vocabulary_put_ids(FILE *out, const struct vocabulary *made) {
    for (int token = 0; token < made->count; token++) {
        (void)fputs(token ? ", \"" : "{\"", out);
        vocabulary_put_token(out, made, token, true);
        (void)fprintf(out, "\": %d", vocabulary_id(made, token));
    }
    (void)fprintf(out, ", \"<|endoftext|>\": %d}\n", made->count);
}

/* ---- encoding ---- */

/* Merges all neighbours of the least rank, from left to right, until none is left. ids has room for size. */
static inline size_t vocabulary_encode(const struct vocabulary *made, const uint8_t *word, size_t size, int32_t *ids) {
    size_t count = size;
    for (size_t i = 0; i < size; i++) ids[i] = word[i];
    for (int best = 0; best < made->count;) {
        best = made->count;
        for (size_t i = 0; i + 1 < count; i++)
            for (int token = 256; token < best; token++)
                if (made->left[token] == ids[i] && made->right[token] == ids[i + 1]) best = token;
        size_t kept = 0;
        for (size_t i = 0; i < count && best < made->count; kept++) {
            bool merged = i + 1 < count && made->left[best] == ids[i] && made->right[best] == ids[i + 1];
            ids[kept] = merged ? best : ids[i];
            i += merged ? 2 : 1;
        }
        if (best < made->count) count = kept;
    }
    for (size_t i = 0; i < count; i++) ids[i] = vocabulary_id(made, ids[i]);
    return count;
}
