/* A worker makes the calls that keeper.c answers. */
#include "store/store.h"

#include "base/memory.h"
#include "base/status.h"
#include "collective/broadcast.h"
#include "collective/push.h"
#include "store/store_calls.h"
#include "store/store_norms.h"

struct ls_store {
    struct ls_group *group;
    struct ls_terms_model terms;
    struct ls_stripe *owned; /* [buckets][servers] */
    struct ls_store_norms norms;
};

static ls_status tell_terms(const struct ls_store *store) {
    size_t count = 0;
    LS_CLEANUP(ls_free_pointer) int64_t *words = NULL;
    ls_status status = ls_terms_encode(&store->terms, &words, &count);
    int64_t told = (int64_t)count;
    if (!status) status = ls_group_broadcast_directly(store->group, LS_STORE_TERMS, LS_INT64, &told, 1);
    if (!status && told != (int64_t)count) status = ls_fail(LS_DATA_LOSS, "rank 0 has another model");
    return status ? status : ls_group_broadcast(store->group, LS_STORE_TERMS, 0, LS_INT64, words, count);
}

static ls_status meet(const struct ls_store *store, const struct ls_store_config *config) {
    struct ls_handover handover = {.group = store->group,
                                   .terms = &store->terms,
                                   .version = config->version,
                                   .changed = config->changed,
                                   .listed = config->listed,
                                   .awaited = config->awaits && *config->awaits,
                                   .blobs = {config->variables}};
    for (int m = 0; config->moments && m < store->terms.moments; m++)
        handover.blobs[1 + m] = (float *)(uintptr_t)config->moments + (size_t)m * config->stride;
    ls_status status = ls_handover_run(&handover, config->generation);
    if (handover.lost && config->lost) *config->lost = true;
    if (handover.waits && config->awaits) *config->awaits = true;
    return status;
}

ls_status ls_store_open(const struct ls_store_config *config, struct ls_store **store) {
    struct ls_store *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("the worker's part of parameter servers", sizeof(*made));
    made->group = config->group;
    ls_status status = ls_terms_copy(&config->terms, &made->terms);
    if (!status) status = tell_terms(made);
    if (!status) status = meet(made, config);
    if (!status) made->owned = ls_stripes_list(&made->terms, ls_group_serving(made->group), true);
    if (!status && !made->owned) status = ls_fail_memory("buckets", made->terms.bucket_count * sizeof(*made->owned));
    if (!status) status = ls_store_norms_new(made->group, &made->terms, NULL, &made->norms);
    if (status)
        ls_store_free(made);
    else
        *store = made;
    return status;
}

void ls_store_free(struct ls_store *store) {
    if (!store) return;
    ls_store_norms_free(&store->norms);
    ls_free(store->owned);
    ls_terms_free(&store->terms);
    ls_free(store);
}

ls_status ls_store_push(struct ls_store *store, size_t bucket, const int *first, const float *const *leaves,
                        ls_compression compression) {
    char name[64];
    int servers = ls_group_serving(store->group), replicas = store->terms.replicas;
    const struct ls_range *range = &store->terms.buckets[bucket];
    ls_store_calls_name(store->terms.model, bucket, name);
    const struct ls_push push = {.name = name,
                                 .count = range->end - range->begin,
                                 .owned = store->owned + bucket * (size_t)servers,
                                 .copies = (replicas < servers ? replicas : servers) - 1,
                                 .compression = compression,
                                 .first = first,
                                 .inputs = (const void *const *)leaves};
    return ls_group_push(store->group, &push);
}

ls_status ls_store_step(struct ls_store *store, const struct ls_store_stepping *stepping) {
    int64_t words[LS_STEP_WORDS];
    const struct ls_terms_step own = {*stepping->step, store->terms.model, stepping->moments != NULL, stepping->keep};
    struct ls_store_pull pull = {.group = store->group, .terms = &store->terms, .to = -1, .array = stepping->array};
    struct ls_terms_step told;
    ls_terms_step_encode(&own, words);
    ls_status status = ls_group_broadcast_directly(store->group, LS_STORE_STEP, LS_INT64, words, LS_STEP_WORDS);
    if (!status) status = ls_terms_step_decode(words, &told);
    if (!status) status = ls_store_norms_pass(&store->norms, &told.step);
    if (!status) status = ls_store_calls_pull_in_turn(&pull, stepping->arrived, stepping->context);
    bool mine = ls_group_rank(store->group) == 0;
    for (int m = 1; m <= store->terms.moments && told.fetch && !status; m++) {
        pull.blob = m;
        pull.to = 0;
        pull.array = mine ? stepping->moments + (size_t)(m - 1) * stepping->stride : NULL;
        status = ls_store_calls_pull(&pull);
    }
    return status;
}
