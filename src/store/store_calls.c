/* A pull lists its parts from the last bucket to the first: the variables of the first layers. */
#include "store/store_calls.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "collective/servers/pull.h"

void ls_store_calls_name(int64_t model, size_t bucket, char text[64]) {
    (void)snprintf(text, 64, "model %lld, bucket %zu", (long long)model, bucket);
}

int64_t ls_store_calls_model(const char *name) {
    long long model;
    size_t bucket;
    return sscanf(name, "model %lld, bucket %zu", &model, &bucket) == 2 ? (int64_t)model : -1;
}

/* Ranges of count buckets, the last of which is end - 1. It goes first. */
static ls_status pull_buckets(const struct ls_store_pull *pull, size_t end, size_t count) {
    static const char *const names[1 + LS_MAX_MOMENTS] = {"variables", "moment 1", "moment 2", "moment 3"};
    const struct ls_layout layout = ls_layout_of(pull->terms, ls_group_serving(pull->group));
    size_t servers = (size_t)layout.holders;
    LS_CLEANUP(ls_free_pointer) struct ls_stripe *owned = ls_layout_stripes(&layout, false);
    LS_CLEANUP(ls_free_pointer) struct ls_pulled *parts = ls_alloc_array(count, sizeof(*parts));
    if (!owned || !parts) return ls_fail_memory("a pull", count * servers * sizeof(*owned));
    for (size_t i = 0; i < count; i++) {
        size_t bucket = end - 1 - i;
        parts[i].owned = owned + bucket * servers;
        if (pull->holding)
            parts[i].from =
                (const unsigned char *)(pull->holding->blobs[0][pull->blob] + pull->holding->held[bucket].at);
    }
    const struct ls_pull call = {.name = names[pull->blob],
                                 .parts = parts,
                                 .count = count,
                                 .to = pull->to,
                                 .array = (unsigned char *)pull->array};
    return ls_group_pull(pull->group, &call);
}

ls_status ls_store_calls_pull_moments(struct ls_store_pull pull, const struct ls_shard_part *parts) {
    ls_status status = LS_OK;
    pull.to = 0;
    for (pull.blob = 1; pull.terms->count && pull.blob <= pull.terms->moments && !status; pull.blob++) {
        pull.array = parts ? parts[pull.blob].copy : NULL;
        status = pull_buckets(&pull, pull.terms->bucket_count, pull.terms->bucket_count);
        if (!status) ls_reached("moments");
    }
    return status;
}

/* Workers hear of the servers also where these keep tables alone. */
ls_status ls_store_calls_pull_in_turn(const struct ls_store_pull *pull, ls_store_arrived_fn *arrived, void *context) {
    ls_status status = pull->terms->bucket_count ? LS_OK : pull_buckets(pull, 0, 0);
    for (size_t end = pull->terms->bucket_count; end > 0 && !status; end--) {
        status = pull_buckets(pull, end, 1);
        if (!status && arrived) arrived(context, pull->terms->buckets[end - 1]);
        if (!status) ls_reached("pull");
    }
    return status;
}
