/* A worker makes the calls that keeper.c answers. */
#include "store/store.h"

#include "base/new.h"
#include "collective/collectives.h"
#include "collective/servers/push.h"
#include "store/row_calls.h"
#include "store/session/session_pushes.h"
#include "store/store_calls.h"
#include "store/store_norms.h"

struct ls_store {
    struct ls_group *group;
    struct ls_terms_model terms;
    struct ls_layout layout;
    struct ls_stripe *owned; /* [buckets][servers] */
    struct ls_store_norms norms;
    const struct ls_row_leaf *leaves; /* [leaf_count] of the step under way; borrowed */
    int leaf_count;
};

static ls_status tell_terms(const struct ls_store *store) {
    size_t count = 0;
    LS_CLEANUP(ls_free_pointer) int64_t *words = NULL;
    ls_status status = ls_terms_encode(&store->terms, &words, &count);
    int64_t told = (int64_t)count;
    if (!status) status = ls_group_broadcast_directly(store->group, LS_STORE_TERMS, LS_INT64, &told, 1);
    if (!status && told != (int64_t)count) status = ls_fail(LS_DATA_LOSS, "rank 0 has another model");
    return status ? status : ls_group_broadcast(store->group, LS_BROADCAST(LS_STORE_TERMS, words, count, LS_INT64));
}

/* Moments and tables change together. */
static enum ls_changed what_changed(const struct ls_store *store, const struct ls_shard_part *parts) {
    size_t own = 1 + (size_t)store->terms.moments, count = own + own * store->terms.table_count;
    if (!parts) return LS_CHANGED_ALL;
    if (parts->origin == LS_FROM_WORKER) return LS_CHANGED_COPIED;
    if (ls_parts_are_new(parts + 1, count - 1)) return LS_CHANGED_ALL;
    return ls_parts_are_new(parts, 1) ? LS_CHANGED_VARIABLES : LS_CHANGED_NOTHING;
}

static ls_status meet(const struct ls_store *store, const struct ls_store_config *config) {
    enum ls_changed changed = what_changed(store, config->parts);
    const struct ls_shard_part *given = changed == LS_CHANGED_ALL ? config->parts : NULL;
    size_t first_table = ls_part_of_table(store->terms.moments, store->terms.table_count, 0, 0);
    struct ls_handover handover = {.group = store->group,
                                   .terms = &store->terms,
                                   .version = config->version,
                                   .changed = changed,
                                   .returns = config->returns,
                                   .listed = config->listed,
                                   .awaited = config->awaits && *config->awaits,
                                   .tables = given ? given + first_table : NULL,
                                   .blobs = {config->variables}};
    for (int m = 1; given && m <= store->terms.moments; m++) handover.blobs[m] = given[m].copy;
    ls_status status = ls_handover_run(&handover, config->generation);
    if (handover.lost && config->lost) *config->lost = true;
    if (handover.anew && config->anew) *config->anew = true;
    if (handover.waits && config->awaits) *config->awaits = true;
    return status;
}

ls_status ls_store_open(const struct ls_store_config *config, struct ls_store **store) {
    LS_NEW(struct ls_store, made, "the worker's part of parameter servers");
    made->group = config->group;
    ls_status status = ls_terms_copy(&config->terms, &made->terms);
    if (!status) status = tell_terms(made);
    if (!status && made->terms.asynchronous) status = ls_session_settle_run(NULL, made->group, NULL);
    if (!status) status = meet(made, config);
    made->layout = ls_layout_of(&made->terms, ls_group_serving(made->group));
    if (!status) made->owned = ls_layout_stripes(&made->layout, true);
    if (!status && !made->owned) status = ls_fail_memory("buckets", made->terms.bucket_count * sizeof(*made->owned));
    int workers = ls_group_size(made->group) - made->layout.holders;
    if (!status) status = ls_store_norms_new(made->group, workers, &made->terms, NULL, &made->norms);
    return LS_HAND_OVER(status, store, made, ls_store_free(made));
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
    const struct ls_range *range = &store->terms.buckets[bucket];
    ls_store_calls_name(store->terms.model, bucket, name);
    const struct ls_push push = {.name = name,
                                 .count = range->end - range->begin,
                                 .owned = store->owned + bucket * (size_t)store->layout.holders,
                                 .copies = store->layout.copies - 1,
                                 .compression = compression,
                                 .first = first,
                                 .inputs = (const void *const *)leaves};
    return ls_group_push(store->group, &push);
}

int ls_store_servers(const struct ls_store *store) {
    return store->layout.holders;
}

ls_status ls_store_pull_rows(struct ls_store *store, const struct ls_row_leaf *leaves, int count) {
    int64_t model = store->terms.model;
    store->leaves = leaves;
    store->leaf_count = count;
    ls_status status = ls_group_broadcast_directly(store->group, LS_STORE_ROWS, LS_INT64, &model, 1);
    return status ? status : ls_row_calls_pull(store->group, &store->terms, leaves, count);
}

ls_status ls_store_step(struct ls_store *store, const struct ls_store_stepping *stepping) {
    int64_t words[LS_STEP_WORDS];
    const struct ls_terms_step own = {*stepping->step, store->terms.model, stepping->parts != NULL, stepping->keep};
    const struct ls_store_pull pull = {
        .group = store->group, .terms = &store->terms, .to = -1, .array = stepping->array};
    struct ls_terms_step told;
    ls_terms_step_encode(&own, words);
    ls_status status = ls_group_broadcast_directly(store->group, LS_STORE_STEP, LS_INT64, words, LS_STEP_WORDS);
    if (!status) status = ls_terms_step_decode(words, &told);
    if (!status && store->terms.table_count)
        status = ls_row_calls_push(store->group, &store->terms, store->leaves, store->leaf_count);
    if (!status) status = ls_store_norms_pass(&store->norms, &told.step);
    if (!status) status = ls_store_calls_pull_in_turn(&pull, stepping->arrived, stepping->context);
    if (!status && told.fetch) status = ls_store_calls_pull_moments(pull, stepping->parts);
    if (!status && told.fetch) status = ls_row_calls_fetch(store->group, &store->terms, NULL, stepping->parts);
    return status;
}

struct ls_group *ls_store_group(const struct ls_store *store) {
    return store->group;
}

const struct ls_terms_model *ls_store_terms(const struct ls_store *store) {
    return &store->terms;
}

ls_status ls_store_fetch(struct ls_store *store, const struct ls_shard_part *parts) {
    int64_t number = parts ? store->terms.model : -1;
    ls_status status = ls_group_broadcast_directly(store->group, LS_STORE_FETCH, LS_INT64, &number, 1);
    const struct ls_store_pull pull = {.group = store->group, .terms = &store->terms};
    return status || number < 0 ? status : ls_store_calls_pull_moments(pull, parts);
}
