/* A round is one all-gather of a header and of FEW fingerprints a rank, and a second one where a rank has more. */
#include "runtime/round.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/collectives.h"

enum { FEW = 4, RECORD = LS_ROUND_HEADER + FEW * LS_FRAME_SIZE };
static const char name[] = "calls begun";

/* This rank tells its calls, and gets those of all. */
struct telling {
    struct ls_async *async;
    size_t count, more; /* fingerprints of this rank; of all ranks beyond the first FEW */
    bool joined;
    unsigned char *own, *rest; /* [count] fingerprints; [more] of all ranks */
    unsigned char *records;    /* [size] */
    size_t *counts;            /* [size] bytes of each rank */
};

static void free_telling(struct telling *telling) {
    ls_free(telling->own);
    ls_free(telling->rest);
    ls_free(telling->records);
    ls_free(telling->counts);
}

bool ls_round_is_due(struct ls_async *async) {
    LS_HOLD(&async->monitor);
    return !TAILQ_EMPTY(&async->begun);
}

static void take_untold(struct ls_async *async, struct telling *telling) {
    for (size_t taken = 0; taken < telling->count;) {
        struct ls_operation *operation = async->untold;
        ls_frame_encode(&operation->parts[operation->progress.told++].frame, telling->own + taken++ * LS_FRAME_SIZE);
        if (operation->progress.told == operation->part_count) async->untold = TAILQ_NEXT(operation, progress.link);
    }
    async->untold_parts -= telling->count;
}

static ls_status collect_own(struct telling *telling) {
    struct ls_async *async = telling->async;
    LS_HOLD(&async->monitor);
    telling->count = ls_smaller_size(async->untold_parts, LS_ROUND_MOST);
    telling->joined = async->joined;
    telling->own = ls_alloc_array(telling->count + 1, LS_FRAME_SIZE);
    if (!telling->own) return ls_fail_memory("a round", telling->count * LS_FRAME_SIZE);
    take_untold(async, telling);
    return LS_OK;
}

static ls_status gather_records(struct telling *telling) {
    struct ls_group *group = telling->async->ranks->group;
    unsigned char record[RECORD] = {0};
    ls_negotiation_encode_header(record, telling->count, telling->joined);
    if (telling->count)
        memcpy(record + LS_ROUND_HEADER, telling->own, (telling->count < FEW ? telling->count : FEW) * LS_FRAME_SIZE);
    for (int rank = 0; rank < ls_group_size(group); rank++) telling->counts[rank] = RECORD;
    return ls_group_all_gather(group, LS_ALL_GATHER(name, record, telling->records, telling->counts, LS_UINT8));
}

static ls_status read_record(const struct telling *telling, int rank, size_t *count, bool *joined) {
    ls_status status = ls_negotiation_read_header(telling->records + (size_t)rank * RECORD, count, joined);
    return status ? ls_fail_context(status, "from rank %d", rank) : LS_OK;
}

static ls_status gather_rest(struct telling *telling) {
    struct ls_group *group = telling->async->ranks->group;
    for (int rank = 0; rank < ls_group_size(group); rank++) {
        size_t count;
        bool joined;
        ls_status status = read_record(telling, rank, &count, &joined);
        if (status) return status;
        telling->counts[rank] = count > FEW ? (count - FEW) * LS_FRAME_SIZE : 0;
        telling->more += telling->counts[rank];
    }
    if (!telling->more) return LS_OK;
    telling->rest = ls_alloc(telling->more);
    if (!telling->rest) return ls_fail_memory("a round", telling->more);
    return ls_group_all_gather(group, LS_ALL_GATHER(name, telling->own + (size_t)FEW * LS_FRAME_SIZE, telling->rest,
                                                    telling->counts, LS_UINT8));
}

/* Rank after rank, so that all ranks have the same table. */
static ls_status read_all(const struct telling *telling, bool *news) {
    struct ls_negotiation *negotiation = &telling->async->negotiation;
    const unsigned char *rest = telling->rest;
    ls_status status = LS_OK;
    for (int rank = 0; rank < negotiation->size && !status; rank++) {
        const unsigned char *few = telling->records + (size_t)rank * RECORD + LS_ROUND_HEADER;
        size_t count = 0;
        bool joined = false;
        status = read_record(telling, rank, &count, &joined);
        for (size_t i = 0; i < count && !status; i++) {
            status = ls_negotiation_read(negotiation, rank, i < FEW ? few + i * LS_FRAME_SIZE : rest);
            if (i >= FEW) rest += LS_FRAME_SIZE;
        }
        if (joined && !negotiation->joined[rank]) *news = true;
        if (joined) ls_negotiation_join(negotiation, rank);
        if (count) *news = true;
    }
    return status;
}

ls_status ls_round(struct ls_async *async, bool *news) {
    LS_CLEANUP(free_telling) struct telling telling = {.async = async};
    size_t size = (size_t)ls_group_size(async->ranks->group);
    telling.records = ls_alloc_array(size, RECORD);
    telling.counts = ls_alloc_array(size, sizeof(*telling.counts));
    if (!telling.records || !telling.counts) return ls_fail_memory("a round", size * RECORD);
    ls_status status = collect_own(&telling);
    if (!status) status = gather_records(&telling);
    if (!status) status = gather_rest(&telling);
    return status ? status : read_all(&telling, news);
}
