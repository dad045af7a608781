/* Cutting the gradient blob into buckets (TensorFlow: cross_device_utils.group_by_size on reversed gradients). */
#include "strategy/bucket.h"

#include "base/memory.h"
#include "base/status.h"

#define SHARE 16

/* Bytes that fill a bucket after the first. While it fills the wire may be idle, and while the last one is reduced the
 * replicas are: so it is a small part of the whole, unless that would be less than the first. */
static size_t later_bytes(const struct ls_bucket_rule *rule, size_t total) {
    size_t bytes = total / SHARE < rule->bytes ? total / SHARE : rule->bytes;
    return bytes > rule->first_bytes ? bytes : rule->first_bytes;
}

static bool full(const struct ls_bucket_rule *rule, size_t bytes, bool first, size_t total) {
    if (rule->bytes_per_pack) return bytes > rule->bytes_per_pack;
    return bytes >= (first ? rule->first_bytes : later_bytes(rule, total));
}

ls_status ls_buckets_cut(const struct ls_bucket_rule *rule, const size_t *offsets, size_t count, size_t total,
                         struct ls_bucket **buckets, size_t *bucket_count) {
    struct ls_bucket *cut = ls_alloc_array(count + 1, sizeof(*cut));
    if (!cut) return ls_fail_memory("gradient buckets", (count + 1) * sizeof(*cut));
    size_t made = 0, end = total;
    for (size_t i = count; i-- > 0;) {
        if (!full(rule, (end - offsets[i]) * sizeof(float), made == 0, total * sizeof(float)) && i > 0) continue;
        size_t begin = i > 0 ? offsets[i] : 0;
        cut[made++] = (struct ls_bucket){begin, end};
        end = begin;
    }
    if (!made) cut[made++] = (struct ls_bucket){0, total};
    *buckets = cut;
    *bucket_count = made;
    return LS_OK;
}
