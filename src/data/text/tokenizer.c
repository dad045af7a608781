/* The public functions of tokenizers, and the kind whose tokens are bytes. */
#include "data/text/tokenizer.h"

#include <string.h>

#include "base/grow.h"
#include "base/need.h"
#include "base/new.h"

enum { BYTES = 256 };

ls_status ls_tokenizer_table_new(int64_t count, size_t bytes, struct ls_token_table *table) {
    table->bytes = ls_alloc(bytes);
    table->starts = ls_alloc_array((size_t)count + 1, sizeof(*table->starts));
    table->count = count;
    return table->bytes && table->starts ? LS_OK : ls_fail_memory("a vocabulary", bytes);
}

struct ls_token_bytes ls_tokenizer_token(const struct ls_token_table *table, int64_t id) {
    return (struct ls_token_bytes){table->bytes + table->starts[id], table->starts[id + 1] - table->starts[id]};
}

ls_status ls_tokenizer_add(struct ls_token_ids *ids, int32_t id) {
    ls_status status = LS_GROW(ids->list, ids->room, ids->count + 1, 1024, "the ids of a text");
    if (!status) ids->list[ids->count++] = id;
    return status;
}

/* ---- bytes ---- */

static ls_status encode_bytes(const struct ls_tokenizer *tokenizer, const uint8_t *text, size_t size,
                              struct ls_token_ids *ids) {
    (void)tokenizer;
    ls_status status = LS_OK;
    for (size_t i = 0; i < size && !status; i++) status = ls_tokenizer_add(ids, text[i]);
    return status;
}

static const struct ls_tokenizer_ops byte_ops = {.encode = encode_bytes};

ls_status ls_tokenizer_new_bytes(ls_tokenizer **tokenizer) {
    LS_NEED(tokenizer);
    LS_NEW(ls_tokenizer, made, "a tokenizer");
    made->ops = &byte_ops;
    made->end_of_text = -1;
    ls_status status = ls_tokenizer_table_new(BYTES, BYTES, &made->table);
    for (size_t i = 0; i < BYTES && !status; i++) {
        made->table.bytes[i] = (uint8_t)i;
        made->table.starts[i + 1] = i + 1;
    }
    return LS_HAND_OVER(status, tokenizer, made, ls_tokenizer_free(made));
}

/* ---- all kinds ---- */

void ls_tokenizer_free(ls_tokenizer *tokenizer) {
    if (!tokenizer) return;
    if (tokenizer->ops->release) tokenizer->ops->release(tokenizer);
    ls_free(tokenizer->table.bytes);
    ls_free(tokenizer->table.starts);
    ls_free(tokenizer);
}

int64_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer) {
    return tokenizer ? tokenizer->table.count : 0;
}

int32_t ls_tokenizer_end_of_text(const ls_tokenizer *tokenizer) {
    return tokenizer ? tokenizer->end_of_text : -1;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const void *text, size_t size, int32_t **ids,
                              size_t *count) {
    LS_NEED(tokenizer, text, ids, count);
    struct ls_token_ids made = {0};
    if (size > PTRDIFF_MAX / sizeof(*made.list)) return ls_fail_memory("the ids of a text", size);
    ls_status status = LS_GROW(made.list, made.room, 1, 1024, "the ids of a text");
    if (!status) status = tokenizer->ops->encode(tokenizer, text, size, &made);
    if (!status) *count = made.count;
    return LS_HAND_OVER(status, ids, made.list, ls_free(made.list));
}

static ls_status add_size(const ls_tokenizer *tokenizer, const int32_t *ids, size_t place, size_t *size) {
    int64_t most = tokenizer->table.count;
    if (ids[place] < 0 || ids[place] >= most)
        return ls_fail(LS_INVALID_ARGUMENT, "ids[%zu] is %d: the vocabulary has the ids 0 to %lld", place, ids[place],
                       (long long)most - 1);
    return __builtin_add_overflow(*size, ls_tokenizer_token(&tokenizer->table, ids[place]).size, size)
               ? ls_fail_memory("a text", SIZE_MAX)
               : LS_OK;
}

ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                              size_t *size) {
    LS_NEED(tokenizer, ids, text, size);
    size_t whole = 0, used = 0;
    ls_status status = count > PTRDIFF_MAX / sizeof(*ids) ? ls_fail_memory("a text", count) : LS_OK;
    for (size_t i = 0; i < count && !status; i++) status = add_size(tokenizer, ids, i, &whole);
    if (status) return status;
    char *made = whole < PTRDIFF_MAX ? ls_alloc(whole + 1) : NULL;
    if (!made) return ls_fail_memory("a text", whole);
    for (size_t i = 0; i < count; i++) {
        struct ls_token_bytes token = ls_tokenizer_token(&tokenizer->table, ids[i]);
        memcpy(made + used, token.at, token.size);
        used += token.size;
    }
    *text = made;
    *size = whole;
    return LS_OK;
}
