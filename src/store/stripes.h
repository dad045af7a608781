/* The division of a model's elements over servers: every bucket over all of them, so that all links work for the whole
 * step. Cuts are at multiples of LS_NORM_CHUNK, so that norms are added alike for any number of servers. */
#pragma once
#include "collective/schedule/reduction.h"
#include "store/terms.h"

/* The range of a bucket that a server owns; it may be empty. */
struct ls_range ls_stripes_of(const struct ls_terms_model *terms, size_t bucket, int servers, int server);
/* [buckets][servers] bytes of a bucket (in_bucket), or of the blob; freed with ls_free, NULL without memory. */
struct ls_stripe *ls_stripes_list(const struct ls_terms_model *terms, int servers, bool in_bucket);

/* A part of a variable that lies in a range. */
struct ls_piece {
    size_t variable, begin, end;
};
/* Writes the pieces of the range, in order; pieces may be NULL. Returns how many. */
size_t ls_stripes_pieces(const struct ls_terms_model *terms, struct ls_range range, struct ls_piece *pieces);
/* Writes the pieces of all ranges that a server owns, bucket by bucket. */
size_t ls_stripes_pieces_of(const struct ls_terms_model *terms, int servers, int server, struct ls_piece *pieces);
/* The chunks of norms in all that a server owns. */
size_t ls_stripes_chunks(const struct ls_terms_model *terms, int servers, int server);
