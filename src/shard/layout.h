/* The division of a model over ranks that hold it: who has which elements. Every bucket is divided over all holders, so
 * that all links work for the whole step. Cuts are at multiples of LS_NORM_CHUNK, so that norms are added alike for any
 * number of holders. An element has one owner, and the holders behind the owner have copies. With as many copies as
 * holders all hold all. */
#pragma once
#include "collective/schedule/reduction.h"
#include "shard/terms.h"

struct ls_layout {
    const struct ls_terms_model *terms; /* borrowed */
    int holders, copies;                /* copies: holders that have each element */
};
/* Over so many holders, with as many copies as the terms want and holders allow. */
struct ls_layout ls_layout_of(const struct ls_terms_model *terms, int holders);
/* The holder so many places before that one: whose elements its copy of that number is. */
int ls_layout_before(const struct ls_layout *layout, int holder, int places);
/* The range of a bucket that a holder owns; it may be empty. */
struct ls_range ls_layout_range(const struct ls_layout *layout, size_t bucket, int holder);
/* The elements that two ranges have in common; of an empty one the end is the begin. */
struct ls_range ls_layout_overlap(struct ls_range a, struct ls_range b);
/* Rows of a table that a holder owns: row r is owned by holder r mod k of k. */
size_t ls_layout_rows(const struct ls_layout *layout, int64_t rows, int holder);
/* [buckets][holders] bytes of a bucket (in_bucket), or of the blob; freed with ls_free, NULL without memory. */
struct ls_stripe *ls_layout_stripes(const struct ls_layout *layout, bool in_bucket);

/* A part of a variable that lies in a range. */
struct ls_piece {
    size_t variable, begin, end;
};
/* Writes the pieces of the range, in order; pieces may be NULL. Returns how many. */
size_t ls_layout_pieces(const struct ls_layout *layout, struct ls_range range, struct ls_piece *pieces);
/* Writes the pieces of all ranges that a holder owns, bucket by bucket. */
size_t ls_layout_pieces_of(const struct ls_layout *layout, int holder, struct ls_piece *pieces);
/* The chunks of norms in all that a holder owns. */
size_t ls_layout_chunks(const struct ls_layout *layout, int holder);
