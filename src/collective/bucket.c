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

/* The walk goes from the last variable to the first, in the order in which backward finishes gradients. [offsets[i],
 * end) is the bucket that is being filled; it closes at the begin of a variable, so no variable lies in two. Bucket 0
 * reaches to total: statistics and extras lie behind the last variable and go with it. A model without variables has
 * one bucket. */
ls_status ls_buckets_cut(const struct ls_bucket_rule *rule, struct ls_bucket **buckets, size_t *bucket_count) {
    LS_NEW_ARRAY(struct ls_bucket, cut, rule->count + 1, "gradient buckets");
    size_t made = 0, end = rule->total;
    for (size_t i = rule->count; i-- > 0;) {
        if (i > 0 && !ls_buckets_full(rule, (end - rule->offsets[i]) * sizeof(float), made == 0)) continue;
        size_t begin = i > 0 ? rule->offsets[i] : 0;
        cut[made++] = (struct ls_bucket){begin, end};
        end = begin;
    }
    if (!made) cut[made++] = (struct ls_bucket){0, rule->total};
    *buckets = cut;
    *bucket_count = made;
    return LS_OK;
}

bool ls_buckets_begin_in(const struct ls_bucket *buckets, size_t count, size_t first, size_t end) {
    for (size_t i = 0; i < count; i++)
        if (buckets[i].begin >= first && buckets[i].begin < end) return true;
    return false;
}
