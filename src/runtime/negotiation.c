/* The table of calls that were begun. A name is in it once: a rank begins no second call of a name before the first has
 * ended. Names are compared by their digests. */
#define _GNU_SOURCE /* tdestroy */
#include "runtime/negotiation.h"

#include <endian.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "collective/algorithm.h"

ls_status ls_negotiation_init(struct ls_negotiation *negotiation, int size) {
    *negotiation = (struct ls_negotiation){.size = size, .joined = ls_alloc((size_t)size), .last_joined = -1};
    TAILQ_INIT(&negotiation->waiting);
    TAILQ_INIT(&negotiation->ready);
    return negotiation->joined ? LS_OK : ls_fail_memory("a negotiation", (size_t)size);
}

static void free_call(void *argument) {
    struct ls_negotiated *call = argument;
    ls_free(call->begun);
    ls_free(call);
}

void ls_negotiation_free(struct ls_negotiation *negotiation) {
    tdestroy(negotiation->by_name, free_call);
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

int ls_negotiation_compare_names(const void *a, const void *b) {
    uint64_t first = ((const struct ls_frame *)a)->name_digest, second = ((const struct ls_frame *)b)->name_digest;
    return (first > second) - (first < second);
}

static struct ls_negotiated *find_call(struct ls_negotiation *negotiation, const struct ls_frame *frame) {
    struct ls_negotiated **node = tfind(frame, &negotiation->by_name, ls_negotiation_compare_names);
    return node ? *node : NULL;
}

static ls_status add_call(struct ls_negotiation *negotiation, const struct ls_frame *frame,
                          struct ls_negotiated **call) {
    struct ls_negotiated *made = ls_alloc(sizeof(*made));
    if (made) {
        made->frame = *frame;
        made->begun = ls_alloc((size_t)negotiation->size);
    }
    if (!made || !made->begun || !tsearch(made, &negotiation->by_name, ls_negotiation_compare_names)) {
        if (made) free_call(made);
        return ls_fail_memory("a negotiation", (size_t)negotiation->size);
    }
    made->missing = negotiation->size - negotiation->joined_count;
    made->since = ls_now();
    TAILQ_INSERT_TAIL(&negotiation->waiting, made, link);
    *call = made;
    return LS_OK;
}

/* One rank fewer is missing. */
static void come_closer(struct ls_negotiation *negotiation, struct ls_negotiated *call) {
    if (--call->missing) return;
    TAILQ_REMOVE(&negotiation->waiting, call, link);
    TAILQ_INSERT_TAIL(&negotiation->ready, call, link);
}

ls_status ls_negotiation_read(struct ls_negotiation *negotiation, int rank, const unsigned char bytes[LS_FRAME_SIZE]) {
    struct ls_frame frame;
    ls_status status = ls_frame_decode(bytes, &frame);
    if (status) return ls_fail_context(status, "from rank %d", rank);
    if (frame.rank != rank || frame.size != negotiation->size)
        return ls_fail(LS_DATA_LOSS, "rank %d of %d sent what rank %d of %d has begun", rank, negotiation->size,
                       frame.rank, frame.size);
    if (negotiation->joined[rank])
        return ls_fail(LS_DATA_LOSS, "rank %d has begun '%s' while it is in ls_join", rank, frame.name);
    struct ls_negotiated *call = find_call(negotiation, &frame);
    if (!call) status = add_call(negotiation, &frame, &call);
    if (status) return status;
    if (call->begun[rank]) return ls_fail(LS_DATA_LOSS, "rank %d has begun '%s' twice at once", rank, call->frame.name);
    struct ls_frame expected = call->frame;
    expected.rank = rank;
    call->begun[rank] = 1;
    come_closer(negotiation, call);
    return ls_frame_compare(&expected, &frame, call->frame.rank, rank, ls_algorithm_name);
}

void ls_negotiation_join(struct ls_negotiation *negotiation, int rank) {
    if (negotiation->joined[rank]) return;
    negotiation->joined[rank] = 1;
    negotiation->joined_count++;
    negotiation->last_joined = rank;
    struct ls_negotiated *call = TAILQ_FIRST(&negotiation->waiting);
    while (call) {
        struct ls_negotiated *next = TAILQ_NEXT(call, link);
        if (!call->begun[rank]) come_closer(negotiation, call);
        call = next;
    }
}

void ls_negotiation_part(struct ls_negotiation *negotiation) {
    for (struct ls_negotiated *call = TAILQ_FIRST(&negotiation->waiting); call; call = TAILQ_NEXT(call, link))
        for (int rank = 0; rank < negotiation->size; rank++)
            call->missing += negotiation->joined[rank] && !call->begun[rank];
    memset(negotiation->joined, 0, (size_t)negotiation->size);
    negotiation->joined_count = 0;
}

/* ---- what follows ---- */

struct ls_negotiated *ls_negotiation_ready(const struct ls_negotiation *negotiation) {
    return TAILQ_FIRST(&negotiation->ready);
}

void ls_negotiation_remove(struct ls_negotiation *negotiation, struct ls_negotiated *call) {
    TAILQ_REMOVE(&negotiation->ready, call, link);
    (void)tdelete(call, &negotiation->by_name, ls_negotiation_compare_names);
    free_call(call);
}

/* "ranks 0, 2", of whom begun is value; "..." where there are more than fit. */
static void list_ranks(const struct ls_negotiation *negotiation, const struct ls_negotiated *call, bool value,
                       char *text, size_t size) {
    text[0] = 0;
    for (int rank = 0; rank < negotiation->size; rank++)
        if (value ? call->begun[rank] : !call->begun[rank] && !negotiation->joined[rank])
            ls_text_list(text, size, rank);
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
