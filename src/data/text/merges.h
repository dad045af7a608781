/* The merges of byte pair encoding, and the merging of a word (Sennrich et al. 2016): of all neighbours those are
 * merged whose merge comes first, from left to right, until no merge is left. */
#pragma once
#include "data/text/tokenizer.h"

/* Two tokens that become one. Merges are numbered in their order, which is their rank. */
struct ls_merge {
    int32_t left, right, made;
};
struct ls_merges {
    struct ls_merge *list;    /* owns */
    int32_t *slots;           /* owns: ranks by hash of left and right, -1: none; a power of two of them */
    size_t count, room, mask; /* mask: slots - 1 */
};
ls_status ls_merges_add(struct ls_merges *merges, const struct ls_merge *merge);
/* After the last one was added. */
ls_status ls_merges_settle(struct ls_merges *merges);
/* The rank, -1 where there is no such merge. */
int32_t ls_merges_find(const struct ls_merges *merges, int32_t left, int32_t right);
void ls_merges_free(struct ls_merges *merges);

struct ls_merge_symbol;
struct ls_merge_turn;
/* Memory for the words of a text, zero at first. */
struct ls_merge_work {
    struct ls_merge_symbol *symbols;        /* owns */
    struct ls_merge_turn *heap;             /* owns */
    size_t symbol_room, heap_room, waiting; /* waiting: turns in the heap */
};
void ls_merge_work_free(struct ls_merge_work *work);
/* Appends the ids of a word of at least one byte; bytes has the id of each byte. In a word of n bytes it takes
 * O(n log n). */
ls_status ls_merges_apply(const struct ls_merges *merges, const int32_t bytes[256], struct ls_token_bytes word,
                          struct ls_merge_work *work, struct ls_token_ids *ids);
