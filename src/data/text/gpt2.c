/* Encoding: special tokens part a text, a cutter cuts the rest into words, and merges make tokens of each. */
#define _GNU_SOURCE /* memmem */
#include "data/text/gpt2.h"

#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/read_file.h"

struct encoding {
    const struct ls_gpt2 *gpt2;
    struct ls_merge_work work;
    struct ls_token_ids *ids;
};

static ls_status encode_word(void *context, struct ls_token_bytes word) {
    struct encoding *encoding = context;
    return ls_merges_apply(&encoding->gpt2->merges, encoding->gpt2->bytes, word, &encoding->work, encoding->ids);
}

/* The length of what stands before the special token, which is *found. */
static size_t length_before(const struct ls_gpt2 *gpt2, struct ls_token_bytes text, bool *found) {
    const uint8_t *at = gpt2->special ? memmem(text.at, text.size, LS_END_OF_TEXT, strlen(LS_END_OF_TEXT)) : NULL;
    *found = at;
    return at ? (size_t)(at - text.at) : text.size;
}

static ls_status encode_gpt2(const struct ls_tokenizer *tokenizer, const uint8_t *text, size_t size,
                             struct ls_token_ids *ids) {
    struct encoding encoding = {(const struct ls_gpt2 *)tokenizer, {0}, ids};
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status;) {
        bool found;
        struct ls_token_bytes plain = {text + at, size - at};
        plain.size = length_before(encoding.gpt2, plain, &found);
        status = ls_cutter_walk(encoding.gpt2->cutter, plain, encode_word, &encoding);
        if (!status && found) status = ls_tokenizer_add(ids, tokenizer->end_of_text);
        at += plain.size + (found ? strlen(LS_END_OF_TEXT) : 0);
    }
    ls_merge_work_free(&encoding.work);
    return status;
}

static void release_gpt2(struct ls_tokenizer *tokenizer) {
    struct ls_gpt2 *gpt2 = (struct ls_gpt2 *)tokenizer;
    ls_cutter_free(gpt2->cutter);
    ls_merges_free(&gpt2->merges);
}

static const struct ls_tokenizer_ops gpt2_ops = {.encode = encode_gpt2, .release = release_gpt2};

ls_status ls_gpt2_make(const struct ls_gpt2_file *merges, const struct ls_gpt2_file *vocabulary, bool special,
                       ls_tokenizer **tokenizer) {
    LS_NEW(struct ls_gpt2, made, "a tokenizer");
    made->tokenizer.ops = &gpt2_ops;
    made->special = special;
    ls_status status = ls_gpt2_vocabulary_parse(vocabulary, made);
    if (!status) status = ls_gpt2_merges_parse(merges, vocabulary->path, made);
    if (!status) status = ls_cutter_new(&made->cutter);
    if (!status && special && made->tokenizer.end_of_text < 0)
        status = ls_fail(LS_INVALID_ARGUMENT, "special: '%s' has no token " LS_END_OF_TEXT "; leave special out",
                         vocabulary->path);
    return LS_HAND_OVER(status, tokenizer, &made->tokenizer, ls_tokenizer_free(&made->tokenizer));
}

ls_status ls_tokenizer_new_gpt2(const char *merges, const char *vocabulary, bool special, ls_tokenizer **tokenizer) {
    LS_NEED(merges, vocabulary, tokenizer);
    LS_CLEANUP(ls_free_pointer) char *merges_text = NULL;
    LS_CLEANUP(ls_free_pointer) char *vocabulary_text = NULL;
    struct ls_gpt2_file files[2] = {{.path = merges}, {.path = vocabulary}};
    ls_status status = ls_read_file_given("merges", merges, SIZE_MAX / 2, &merges_text, &files[0].size);
    if (!status) status = ls_read_file_given("vocabulary", vocabulary, SIZE_MAX / 2, &vocabulary_text, &files[1].size);
    files[0].text = merges_text;
    files[1].text = vocabulary_text;
    return status ? status : ls_gpt2_make(&files[0], &files[1], special, tokenizer);
}
