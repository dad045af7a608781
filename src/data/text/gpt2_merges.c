/* The reader of vocab.bpe: "#version", then a line for each merge, of two tokens in letters with a space between. Each
 * merge makes a token that none before has made, of tokens that are there by then, and with the bytes each token of the
 * vocabulary is made: so all ids can come of a text, and the order of merging has one result (merges.c). */
#define _GNU_SOURCE /* qsort_r */
#include "data/text/gpt2.h"

#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "base/plain.h"
#include "data/text/letters.h"

#define VERSION "#version"

struct merge_reader {
    const char *path, *vocabulary;
    struct ls_gpt2 *gpt2;
    struct ls_letters letters;
    int32_t *sorted;  /* owns: ids by their bytes */
    int64_t *made_at; /* owns: by id: the line that makes it, 0: none, -1: it is a byte */
    uint8_t *joined;  /* owns: the bytes of a line's token */
    int64_t line;
};

__attribute__((format(printf, 2, 3))) static ls_status fail_line(const struct merge_reader *reader, const char *format,
                                                                 ...) {
    char text[384];
    (void)LS_PLAIN_ARGUMENTS(text, sizeof(text), format);
    return ls_fail(LS_DATA_LOSS, "merges '%s' line %lld: %s; take GPT-2's vocab.bpe as it was published", reader->path,
                   (long long)reader->line, text);
}

/* ---- tokens by their bytes ---- */

static int compare_bytes(struct ls_token_bytes a, struct ls_token_bytes b) {
    int order = memcmp(a.at, b.at, ls_smaller_size(a.size, b.size));
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_ids(const void *left, const void *right, void *table) {
    return compare_bytes(ls_tokenizer_token(table, *(const int32_t *)left),
                         ls_tokenizer_token(table, *(const int32_t *)right));
}

static ls_status sort_tokens(struct merge_reader *reader) {
    struct ls_token_table *table = &reader->gpt2->tokenizer.table;
    size_t count = (size_t)table->count;
    reader->sorted = ls_alloc_array(count, sizeof(*reader->sorted));
    reader->made_at = ls_alloc_array(count, sizeof(*reader->made_at));
    if (!reader->sorted || !reader->made_at) return ls_fail_memory("tokens", count);
    for (size_t i = 0; i < count; i++) reader->sorted[i] = (int32_t)i;
    qsort_r(reader->sorted, count, sizeof(*reader->sorted), compare_ids, table);
    for (size_t i = 1; i < count; i++)
        if (!compare_ids(&reader->sorted[i - 1], &reader->sorted[i], table))
            return ls_fail(LS_DATA_LOSS,
                           "vocabulary '%s': ids %d and %d have the same token; take GPT-2's encoder.json as it was "
                           "published",
                           reader->vocabulary, reader->sorted[i - 1], reader->sorted[i]);
    for (int byte = 0; byte < 256; byte++) reader->made_at[reader->gpt2->bytes[byte]] = -1;
    return LS_OK;
}

static int32_t find_token(const struct merge_reader *reader, struct ls_token_bytes bytes) {
    size_t low = 0, high = (size_t)reader->gpt2->tokenizer.table.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_bytes(ls_tokenizer_token(&reader->gpt2->tokenizer.table, reader->sorted[middle]), bytes);
        if (!order) return reader->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- lines ---- */

/* Reads the bytes of a token in letters. */
static ls_status read_letters(const struct merge_reader *reader, const char *text, size_t size, uint8_t *bytes,
                              struct ls_token_bytes *part) {
    part->at = bytes;
    if (!ls_letters_read(&reader->letters, text, size, bytes, &part->size))
        return fail_line(reader, "'%.*s' has a character that stands for no byte, or none",
                         (int)ls_smaller_size(size, 60), text);
    return LS_OK;
}

/* Finds the token, which is a byte or made by a line before. */
static ls_status find_part(const struct merge_reader *reader, const char *text, size_t size,
                           struct ls_token_bytes bytes, int32_t *id) {
    int shown = (int)ls_smaller_size(size, 60);
    *id = find_token(reader, bytes);
    if (*id < 0) return fail_line(reader, "'%.*s' is no token of '%s'", shown, text, reader->vocabulary);
    return reader->made_at[*id] ? LS_OK
                                : fail_line(reader, "'%.*s' is neither a byte nor made by a line before", shown, text);
}

static ls_status add_merge(struct merge_reader *reader, struct ls_merge merge) {
    int64_t *at = &reader->made_at[merge.made];
    if (*at) return fail_line(reader, "it makes the token of id %d, as line %lld does", merge.made, (long long)*at);
    *at = reader->line;
    return ls_merges_add(&reader->gpt2->merges, &merge);
}

static ls_status read_merge(struct merge_reader *reader, const char *line, size_t size) {
    const char *space = memchr(line, ' ', size);
    size_t first = space ? (size_t)(space - line) : 0, second = space ? size - first - 1 : 0;
    struct ls_token_bytes left, right;
    struct ls_merge merge;
    if (!space) return fail_line(reader, "it is not two tokens with a space between");
    ls_status status = read_letters(reader, line, first, reader->joined, &left);
    if (!status) status = read_letters(reader, space + 1, second, reader->joined + left.size, &right);
    if (!status) status = find_part(reader, line, first, left, &merge.left);
    if (!status) status = find_part(reader, space + 1, second, right, &merge.right);
    if (status) return status;
    merge.made = find_token(reader, (struct ls_token_bytes){reader->joined, left.size + right.size});
    if (merge.made < 0) return fail_line(reader, "'%s' has no token of that merge", reader->vocabulary);
    return add_merge(reader, merge);
}

static ls_status read_lines(struct merge_reader *reader, const char *text, size_t size) {
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        if (++reader->line > 1)
            status = read_merge(reader, text + at, length);
        else if (strncmp(text, VERSION, strlen(VERSION)) != 0)
            status = fail_line(reader, "it does not begin with " VERSION);
        at += length + 1;
    }
    return status || reader->line ? status : fail_line(reader, "the file is empty");
}

static ls_status check_made(const struct merge_reader *reader) {
    const ls_tokenizer *tokenizer = &reader->gpt2->tokenizer;
    for (int64_t id = 0; id < tokenizer->table.count; id++)
        if (!reader->made_at[id] && id != tokenizer->end_of_text)
            return fail_line(reader, "the file ends, and no line has made the token of id %lld of '%s'", (long long)id,
                             reader->vocabulary);
    return LS_OK;
}

ls_status ls_gpt2_merges_parse(const struct ls_gpt2_file *file, const char *vocabulary, struct ls_gpt2 *gpt2) {
    struct merge_reader reader = {file->path, vocabulary, gpt2, .joined = ls_alloc(file->size)};
    ls_letters_fill(&reader.letters);
    ls_status status = reader.joined ? LS_OK : ls_fail_memory(file->path, file->size);
    if (!status) status = sort_tokens(&reader);
    if (!status) status = read_lines(&reader, file->text, file->size);
    if (!status) status = check_made(&reader);
    if (!status) status = ls_merges_settle(&gpt2->merges);
    ls_free(reader.sorted);
    ls_free(reader.made_at);
    ls_free(reader.joined);
    return status;
}
