/* A cut is a multiple of the chunk, or an end of the bucket. */
#include "store/stripes.h"

#include "base/memory.h"
#include "device/norm.h"

static size_t cut(const struct ls_range *bucket, int servers, int at) {
    size_t low = bucket->begin / LS_NORM_CHUNK, high = (bucket->end + LS_NORM_CHUNK - 1) / LS_NORM_CHUNK;
    size_t chunks = high - low, n = (size_t)servers, i = (size_t)at;
    size_t element = (low + chunks / n * i + chunks % n * i / n) * LS_NORM_CHUNK;
    return element < bucket->begin ? bucket->begin : element > bucket->end ? bucket->end : element;
}

/* A bucket of few chunks has more for its last servers. They are others in the next bucket. */
struct ls_range ls_stripes_of(const struct ls_terms_model *terms, size_t bucket, int servers, int server) {
    int at = (server + (int)(bucket % (size_t)servers)) % servers;
    const struct ls_range *range = &terms->buckets[bucket];
    return (struct ls_range){cut(range, servers, at), cut(range, servers, at + 1)};
}

struct ls_stripe *ls_stripes_list(const struct ls_terms_model *terms, int servers, bool in_bucket) {
    struct ls_stripe *list = ls_alloc_array(terms->bucket_count * (size_t)servers, sizeof(*list)), *at = list;
    for (size_t b = 0; list && b < terms->bucket_count; b++)
        for (int s = 0; s < servers; s++) {
            struct ls_range range = ls_stripes_of(terms, b, servers, s);
            size_t from = in_bucket ? terms->buckets[b].begin : 0;
            *at++ = (struct ls_stripe){(range.begin - from) * sizeof(float), (range.end - range.begin) * sizeof(float)};
        }
    return list;
}

size_t ls_stripes_pieces(const struct ls_terms_model *terms, struct ls_range range, struct ls_piece *pieces) {
    size_t found = 0;
    for (size_t v = 0; v < terms->part_count; v++) {
        size_t begin = terms->parts[v].offset, end = begin + terms->parts[v].count;
        if (begin < range.begin) begin = range.begin;
        if (end > range.end) end = range.end;
        if (begin >= end) continue;
        if (pieces) pieces[found] = (struct ls_piece){v, begin, end};
        found++;
    }
    return found;
}

size_t ls_stripes_pieces_of(const struct ls_terms_model *terms, int servers, int server, struct ls_piece *pieces) {
    size_t found = 0;
    for (size_t b = 0; b < terms->bucket_count; b++)
        found += ls_stripes_pieces(terms, ls_stripes_of(terms, b, servers, server), pieces ? pieces + found : NULL);
    return found;
}

size_t ls_stripes_chunks(const struct ls_terms_model *terms, int servers, int server) {
    size_t chunks = 0;
    for (size_t b = 0; b < terms->bucket_count; b++) {
        struct ls_range range = ls_stripes_of(terms, b, servers, server);
        for (size_t v = 0; v < terms->part_count; v++) {
            size_t begin = terms->parts[v].offset, end = begin + terms->parts[v].count;
            if (begin < range.begin) begin = range.begin;
            if (end > range.end) end = range.end;
            if (begin < end) chunks += ls_norm_chunks(begin, end - begin);
        }
    }
    return chunks;
}
