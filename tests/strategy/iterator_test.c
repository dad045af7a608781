/* Iterators over datasets that a function makes on each worker. */
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

static float features[2][16];
static const int32_t labels[16];

static ls_status make(void *context, const ls_input_context *input, ls_dataset **dataset) {
    int64_t size, count = input->input_pipeline_id ? 11 : 5;
    ck_assert_ptr_eq(context, features);
    ck_assert_int_eq(input->num_input_pipelines, 2);
    ck_assert_int_eq(input->num_replicas_in_sync, 2);
    ck_assert_int_eq(ls_get_per_replica_batch_size(input, 7, &size), LS_INVALID_ARGUMENT);
    ls_status status = ls_get_per_replica_batch_size(input, 6, &size);
    for (int i = 0; i < 16; i++) features[input->input_pipeline_id][i] = (float)(100 * input->input_pipeline_id + i);
    if (status) return status;
    return ls_dataset_arrays(features[input->input_pipeline_id], LS_SHAPE(1), labels, count, 1,
                             LS_DATASET(.batch_size = size, .shuffle = LS_SHUFFLE_NEVER), dataset);
}

struct seen {
    ls_iterator *iterator;
    ls_batch batch;
    float first;
};

static ls_status look(ls_replica *replica, void *context) {
    struct seen *seen = context;
    ls_status status = ls_iterator_batch(seen->iterator, replica, &seen->batch);
    seen->first = status || !seen->batch.rows ? -1 : seen->batch.features[0];
    return status;
}

static ls_status read_all(struct worker *worker) {
    static const int64_t rows[2][4] = {{3, 2, 0, 0}, {3, 3, 3, 2}};
    struct seen seen = {0};
    ls_status status = ls_iterator_from_function(worker->strategy, make, features, &seen.iterator);
    for (int epoch = 0; epoch < 2 && !status; epoch++) {
        bool end = false;
        for (int step = 0; step < 4 && !status; step++) {
            status = ls_iterator_next(seen.iterator, &end);
            if (!status) ck_assert(!end);
            if (!status) status = ls_strategy_run(worker->strategy, look, &seen);
            if (status) break;
            ck_assert_int_eq(seen.batch.rows, rows[worker->rank][step]);
            ck_assert_int_eq(seen.batch.global_rows, rows[0][step] + rows[1][step]);
            if (seen.batch.rows) ck_assert(seen.first == (float)(100 * worker->rank + 3 * step));
        }
        if (!status) status = ls_iterator_next(seen.iterator, &end);
        if (!status) ck_assert(end);
    }
    ls_iterator_free(seen.iterator);
    return status;
}

TEST(a_function_makes_each_workers_dataset) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = read_all};
    run_workers_ok(&cluster);
}

static ls_status make_differently(void *context, const ls_input_context *input, ls_dataset **dataset) {
    (void)context;
    return ls_dataset_arrays(features[0], LS_SHAPE(1), labels, 5, 1,
                             LS_DATASET(.batch_size = 2 + input->input_pipeline_id), dataset);
}

static ls_status disagree(struct worker *worker) {
    ls_iterator *iterator = NULL;
    ls_status status = ls_iterator_from_function(worker->strategy, make_differently, NULL, &iterator);
    ck_assert_ptr_null(iterator);
    return status;
}

TEST(workers_with_different_options_are_refused) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = disagree};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "batch_size") != NULL, "%s", cluster.workers[i].error);
    }
}

/* Two workers see the batches of one order in turn, each half as large. */
static ls_status read_hinted(struct worker *worker) {
    ls_dataset *dataset = worker->context;
    struct seen seen = {0};
    bool end = false;
    ls_status status = ls_iterator_new(worker->strategy, dataset, &seen.iterator);
    for (int step = 0; step < 6 && !status; step++) {
        status = ls_iterator_next(seen.iterator, &end);
        if (!status) status = ls_strategy_run(worker->strategy, look, &seen);
        if (status) break;
        int64_t rows = step < 4 ? 2 : worker->rank ? 0 : 2;
        ck_assert_int_eq(seen.batch.rows, rows);
        if (rows) ck_assert(seen.first == (float)(4 * (step / 2 * 2 + worker->rank) + step % 2 * 2));
    }
    if (!status) status = ls_iterator_next(seen.iterator, &end);
    if (!status) ck_assert(end);
    ls_iterator_free(seen.iterator);
    return status;
}

TEST(a_hint_shards_a_dataset) {
    float numbers[20];
    int32_t zeros[20] = {0};
    ls_dataset *dataset = NULL;
    for (int i = 0; i < 20; i++) numbers[i] = (float)i;
    ls_status status =
        ls_dataset_arrays(numbers, LS_SHAPE(1), zeros, 20, 1,
                          LS_DATASET(.batch_size = 4, .shuffle = LS_SHUFFLE_NEVER, .division = LS_DIVIDE_TENSORFLOW,
                                     .auto_shard = LS_SHARD_HINT, .shard_hint = LS_HINT_BATCHES),
                          &dataset);
    assert_ok(status);
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = read_hinted, .context = dataset};
    run_workers_ok(&cluster);
    ls_dataset_free(dataset);
}

TESTS("iterator", .seconds = 60)
