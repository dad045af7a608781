/* A word is a list of symbols, and a heap has the merges that wait, by rank and place. A symbol that changes leaves its
 * turns in the heap. Such a turn tells itself by its rank: no symbol has a neighbour of a rank that it once had, since
 * symbols only grow. A merge that makes a symbol comes before all that use it (gpt2_files.c), so that one at a time
 * gives what all of a rank at once would give. */
#include "data/text/merges.h"

#include <string.h>

#include "base/grow.h"
#include "base/new.h"

#define NONE SIZE_MAX

struct ls_merge_symbol {
    size_t before, next; /* places of the neighbours, or NONE */
    int32_t id, rank;    /* rank: of the merge with the next one; -1: there is none */
};
struct ls_merge_turn {
    size_t at;
    int32_t rank;
};

/* ---- the table ---- */

ls_status ls_merges_add(struct ls_merges *merges, const struct ls_merge *merge) {
    ls_status status = LS_GROW(merges->list, merges->room, merges->count + 1, 1024, "merges");
    if (!status) merges->list[merges->count++] = *merge;
    return status;
}

/* The slot of the pair, or the free one in which it would be. */
static size_t slot_of(const struct ls_merges *merges, int32_t left, int32_t right) {
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    size_t slot = (size_t)(key >> 32) & merges->mask;
    for (;; slot = (slot + 1) & merges->mask) {
        int32_t rank = merges->slots[slot];
        if (rank < 0 || (merges->list[rank].left == left && merges->list[rank].right == right)) return slot;
    }
}

ls_status ls_merges_settle(struct ls_merges *merges) {
    size_t size = 16;
    while (size < merges->count * 3) size *= 2;
    merges->slots = ls_alloc_array(size, sizeof(*merges->slots));
    if (!merges->slots) return ls_fail_memory("merges", size);
    merges->mask = size - 1;
    memset(merges->slots, -1, size * sizeof(*merges->slots));
    for (size_t i = 0; i < merges->count; i++)
        merges->slots[slot_of(merges, merges->list[i].left, merges->list[i].right)] = (int32_t)i;
    return LS_OK;
}

int32_t ls_merges_find(const struct ls_merges *merges, int32_t left, int32_t right) {
    return merges->slots[slot_of(merges, left, right)];
}

void ls_merges_free(struct ls_merges *merges) {
    ls_free(merges->list);
    ls_free(merges->slots);
    *merges = (struct ls_merges){0};
}

/* ---- the heap ---- */

static bool is_sooner(struct ls_merge_turn a, struct ls_merge_turn b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static ls_status wait_turn(struct ls_merge_work *work, struct ls_merge_turn turn) {
    ls_status status = LS_GROW(work->heap, work->heap_room, work->waiting + 1, 64, "the merges of a word");
    if (status) return status;
    size_t place = work->waiting++;
    for (; place && is_sooner(turn, work->heap[(place - 1) / 2]); place = (place - 1) / 2)
        work->heap[place] = work->heap[(place - 1) / 2];
    work->heap[place] = turn;
    return LS_OK;
}

static struct ls_merge_turn take_turn(struct ls_merge_work *work) {
    struct ls_merge_turn first = work->heap[0], last = work->heap[--work->waiting];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < work->waiting; place = child) {
        if (child + 1 < work->waiting && is_sooner(work->heap[child + 1], work->heap[child])) child++;
        if (!is_sooner(work->heap[child], last)) break;
        work->heap[place] = work->heap[child];
    }
    work->heap[place] = last;
    return first;
}

/* ---- a word ---- */

/* Looks for a merge of the symbol with its next one. */
static ls_status rank_symbol(const struct ls_merges *merges, struct ls_merge_work *work, size_t at) {
    struct ls_merge_symbol *symbol = &work->symbols[at];
    symbol->rank = symbol->next == NONE ? -1 : ls_merges_find(merges, symbol->id, work->symbols[symbol->next].id);
    return symbol->rank < 0 ? LS_OK : wait_turn(work, (struct ls_merge_turn){at, symbol->rank});
}

static ls_status begin_word(const struct ls_merges *merges, const int32_t bytes[256], struct ls_token_bytes word,
                            struct ls_merge_work *work) {
    ls_status status = LS_GROW(work->symbols, work->symbol_room, word.size, 64, "the letters of a word");
    if (status) return status;
    work->waiting = 0;
    for (size_t i = 0; i < word.size; i++)
        work->symbols[i] = (struct ls_merge_symbol){i - 1, i + 1 < word.size ? i + 1 : NONE, bytes[word.at[i]], -1};
    for (size_t i = 0; i < word.size && !status; i++) status = rank_symbol(merges, work, i);
    return status;
}

static ls_status merge_at(const struct ls_merges *merges, struct ls_merge_work *work, struct ls_merge_turn turn) {
    struct ls_merge_symbol *symbol = &work->symbols[turn.at], *gone = &work->symbols[symbol->next];
    symbol->id = merges->list[turn.rank].made;
    symbol->next = gone->next;
    gone->rank = -1;
    if (symbol->next != NONE) work->symbols[symbol->next].before = turn.at;
    ls_status status = rank_symbol(merges, work, turn.at);
    return status || symbol->before == NONE ? status : rank_symbol(merges, work, symbol->before);
}

ls_status ls_merges_apply(const struct ls_merges *merges, const int32_t bytes[256], struct ls_token_bytes word,
                          struct ls_merge_work *work, struct ls_token_ids *ids) {
    ls_status status = begin_word(merges, bytes, word, work);
    while (!status && work->waiting) {
        struct ls_merge_turn turn = take_turn(work);
        if (work->symbols[turn.at].rank == turn.rank) status = merge_at(merges, work, turn);
    }
    for (size_t i = 0; i != NONE && !status; i = work->symbols[i].next)
        status = ls_tokenizer_add(ids, work->symbols[i].id);
    return status;
}

void ls_merge_work_free(struct ls_merge_work *work) {
    ls_free(work->symbols);
    ls_free(work->heap);
    *work = (struct ls_merge_work){0};
}
