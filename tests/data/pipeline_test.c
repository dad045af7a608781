/* Pipelines: order, epochs, layouts, and errors. */
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "data/fixture.h"
#include "data/pipeline.h"
#include "harness.h"

#define MOST 4096

/* The rows that all replicas of all workers get at one step, one after the other by replica id. */
struct step {
    int64_t rows[16], total;
    float examples[MOST];
};

static struct ls_pipeline *open_pipeline(const ls_dataset *dataset, int replicas, int first, int local, int worker,
                                         int workers) {
    struct ls_pipeline *pipeline;
    const struct ls_pipeline_config config = {dataset, replicas, first, local, worker, workers};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    return pipeline;
}

static void read_replica(const struct ls_pipeline *pipeline, int local, int replica, struct step *step) {
    int32_t labels[MOST];
    int64_t rows = ls_pipeline_rows(pipeline, local);
    ck_assert_int_le(rows, ls_pipeline_max_rows(pipeline));
    ck_assert_int_le(step->total + rows, MOST);
    float *examples = step->examples + step->total;
    assert_ok(ls_pipeline_read(pipeline, local, examples, LS_LABELS(labels)));
    for (int64_t i = 0; i < rows; i++) require(labels[i] == (int64_t)examples[i] % 7);
    step->rows[replica] = rows;
    step->total += rows;
}

/* Workers that hold locals[w] replicas each. */
static void read_step(const ls_dataset *dataset, int workers, const int *locals, int64_t epoch, int64_t index,
                      struct step *step) {
    int replicas = 0, first = 0;
    memset(step, 0, sizeof(*step));
    for (int worker = 0; worker < workers; worker++) replicas += locals[worker];
    for (int worker = 0; worker < workers; first += locals[worker++]) {
        struct ls_pipeline *pipeline = open_pipeline(dataset, replicas, first, locals[worker], worker, workers);
        assert_ok(ls_pipeline_seek(pipeline, epoch, index));
        for (int local = 0; local < locals[worker]; local++) read_replica(pipeline, local, first + local, step);
        ls_pipeline_free(pipeline);
    }
}

static int64_t steps_of(const ls_dataset *dataset) {
    struct ls_pipeline *pipeline = open_pipeline(dataset, 1, 0, 1, 0, 1);
    int64_t steps = ls_pipeline_steps(pipeline);
    ls_pipeline_free(pipeline);
    return steps;
}

/* One order whatever the layout, and for equal replica counts the same slices; every example once in each pass. */
TEST(one_order_holds_for_all_layouts) {
    static const struct {
        int workers, locals[6];
    } layouts[] = {{1, {4}}, {2, {2, 2}},    {4, {1, 1, 1, 1}}, {2, {1, 3}},
                   {1, {3}}, {3, {1, 1, 1}}, {2, {1, 2}},       {2, {2, 4}}};
    ls_dataset *dataset = numbers_make(103, LS_DATASET(.batch_size = 10, .seed = 3, .repeat = 2));
    int64_t steps = steps_of(dataset), seen[103] = {0};
    ck_assert_int_eq(steps, 21);
    for (int64_t index = 0; index < steps; index++) {
        struct step alone, first, other;
        read_step(dataset, 1, (const int[]){1}, 1, index, &alone);
        ck_assert_int_eq(alone.total, index < 20 ? 10 : 6);
        read_step(dataset, 1, layouts[0].locals, 1, index, &first);
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
            read_step(dataset, layouts[i].workers, layouts[i].locals, 1, index, &other);
            ck_assert_int_eq(other.total, alone.total);
            ck_assert_mem_eq(other.examples, alone.examples, (size_t)alone.total * sizeof(float));
            if (i < 4) ck_assert_mem_eq(other.rows, first.rows, sizeof(first.rows));
        }
        for (int64_t i = 0; i < alone.total; i++) seen[(int64_t)alone.examples[i]]++;
    }
    for (int i = 0; i < 103; i++) ck_assert_int_eq(seen[i], 2);
    ls_dataset_free(dataset);
}

/* The examples of an epoch, as one replica sees them. */
static int64_t read_epoch(const ls_dataset *dataset, int64_t epoch, float *examples) {
    int64_t total = 0;
    for (int64_t index = 0; index < steps_of(dataset); index++) {
        struct step step;
        read_step(dataset, 1, (const int[]){1}, epoch, index, &step);
        memcpy(examples + total, step.examples, (size_t)step.total * sizeof(float));
        total += step.total;
    }
    return total;
}

TEST(shuffling_changes_the_order_as_asked_for) {
    float first[300], second[300];
    for (int shuffle = LS_SHUFFLE_EACH_EPOCH; shuffle <= LS_SHUFFLE_NEVER; shuffle++) {
        ls_dataset *dataset =
            numbers_make(100, LS_DATASET(.batch_size = 7, .shuffle = (ls_shuffle)shuffle, .repeat = 3));
        ck_assert_int_eq(read_epoch(dataset, 0, first), 300);
        ck_assert_int_eq(read_epoch(dataset, 1, second), 300);
        ck_assert_int_eq(memcmp(first, second, sizeof(first)) == 0, shuffle != LS_SHUFFLE_EACH_EPOCH);
        ck_assert_int_eq(memcmp(first, first + 100, 100 * sizeof(float)) == 0, shuffle != LS_SHUFFLE_EACH_EPOCH);
        for (int pass = 0; pass < 3; pass++) {
            bool seen[100] = {0};
            for (int i = 0; i < 100; i++) {
                int example = (int)first[100 * pass + i];
                ck_assert(!seen[example]);
                seen[example] = true;
                if (shuffle == LS_SHUFFLE_NEVER) ck_assert_int_eq(example, i);
            }
        }
        ls_dataset_free(dataset);
    }
}

TEST(the_seed_decides_the_order) {
    float first[100], second[100];
    ls_dataset *dataset = numbers_make(100, LS_DATASET(.seed = 1)), *other = numbers_make(100, LS_DATASET(.seed = 2));
    (void)read_epoch(dataset, 0, first);
    (void)read_epoch(other, 0, second);
    ck_assert(memcmp(first, second, sizeof(first)));
    (void)read_epoch(dataset, 0, second);
    ck_assert_mem_eq(first, second, sizeof(first));
    ls_dataset_free(dataset);
    ls_dataset_free(other);
}

/* Any order of seeks gives what going through in order gives. */
TEST(any_order_of_seeks_gives_the_same_batches) {
    ls_dataset *dataset = numbers_make(50, LS_DATASET(.batch_size = 70, .repeat = 5)); /* batches over several passes */
    struct ls_pipeline *pipeline = open_pipeline(dataset, 3, 1, 2, 0, 1);
    ck_assert_int_eq(ls_pipeline_steps(pipeline), 4);
    static const int positions[][2] = {{0, 0}, {2, 3}, {0, 3}, {0, 1}, {5, 2}, {0, 0}, {1, 0}, {2, 3}};
    for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
        struct step fresh, step = {.total = 0};
        read_step(dataset, 1, (const int[]){3}, positions[i][0], positions[i][1], &fresh);
        assert_ok(ls_pipeline_seek(pipeline, positions[i][0], positions[i][1]));
        ck_assert_int_eq(ls_pipeline_global_rows(pipeline), fresh.total);
        read_replica(pipeline, 0, 1, &step);
        read_replica(pipeline, 1, 2, &step);
        ck_assert_mem_eq(step.examples, fresh.examples + fresh.rows[0], (size_t)step.total * sizeof(float));
    }
    assert_fails(ls_pipeline_seek(pipeline, 0, 4), LS_OUT_OF_RANGE, "step 4 is past the end: an epoch has 4 steps");
    assert_fails(ls_pipeline_seek(pipeline, 0, -1), LS_OUT_OF_RANGE, "step -1");
    assert_fails(ls_pipeline_seek(pipeline, -1, 0), LS_OUT_OF_RANGE, "epoch -1");
    assert_fails(ls_pipeline_seek(pipeline, INT64_MAX, 0), LS_OUT_OF_RANGE, "no epoch 9223372036854775807");
    ls_pipeline_free(pipeline);
    ls_pipeline_free(NULL);
    ls_dataset_free(dataset);
}

/* More replicas than rows: the last ones get nothing. */
TEST(the_last_replicas_of_a_short_batch_get_nothing) {
    struct step step;
    ls_dataset *dataset = numbers_make(34, LS_DATASET(.batch_size = 32));
    read_step(dataset, 2, (const int[]){2, 2}, 0, 1, &step);
    ck_assert_int_eq(step.total, 2);
    ck_assert(step.rows[0] == 1 && step.rows[1] == 1 && step.rows[2] == 0 && step.rows[3] == 0);
    ls_dataset_free(dataset);
    dataset = numbers_make(34, LS_DATASET(.batch_size = 32, .drop_remainder = true));
    ck_assert_int_eq(steps_of(dataset), 1);
    ls_dataset_free(dataset);
}

/* TensorFlow's rule: DATA covers each pass once, OFF once on each worker. */
TEST(sharding_follows_tensorflow) {
    for (int shard = LS_SHARD_DATA; shard <= LS_SHARD_OFF; shard++) {
        ls_dataset *dataset =
            numbers_make(45, LS_DATASET(.batch_size = 7, .repeat = 2, .division = LS_DIVIDE_TENSORFLOW,
                                        .auto_shard = (ls_auto_shard)shard));
        struct ls_pipeline *pipeline = open_pipeline(dataset, 4, 0, 2, 0, 2);
        int64_t steps = ls_pipeline_steps(pipeline), seen[45] = {0};
        ck_assert_int_eq(steps, shard == LS_SHARD_DATA ? 13 : 26);
        ls_pipeline_free(pipeline);
        for (int64_t index = 0; index < steps; index++) {
            struct step step;
            read_step(dataset, 2, (const int[]){2, 2}, 0, index, &step);
            for (int64_t i = 0; i < step.total; i++) seen[(int64_t)step.examples[i]]++;
        }
        for (int i = 0; i < 45; i++) ck_assert_int_eq(seen[i], shard == LS_SHARD_DATA ? 2 : 4);
        ls_dataset_free(dataset);
    }
}

static void check_refused(const ls_dataset *dataset, struct ls_pipeline_config config, const char *text) {
    struct ls_pipeline *pipeline = NULL;
    config.dataset = dataset;
    assert_refused(ls_pipeline_new(&config, &pipeline), text);
    ck_assert_ptr_null(pipeline);
}

TEST(bad_layouts_are_refused) {
    ls_dataset *dataset = numbers_make(10, LS_DATASET(.division = LS_DIVIDE_TENSORFLOW));
    check_refused(dataset, (struct ls_pipeline_config){NULL, 3, 0, 1, 0, 2},
                  "worker 0 has 1 (from 0) of 3 on 2 workers");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 4, 0, 1, 0, 2}, "as many replicas on every worker");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 4, 0, 2, 1, 2}, "as many replicas on every worker");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 0, 0, 1, 0, 1}, "1 replicas from 0 on are not among");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, 0, 0, 0, 1}, "0 replicas from 0");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, 1, 2, 0, 1}, "2 replicas from 1");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, -1, 2, 0, 1}, "2 replicas from -1");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, 2, INT32_MAX, 0, 1}, "2147483647 replicas from 2");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, 0, 1, 2, 2}, "worker 2 is not among 2 workers");
    check_refused(dataset, (struct ls_pipeline_config){NULL, 2, 0, 1, 0, 0}, "worker 0 is not among 0 workers");
    ls_dataset_free(dataset);
    dataset = numbers_make(10, LS_DATASET(.batch_size = 11, .drop_remainder = true));
    check_refused(dataset, (struct ls_pipeline_config){NULL, 1, 0, 1, 0, 1}, "batch_size 11 with drop_remainder");
    ls_dataset_free(dataset);
}

struct reader {
    const struct ls_pipeline *pipeline;
    int local;
    float features[16 * 784];
    int32_t labels[16];
};

static void *read_in_thread(void *argument) {
    struct reader *reader = argument;
    return (void *)(intptr_t)ls_pipeline_read(reader->pipeline, reader->local, reader->features,
                                              LS_LABELS(reader->labels));
}

/* Replica threads read at once, of digits too, which are drawn at the first reading. Two readers share each replica. */
TEST(replica_threads_read_at_once) {
    static struct reader readers[8];
    ls_dataset *dataset;
    assert_ok(ls_dataset_digits(LS_DATASET(.batch_size = 64, .limit = 640), &dataset));
    struct ls_pipeline *pipeline = open_pipeline(dataset, 4, 0, 4, 0, 1);
    for (int64_t step = 0; step < 2 * ls_pipeline_steps(pipeline); step++) {
        pthread_t threads[8];
        assert_ok(ls_pipeline_seek(pipeline, step / 10, step % 10));
        for (int i = 0; i < 8; i++) {
            readers[i].pipeline = pipeline;
            readers[i].local = i / 2;
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_in_thread, &readers[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            void *status;
            ck_assert_int_eq(pthread_join(threads[i], &status), 0);
            assert_ok((ls_status)(intptr_t)status);
        }
        for (int i = 0; i < 8; i += 2) {
            ck_assert_mem_eq(readers[i].features, readers[i + 1].features, sizeof(readers[i].features));
            ck_assert_mem_eq(readers[i].labels, readers[i + 1].labels, sizeof(readers[i].labels));
        }
    }
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

/* tf.data's shuffle(reshuffle_each_iteration=False).repeat(3): each pass has the order of the first, in each epoch. */
TEST_EACH(shuffling_once_repeats_the_first_order, 2) {
    ls_dataset *dataset = numbers_make(10, LS_DATASET(.batch_size = 10, .repeat = 3, .seed = 4,
                                                      .shuffle = LS_SHUFFLE_ONCE, .shuffle_buffer = _i ? 4 : 0));
    const struct ls_pipeline_config config = {
        .dataset = dataset, .num_replicas = 1, .local_replicas = 1, .num_workers = 1};
    struct ls_pipeline *pipeline;
    float first[10], again[10];
    int32_t labels[10];
    int moved = 0;
    assert_ok(ls_pipeline_new(&config, &pipeline));
    assert_ok(ls_pipeline_read(pipeline, 0, first, LS_LABELS(labels)));
    for (int i = 0; i < 10; i++) moved += first[i] != (float)i;
    ck_assert_int_gt(moved, 3);
    for (int pass = 1; pass < 6; pass++) {
        assert_ok(ls_pipeline_seek(pipeline, pass / 3, pass % 3));
        assert_ok(ls_pipeline_read(pipeline, 0, again, LS_LABELS(labels)));
        ck_assert_mem_eq(again, first, sizeof(first));
    }
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

TESTS("pipeline", .seconds = 60)
