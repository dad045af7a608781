/* Gradient buckets: gradients that are reduced together, in the order in which they become ready. A training's are
 * ranges of the gradient blob, cut at variables and inside of large ones, from the tail. RING's bits depend on them, so
 * they are part of the training fingerprint. */
#pragma once
#include <lockstep/lockstep.h>

/* Elements: a variable may be cut at multiples of it, which are counted from the begin of the blob. */
#define LS_BUCKET_STEP ((size_t)1 << 20)

struct ls_bucket {
    size_t begin, end; /* elements of the blob */
};
struct ls_bucket_rule {
    size_t bytes_per_pack;     /* TensorFlow's rule when positive: a pack is full when strictly more is in it */
    size_t first_bytes, bytes; /* otherwise: at least so many bytes in the first bucket, and in each later one, which
                                  gets a sixteenth of the whole where that is less, but no less than the first */
    size_t total;              /* elements of the whole (float32); 0: it is not known */
    size_t extras;             /* of them behind the last variable */
    const size_t *offsets;     /* [count], rising: where variables begin */
    size_t count;
};
/* True if a bucket of so many bytes takes no further variable. */
bool ls_buckets_full(const struct ls_bucket_rule *rule, size_t bytes, bool first);
/* True if one of them begins in [first, end). */
bool ls_buckets_begin_in(const struct ls_bucket *buckets, size_t count, size_t first, size_t end);
/* *buckets is freed with ls_free; bucket 0 is the tail. */
ls_status ls_buckets_cut(const struct ls_bucket_rule *rule, struct ls_bucket **buckets, size_t *bucket_count);
