/* The table of calls that were begun. A name is in it once: a rank begins no second call of a name before the first has
 * ended. Names are compared by their digests. */
#include "runtime/negotiation.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/algorithm.h"

ls_status ls_negotiation_init(struct ls_negotiation *negotiation, int size) {
    *negotiation = (struct ls_negotiation){.size = size, .joined = ls_alloc((size_t)size), .last_joined = -1};
    return negotiation->joined ? LS_OK : ls_fail_memory("a negotiation", (size_t)size);
}

static void free_call(struct ls_negotiated *call) {
    ls_free(call->begun);
    ls_free(call);
}

void ls_negotiation_free(struct ls_negotiation *negotiation) {
    for (size_t i = 0; i < negotiation->count; i++) free_call(negotiation->calls[i]);
    ls_free(negotiation->calls);
    ls_free(negotiation->by_name);
    ls_free(negotiation->joined);
    *negotiation = (struct ls_negotiation){0};
}

/* ---- what ranks send ---- */

void ls_negotiation_encode_header(unsigned char bytes[LS_ROUND_HEADER], size_t count, bool joined) {
    const uint32_t words[2] = {htole32((uint32_t)count), htole32(joined)};
    memcpy(bytes, words, sizeof(words));
}

ls_status ls_negotiation_read_header(const unsigned char bytes[LS_ROUND_HEADER], size_t *count, bool *joined) {
    uint32_t words[2];
    memcpy(words, bytes, sizeof(words));
    uint32_t calls = le32toh(words[0]), flags = le32toh(words[1]);
    if (calls > LS_ROUND_MOST || flags > 1)
        return ls_fail(LS_DATA_LOSS, "a round of calls begun has count %u, flags %u: not both known", calls, flags);
    *count = calls;
    *joined = flags;
    return LS_OK;
}

/* The link of a chain that points to the call of that name, or that would. */
static struct ls_negotiated **chain_at(struct ls_negotiated **by_name, size_t capacity, uint64_t name_digest) {
    struct ls_negotiated **at = &by_name[name_digest & (capacity - 1)];
    while (*at && (*at)->frame.name_digest != name_digest) at = &(*at)->chained;
    return at;
}

static struct ls_negotiated *find_call(const struct ls_negotiation *negotiation, uint64_t name_digest) {
    return negotiation->capacity ? *chain_at(negotiation->by_name, negotiation->capacity, name_digest) : NULL;
}

static ls_status grow(struct ls_negotiation *negotiation) {
    size_t larger = negotiation->capacity ? 2 * negotiation->capacity : 16;
    struct ls_negotiated **calls = ls_alloc_array(larger, sizeof(struct ls_negotiated *));
    struct ls_negotiated **by_name = ls_alloc_array(larger, sizeof(struct ls_negotiated *));
    if (!calls || !by_name) {
        ls_free(calls);
        ls_free(by_name);
        return ls_fail_memory("a negotiation", 2 * larger * sizeof(struct ls_negotiated *));
    }
    for (size_t i = 0; i < negotiation->count; i++) {
        calls[i] = negotiation->calls[i];
        calls[i]->chained = NULL;
        *chain_at(by_name, larger, calls[i]->frame.name_digest) = calls[i];
    }
    ls_free(negotiation->calls);
    ls_free(negotiation->by_name);
    negotiation->calls = calls;
    negotiation->by_name = by_name;
    negotiation->capacity = larger;
    return LS_OK;
}

static ls_status add_call(struct ls_negotiation *negotiation, const struct ls_frame *frame,
                          struct ls_negotiated **call) {
    ls_status status = negotiation->count == negotiation->capacity ? grow(negotiation) : LS_OK;
    if (status) return status;
    struct ls_negotiated *made = ls_alloc(sizeof(*made));
    if (made) made->begun = ls_alloc((size_t)negotiation->size);
    if (!made || !made->begun) {
        ls_free(made);
        return ls_fail_memory("a negotiation", (size_t)negotiation->size);
    }
    made->frame = *frame;
    made->missing = negotiation->size - negotiation->joined_count;
    made->since = ls_now();
    negotiation->calls[negotiation->count++] = made;
    *chain_at(negotiation->by_name, negotiation->capacity, frame->name_digest) = made;
    *call = made;
    return LS_OK;
}

ls_status ls_negotiation_read(struct ls_negotiation *negotiation, int rank, const unsigned char bytes[LS_FRAME_SIZE]) {
    struct ls_frame frame;
    ls_status status = ls_frame_decode(bytes, &frame);
    if (status) return ls_fail_context(status, "from rank %d", rank);
    if (frame.rank != rank || frame.size != negotiation->size)
        return ls_fail(LS_DATA_LOSS, "rank %d of %d sent what rank %d of %d has begun", rank, negotiation->size,
                       frame.rank, frame.size);
    struct ls_negotiated *call = find_call(negotiation, frame.name_digest);
    if (!call) status = add_call(negotiation, &frame, &call);
    if (status) return status;
    if (call->begun[rank]) return ls_fail(LS_DATA_LOSS, "rank %d has begun '%s' twice at once", rank, call->frame.name);
    struct ls_frame expected = call->frame;
    expected.rank = rank;
    call->begun[rank] = 1;
    call->missing -= !negotiation->joined[rank];
    return ls_frame_compare(&expected, &frame, call->frame.rank, rank, ls_algorithm_name);
}

void ls_negotiation_join(struct ls_negotiation *negotiation, int rank) {
    if (negotiation->joined[rank]) return;
    negotiation->joined[rank] = 1;
    negotiation->joined_count++;
    negotiation->last_joined = rank;
    for (size_t i = 0; i < negotiation->count; i++)
        negotiation->calls[i]->missing -= !negotiation->calls[i]->begun[rank];
}

void ls_negotiation_part(struct ls_negotiation *negotiation) {
    for (int rank = 0; rank < negotiation->size; rank++)
        for (size_t i = 0; negotiation->joined[rank] && i < negotiation->count; i++)
            negotiation->calls[i]->missing += !negotiation->calls[i]->begun[rank];
    memset(negotiation->joined, 0, (size_t)negotiation->size);
    negotiation->joined_count = 0;
}

/* ---- what follows ---- */

/* A call that all have begun but who has joined is ready; one that nobody has begun cannot be in the table. */
struct ls_negotiated *ls_negotiation_ready(const struct ls_negotiation *negotiation) {
    for (size_t i = 0; i < negotiation->count; i++)
        if (!negotiation->calls[i]->missing) return negotiation->calls[i];
    return NULL;
}

void ls_negotiation_remove(struct ls_negotiation *negotiation, struct ls_negotiated *call) {
    size_t at = 0;
    while (negotiation->calls[at] != call) at++;
    memmove(&negotiation->calls[at], &negotiation->calls[at + 1],
            (negotiation->count - at - 1) * sizeof(struct ls_negotiated *));
    negotiation->count--;
    *chain_at(negotiation->by_name, negotiation->capacity, call->frame.name_digest) = call->chained;
    free_call(call);
}

/* "ranks 0, 2", of whom begun is value; "..." where there are more than fit. */
static void list_ranks(const struct ls_negotiation *negotiation, const struct ls_negotiated *call, bool value,
                       char *text, size_t size) {
    int found = 0;
    size_t used = 0;
    text[0] = 0;
    for (int rank = 0; rank < negotiation->size && used + 16 < size; rank++) {
        if (value ? !call->begun[rank] : call->begun[rank] || negotiation->joined[rank]) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%d", found++ ? ", " : "", rank);
    }
    if (used + 16 >= size) (void)snprintf(text + used, size - used, ", ...");
}

void ls_negotiation_describe(const struct ls_negotiation *negotiation, const struct ls_negotiated *call, char *text,
                             size_t size) {
    char have[96], lack[96];
    list_ranks(negotiation, call, true, have, sizeof(have));
    list_ranks(negotiation, call, false, lack, sizeof(lack));
    (void)snprintf(text, size, "%s '%s' has been begun by rank%s %s, and not by rank%s %s",
                   ls_frame_collective_name(call->frame.kind), call->frame.name, strchr(have, ',') ? "s" : "", have,
                   strchr(lack, ',') ? "s" : "", lack);
}
