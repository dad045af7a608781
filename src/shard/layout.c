/* A cut is a multiple of the chunk, or an end of the bucket. */
#include "shard/layout.h"

#include "base/memory.h"
#include "device/norm.h"

struct ls_layout ls_layout_of(const struct ls_terms_model *terms, int holders) {
    return (struct ls_layout){terms, holders, terms->replicas < holders ? terms->replicas : holders};
}

int ls_layout_before(const struct ls_layout *layout, int holder, int places) {
    return (holder + layout->holders - places) % layout->holders;
}

static size_t cut(const struct ls_range *bucket, int holders, int at) {
    size_t low = bucket->begin / LS_NORM_CHUNK, high = (bucket->end + LS_NORM_CHUNK - 1) / LS_NORM_CHUNK;
    size_t chunks = high - low, n = (size_t)holders, i = (size_t)at;
    size_t element = (low + chunks / n * i + chunks % n * i / n) * LS_NORM_CHUNK;
    return element < bucket->begin ? bucket->begin : element > bucket->end ? bucket->end : element;
}

/* A bucket of few chunks has more for its last holders. They are others in the next bucket. */
struct ls_range ls_layout_range(const struct ls_layout *layout, size_t bucket, int holder) {
    int at = (holder + (int)(bucket % (size_t)layout->holders)) % layout->holders;
    const struct ls_range *range = &layout->terms->buckets[bucket];
    return (struct ls_range){cut(range, layout->holders, at), cut(range, layout->holders, at + 1)};
}

struct ls_range ls_layout_overlap(struct ls_range a, struct ls_range b) {
    size_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return (struct ls_range){begin, begin < end ? end : begin};
}

size_t ls_layout_rows(const struct ls_layout *layout, int64_t rows, int holder) {
    return holder < rows ? (size_t)((rows - 1 - holder) / layout->holders + 1) : 0;
}

struct ls_stripe *ls_layout_stripes(const struct ls_layout *layout, bool in_bucket) {
    const struct ls_terms_model *terms = layout->terms;
    struct ls_stripe *list = ls_alloc_array(terms->bucket_count * (size_t)layout->holders, sizeof(*list)), *at = list;
    for (size_t b = 0; list && b < terms->bucket_count; b++)
        for (int h = 0; h < layout->holders; h++) {
            struct ls_range range = ls_layout_range(layout, b, h);
            size_t from = in_bucket ? terms->buckets[b].begin : 0;
            *at++ = (struct ls_stripe){(range.begin - from) * sizeof(float), (range.end - range.begin) * sizeof(float)};
        }
    return list;
}

/* The part of a variable that lies in the range; false: there is none. */
static bool cut_variable(const struct ls_layout *layout, size_t variable, struct ls_range range,
                         struct ls_piece *piece) {
    size_t begin = layout->terms->parts[variable].offset, end = begin + layout->terms->parts[variable].count;
    if (begin < range.begin) begin = range.begin;
    if (end > range.end) end = range.end;
    *piece = (struct ls_piece){variable, begin, end};
    return begin < end;
}

size_t ls_layout_pieces(const struct ls_layout *layout, struct ls_range range, struct ls_piece *pieces) {
    struct ls_piece piece;
    size_t found = 0;
    for (size_t v = 0; v < layout->terms->part_count; v++) {
        if (!cut_variable(layout, v, range, &piece)) continue;
        if (pieces) pieces[found] = piece;
        found++;
    }
    return found;
}

size_t ls_layout_pieces_of(const struct ls_layout *layout, int holder, struct ls_piece *pieces) {
    size_t found = 0;
    for (size_t b = 0; b < layout->terms->bucket_count; b++)
        found += ls_layout_pieces(layout, ls_layout_range(layout, b, holder), pieces ? pieces + found : NULL);
    return found;
}

size_t ls_layout_chunks(const struct ls_layout *layout, int holder) {
    struct ls_piece piece;
    size_t chunks = 0;
    for (size_t b = 0; b < layout->terms->bucket_count; b++)
        for (size_t v = 0; v < layout->terms->part_count; v++)
            if (cut_variable(layout, v, ls_layout_range(layout, b, holder), &piece))
                chunks += ls_norm_chunks(piece.begin, piece.end - piece.begin);
    return chunks;
}
