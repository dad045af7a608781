/* A pull lists its parts from the last bucket to the first: the variables of the first layers. */
#include "store/store_calls.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/pull.h"

void ls_store_calls_name(int64_t model, size_t bucket, char text[64]) {
    (void)snprintf(text, 64, "model %lld, bucket %zu", (long long)model, bucket);
}

int64_t ls_store_calls_model(const char *name) {
    long long model;
    size_t bucket;
    return sscanf(name, "model %lld, bucket %zu", &model, &bucket) == 2 ? (int64_t)model : -1;
}

ls_status ls_store_calls_pull(struct ls_group *group, const struct ls_terms_model *terms,
                              const struct ls_holding *holding, int blob, int to, float *array) {
    static const char *const names[1 + LS_MAX_MOMENTS] = {"variables", "moment 1", "moment 2", "moment 3"};
    size_t count = terms->bucket_count, servers = (size_t)ls_group_serving(group);
    LS_CLEANUP(ls_free_pointer) struct ls_stripe *owned = ls_stripes_list(terms, (int)servers, false);
    LS_CLEANUP(ls_free_pointer) struct ls_pulled *parts = ls_alloc_array(count, sizeof(*parts));
    if (!owned || !parts) return ls_fail_memory("a pull", count * servers * sizeof(*owned));
    for (size_t i = 0; i < count; i++) {
        size_t bucket = count - 1 - i;
        parts[i].owned = owned + bucket * servers;
        if (holding) parts[i].from = (const unsigned char *)(holding->blobs[0][blob] + holding->held[bucket].at);
    }
    const struct ls_pull pull = {
        .name = names[blob], .parts = parts, .count = count, .to = to, .array = (unsigned char *)array};
    return ls_group_pull(group, &pull);
}
