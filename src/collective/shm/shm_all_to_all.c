/* All-to-all in shared memory. Each rank's small slot says where its parts for the others begin. Its input lies behind
 * that if it is small; in place if it is in a region; otherwise it goes through its stage, chunk by chunk. Each rank
 * copies its part of each input out. So every byte is copied once, or twice where it is staged. */
#include "collective/shm/shm_calls.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/shm/leaves.h"

struct exchange {
    const struct ls_shared_call *call;
    const struct ls_shm_parts *parts;
};

/* Bytes of the table in a slot: the begin of each rank's part, and the end of the last. */
static size_t table_bytes(const struct ls_shared *shared) {
    return ls_whole_lines(((size_t)shared->size + 1) * sizeof(uint64_t));
}

bool ls_shm_all_to_all_fits(const struct ls_shared *shared) {
    return table_bytes(shared) <= shared->board.small;
}

static const uint64_t *table_of(const struct exchange *exchange, int rank) {
    return (const uint64_t *)(const void *)ls_shared_call_small(exchange->call, rank);
}

static uint64_t total_of(const struct exchange *exchange, int rank) {
    return table_of(exchange, rank)[exchange->call->shared->size];
}

static bool is_small(const struct exchange *exchange, int rank) {
    const struct ls_shared *shared = exchange->call->shared;
    return total_of(exchange, rank) <= shared->board.small - table_bytes(shared);
}

static bool is_staged(const struct exchange *exchange, int rank) {
    return !is_small(exchange, rank) && ls_shared_call_read(exchange->call, rank)->region < 0;
}

static void post_parts(const struct exchange *exchange) {
    const struct ls_shared *shared = exchange->call->shared;
    struct ls_shared_post *post = ls_shared_call_post(exchange->call);
    unsigned char *slot = ls_shared_call_small(exchange->call, shared->rank);
    uint64_t *table = (uint64_t *)(void *)slot;
    table[0] = 0;
    for (int i = 0; i < shared->size; i++)
        table[i + 1] = table[i] + exchange->parts->send_counts[i] * exchange->parts->element;
    size_t total = (size_t)table[shared->size];
    if (!is_small(exchange, shared->rank))
        (void)ls_shared_call_offer(exchange->call, post, 0, exchange->parts->input, total);
    else if (total)
        memcpy(slot + table_bytes(shared), exchange->parts->input, total);
}

static ls_status check_part(const struct exchange *exchange, int rank) {
    const struct ls_shared *shared = exchange->call->shared;
    const uint64_t *table = table_of(exchange, rank);
    size_t expected = exchange->parts->receive_counts[rank] * exchange->parts->element;
    uint64_t begin = table[shared->rank], end = table[shared->rank + 1];
    if (begin > end || end > total_of(exchange, rank))
        return ls_fail(LS_DATA_LOSS, "rank %d tells a place outside of its input", shared->members[rank]);
    if (end - begin == expected) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "all_to_all '%s': rank %d sends %llu bytes to rank %d, which expects %zu",
                   exchange->call->call->frame.name, shared->members[rank], (unsigned long long)(end - begin),
                   shared->members[shared->rank], expected);
}

/* data are rank's input from byte from on: copies those of this rank's part to their place. */
static void copy_part(const struct exchange *exchange, int rank, struct ls_bytes data, uint64_t from,
                      unsigned char *output) {
    const uint64_t *table = table_of(exchange, rank);
    int own = exchange->call->shared->rank;
    uint64_t begin = table[own] > from ? table[own] : from;
    uint64_t end = table[own + 1] < from + data.size ? table[own + 1] : from + data.size;
    if (begin >= end) return;
    memcpy(output + (begin - table[own]), (const unsigned char *)data.data + (begin - from), (size_t)(end - begin));
}

/* Every part that lies whole in memory of its rank, and the own one. */
static ls_status copy_parts(const struct exchange *exchange) {
    const struct ls_shared *shared = exchange->call->shared;
    unsigned char *output = exchange->parts->output;
    ls_status status = LS_OK;
    for (int i = 0; i < shared->size && !status; i++) {
        size_t total = (size_t)total_of(exchange, i);
        unsigned char *data = ls_shared_call_small(exchange->call, i) + table_bytes(shared);
        status = check_part(exchange, i);
        if (!status && i != shared->rank && !is_small(exchange, i) && !is_staged(exchange, i))
            status = ls_shared_call_find(exchange->call, i, 0, total, &data);
        if (i == shared->rank) data = (unsigned char *)exchange->parts->input;
        if (!status && (i == shared->rank || !is_staged(exchange, i)))
            copy_part(exchange, i, (struct ls_bytes){data, total}, 0, output);
        size_t bytes = exchange->parts->receive_counts[i] * exchange->parts->element;
        if (bytes) output += bytes;
    }
    return status;
}

static void copy_staged(const struct exchange *exchange, size_t offset, int half) {
    const struct ls_shared *shared = exchange->call->shared;
    unsigned char *output = exchange->parts->output;
    for (int i = 0; i < shared->size; i++) {
        size_t total = (size_t)total_of(exchange, i),
               bytes = exchange->parts->receive_counts[i] * exchange->parts->element;
        const struct ls_bytes staged = {ls_shared_stage(shared, i, half),
                                        ls_smaller_size(total - offset, shared->board.stage)};
        if (i != shared->rank && is_staged(exchange, i) && offset < total)
            copy_part(exchange, i, staged, offset, output);
        if (bytes) output += bytes;
    }
}

/* Rounds as the all-gather's: the number follows from what all know, and a half is written again behind a meeting to
 * which all came after they had read it. One meeting stands behind reads of
 * regions alone. */
static ls_status exchange_staged(const struct exchange *exchange) {
    const struct ls_shared *shared = exchange->call->shared;
    size_t most = 0, own = (size_t)total_of(exchange, shared->rank);
    bool large = false, staged = is_staged(exchange, shared->rank);
    for (int i = 0; i < shared->size; i++) {
        large |= !is_small(exchange, i);
        if (is_staged(exchange, i) && total_of(exchange, i) > most) most = (size_t)total_of(exchange, i);
    }
    ls_status status = large && !most ? ls_shm_barrier(&exchange->call->place, false) : LS_OK;
    int half = 0;
    for (size_t offset = 0; offset < most && !status; offset += shared->board.stage, half ^= 1) {
        const unsigned char *from = exchange->parts->input;
        if (staged && offset < own)
            memcpy(ls_shared_stage(shared, shared->rank, half), from + offset,
                   ls_smaller_size(own - offset, shared->board.stage));
        status = ls_shm_barrier(&exchange->call->place, false);
        if (!status) copy_staged(exchange, offset, half);
    }
    return status;
}

ls_status ls_shm_all_to_all(const struct ls_shared_call *call, const struct ls_shm_parts *parts) {
    const struct exchange exchange = {call, parts};
    post_parts(&exchange);
    ls_status status = ls_shared_call_open(call);
    if (!status) status = copy_parts(&exchange);
    return status ? status : exchange_staged(&exchange);
}
