/* A kind of tokenizer: its tokens' bytes, which decode for all kinds, and the function that encodes. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_END_OF_TEXT "<|endoftext|>"

/* The bytes of the token id are those from starts[id] to starts[id + 1]. */
struct ls_token_table {
    uint8_t *bytes; /* owns */
    size_t *starts; /* owns: [count + 1] */
    int64_t count;
};
ls_status ls_tokenizer_table_new(int64_t count, size_t bytes, struct ls_token_table *table);
/* Bytes of a table, or of a text. */
struct ls_token_bytes {
    const uint8_t *at;
    size_t size;
};
struct ls_token_bytes ls_tokenizer_token(const struct ls_token_table *table, int64_t id);

/* The ids of a text, which grow. */
struct ls_token_ids {
    int32_t *list; /* owns */
    size_t count, room;
};
ls_status ls_tokenizer_add(struct ls_token_ids *ids, int32_t id);

struct ls_tokenizer {
    const struct ls_tokenizer_ops *ops;
    struct ls_token_table table;
    int32_t end_of_text; /* its id; -1: none */
};
struct ls_tokenizer_ops {
    ls_status (*encode)(const struct ls_tokenizer *tokenizer, const uint8_t *text, size_t size,
                        struct ls_token_ids *ids);
    /* Frees what the kind owns; NULL: nothing. */
    void (*release)(struct ls_tokenizer *tokenizer);
};
