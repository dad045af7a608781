/* Cutting the gradient blob into buckets (TensorFlow: cross_device_utils.group_by_size on reversed gradients). Buckets
 * of gradients that are reduced while backward goes on are those of PyTorch's DistributedDataParallel (Li et al. 2020);
 * the rule of packs is TensorFlow's CommunicationOptions.bytes_per_pack. */
#include "collective/bucket.h"

#include "base/new.h"

#define SHARE 16

/* The size of a bucket after the first. The wire may be idle while a bucket fills, and the replicas are idle while the
 * last one is reduced. So a bucket is a small part of the whole, but no smaller than the first. */
static size_t later_bytes(const struct ls_bucket_rule *rule) {
    size_t share = rule->total * sizeof(float) / SHARE, bytes = rule->bytes;
    if (rule->total && share < bytes) bytes = share;
    return bytes > rule->first_bytes ? bytes : rule->first_bytes;
}

/* The first bucket may be smaller: the sooner it is full, the sooner the wire has work. TensorFlow closes a pack when
 * strictly more than bytes_per_pack lies in it, so a pack holds a variable more than fits. */
bool ls_buckets_full(const struct ls_bucket_rule *rule, size_t bytes, bool first) {
    if (rule->bytes_per_pack) return bytes > rule->bytes_per_pack;
    return bytes >= (first ? rule->first_bytes : later_bytes(rule));
}

/* Buckets that have been cut so far; the one that is being filled ends at end. */
struct cutting {
    const struct ls_bucket_rule *rule;
    struct ls_bucket *buckets;
    size_t made, end;
};

static void close_bucket(struct cutting *cutting, size_t begin) {
    cutting->buckets[cutting->made++] = (struct ls_bucket){begin, cutting->end};
    cutting->end = begin;
}

/* A bucket may begin there. */
static void offer_cut(struct cutting *cutting, size_t at) {
    if (ls_buckets_full(cutting->rule, (cutting->end - at) * sizeof(float), !cutting->made)) close_bucket(cutting, at);
}

/* Of a variable that ends before end, from there on. TensorFlow's packs hold whole variables. */
static void offer_cuts_inside(struct cutting *cutting, size_t offset, size_t end) {
    size_t at = end ? (end - 1) / LS_BUCKET_STEP * LS_BUCKET_STEP : 0;
    if (cutting->rule->bytes_per_pack) return;
    for (; at > offset; at -= LS_BUCKET_STEP) offer_cut(cutting, at);
}

/* The walk goes from the last variable to the first, in the order in which backward finishes gradients. A bucket closes
 * at the begin of a variable, or inside of a large one, so that its last part is reduced while the next is on its way.
 * Bucket 0 reaches to total: statistics and extras lie behind the last variable and go with it. A model without
 * variables has one bucket. */
ls_status ls_buckets_cut(const struct ls_bucket_rule *rule, struct ls_bucket **buckets, size_t *bucket_count) {
    size_t most = rule->count + rule->total / LS_BUCKET_STEP + 1, end = rule->total - rule->extras;
    LS_NEW_ARRAY(struct ls_bucket, cut, most, "gradient buckets");
    struct cutting cutting = {.rule = rule, .buckets = cut, .end = rule->total};
    for (size_t i = rule->count; i-- > 0; end = rule->offsets[i]) {
        offer_cuts_inside(&cutting, rule->offsets[i], end);
        if (i > 0) offer_cut(&cutting, rule->offsets[i]);
    }
    if (cutting.end > 0 || !cutting.made) close_bucket(&cutting, 0);
    *buckets = cut;
    *bucket_count = cutting.made;
    return LS_OK;
}

bool ls_buckets_begin_in(const struct ls_bucket *buckets, size_t count, size_t first, size_t end) {
    for (size_t i = 0; i < count; i++)
        if (buckets[i].begin >= first && buckets[i].begin < end) return true;
    return false;
}
