/* The tokenizer whose tokens are the characters of a text, sorted by code point. */
#include <stdlib.h>

#include "base/need.h"
#include "base/new.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"

/* Ids rise with code points. */
struct chars {
    ls_tokenizer tokenizer;
    uint32_t *codes; /* owns: by id */
};

static ls_status fail_character(const uint8_t *text, size_t at, const char *what) {
    return ls_fail(LS_INVALID_ARGUMENT, "the text's byte %zu, 0x%02x: %s", at, text[at], what);
}

/* Moves *at behind the character there. */
static ls_status next_character(const uint8_t *text, size_t size, size_t *at, uint32_t *code) {
    size_t length = ls_utf8_character(text + *at, size - *at);
    if (!length) return fail_character(text, *at, "it is not UTF-8; convert the text, or use tokens of bytes");
    *code = ls_utf8_code(text + *at, length);
    *at += length;
    return LS_OK;
}

static int compare_codes(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static ls_status encode_chars(const struct ls_tokenizer *tokenizer, const uint8_t *text, size_t size,
                              struct ls_token_ids *ids) {
    const struct chars *chars = (const struct chars *)tokenizer;
    ls_status status = LS_OK;
    for (size_t at = 0, begun = 0; at < size && !status; begun = at) {
        uint32_t code = 0;
        status = next_character(text, size, &at, &code);
        if (status) break;
        const uint32_t *found =
            bsearch(&code, chars->codes, (size_t)tokenizer->table.count, sizeof(code), compare_codes);
        status = found
                     ? ls_tokenizer_add(ids, (int32_t)(found - chars->codes))
                     : fail_character(text, begun, "the vocabulary has no such character; make it of a text that has");
    }
    return status;
}

static void release_chars(struct ls_tokenizer *tokenizer) {
    ls_free(((struct chars *)tokenizer)->codes);
}

static const struct ls_tokenizer_ops char_ops = {.encode = encode_chars, .release = release_chars};

static ls_status mark_characters(const uint8_t *text, size_t size, uint8_t *there, int64_t *count) {
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status;) {
        uint32_t code = 0;
        status = next_character(text, size, &at, &code);
        if (!status && !there[code]) ++*count, there[code] = 1;
    }
    return status;
}

static ls_status fill_chars(struct chars *chars, const uint8_t *there, int64_t count) {
    struct ls_token_table *table = &chars->tokenizer.table;
    chars->codes = ls_alloc_array((size_t)count, sizeof(*chars->codes));
    ls_status status = ls_tokenizer_table_new(count, (size_t)count * 4, table);
    if (status || !chars->codes) return status ? status : ls_fail_memory("a vocabulary", (size_t)count);
    size_t id = 0;
    for (uint32_t code = 0; code < LS_CODE_POINTS; code++) {
        if (!there[code]) continue;
        chars->codes[id] = code;
        table->starts[id + 1] = table->starts[id] + ls_utf8_put(code, table->bytes + table->starts[id]);
        id++;
    }
    return LS_OK;
}

ls_status ls_tokenizer_new_chars(const void *text, size_t size, ls_tokenizer **tokenizer) {
    LS_NEED(text, tokenizer);
    if (size > PTRDIFF_MAX) return ls_fail_memory("a text", size);
    if (!size) return ls_fail(LS_INVALID_ARGUMENT, "the text is empty: a vocabulary of chars needs a character");
    LS_CLEANUP(ls_free_pointer) uint8_t *there = ls_alloc(LS_CODE_POINTS);
    if (!there) return ls_fail_memory("a vocabulary", LS_CODE_POINTS);
    int64_t count = 0;
    ls_status status = mark_characters(text, size, there, &count);
    if (status) return status;
    LS_NEW(struct chars, made, "a tokenizer");
    made->tokenizer.ops = &char_ops;
    made->tokenizer.end_of_text = -1;
    status = fill_chars(made, there, count);
    return LS_HAND_OVER(status, tokenizer, &made->tokenizer, ls_tokenizer_free(&made->tokenizer));
}
