/* Reading ahead: the same batches with any number of threads, wherever one seeks; errors; shards by files; caches. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "data/fixture.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "harness.h"

#define EXAMPLES 37
#define ROWS     16

struct batch {
    int64_t rows;
    float features[ROWS];
    int32_t labels[ROWS];
};

static struct ls_pipeline *open_pipeline(const ls_dataset *dataset, int worker, int workers) {
    struct ls_pipeline *pipeline;
    const struct ls_pipeline_config config = {dataset, 2 * workers, 2 * worker, 2, worker, workers};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    return pipeline;
}

static void read_batch(const struct ls_pipeline *pipeline, int local, struct batch *batch) {
    memset(batch, 0, sizeof(*batch));
    batch->rows = ls_pipeline_rows(pipeline, local);
    ck_assert_int_le(batch->rows, ROWS);
    assert_ok(ls_pipeline_read(pipeline, local, batch->features, LS_LABELS(batch->labels)));
}

/* Adds a random number, so that the draws are compared too. */
static ls_status blur(void *context, const ls_map_call *call) {
    if (context && ++*(atomic_int *)context % 5 == 0) /* some examples take longer */
        for (volatile int i = 0; i < 20000; i++) continue;
    *call->output = *call->input + (float)(call->random[0] >> 16) / 65536.0F;
    return LS_OK;
}

static ls_dataset *make(int workers, atomic_int *calls) {
    return numbers_make(EXAMPLES, LS_DATASET(.batch_size = 10, .seed = 9, .repeat = 2, .workers = workers,
                                             .prefetch = 3, .maps = LS_MAPS(ls_map_function(blur, calls))));
}

TEST_RANGE(threads_change_no_batch, 1, 5) {
    atomic_int calls = 0;
    ls_dataset *alone = make(-1, NULL), *many = make(_i, &calls);
    struct ls_pipeline *a = open_pipeline(alone, 0, 1), *b = open_pipeline(many, 0, 1);
    int64_t steps = ls_pipeline_steps(a);
    ck_assert_int_eq(steps, 8);
    /* on, across the end of an epoch, back by one, far away, and twice the same */
    static const int64_t path[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 6}, {0, 7}, {1, 0}, {1, 1}, {1, 0},
                                      {1, 1}, {5, 3}, {5, 4}, {5, 4}, {0, 5}, {0, 6}, {0, 7}, {1, 0}};
    for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
        assert_ok(ls_pipeline_seek(a, path[i][0], path[i][1]));
        assert_ok(ls_pipeline_seek(b, path[i][0], path[i][1]));
        ck_assert_int_eq(ls_pipeline_global_rows(a), ls_pipeline_global_rows(b));
        for (int local = 0; local < 2; local++) {
            struct batch one, other;
            read_batch(a, local, &one);
            read_batch(b, local, &other);
            ck_assert_mem_eq(&one, &other, sizeof(one));
        }
    }
    ls_pipeline_free(a);
    ls_pipeline_free(b);
    ls_dataset_free(alone);
    ls_dataset_free(many);
}

static void pin(void *context, void *memory, size_t size) {
    ((struct ls_read_rows *)context)->features = memory;
    ck_assert_uint_gt(size, 0);
}

static void unpin(void *context, void *memory) {
    ck_assert_ptr_eq(((struct ls_read_rows *)context)->features, memory);
    *(struct ls_read_rows *)context = (struct ls_read_rows){0};
}

/* Rows that stay where they are read are those of a copy: of the present step and of the next one, with threads of the
 * dataset's, with those that much memory is worth, and with none. */
TEST_EACH(rows_lie_where_they_are_read, 3) {
    enum { COUNT = 12, WIDTH = 128 * 1024 }; /* 2 MB a step: worth 2 threads */
    struct ls_read_rows pinned = {0};
    static const int workers[] = {0, -1, 2};
    static float values[COUNT * WIDTH];
    int32_t labels[COUNT], found_labels[4];
    for (int i = 0; i < COUNT * WIDTH; i++) values[i] = (float)(i * 7919LL % 65536);
    for (int i = 0; i < COUNT; i++) labels[i] = i;
    ls_dataset *dataset;
    assert_ok(ls_dataset_arrays(values, LS_SHAPE(WIDTH), labels, COUNT, COUNT,
                                LS_DATASET(.batch_size = 5, .workers = workers[_i]), &dataset));
    struct ls_pipeline_config config = {dataset, 2, 0, 2, 0, 1, .memory = {pin, unpin, &pinned}};
    struct ls_pipeline *pipeline;
    assert_ok(ls_pipeline_new(&config, &pipeline));
    ck_assert_ptr_nonnull(pinned.features);
    for (int64_t step = 0; step < 9; step++) {
        struct ls_pipeline_step next;
        assert_ok(ls_pipeline_seek(pipeline, step / 3, step % 3));
        ck_assert_int_eq(ls_pipeline_next(pipeline, &next), workers[_i] >= 0);
        for (int i = 0; i < (workers[_i] < 0 ? 2 : 4); i++) {
            const void *found;
            int64_t rows = i / 2 ? ls_pipeline_next_rows(pipeline, i % 2) : ls_pipeline_rows(pipeline, i % 2);
            assert_ok(ls_pipeline_find(pipeline, i / 2, i % 2, &found, LS_LABELS(found_labels)));
            for (int64_t row = 0; row < rows; row++)
                ck_assert_mem_eq((const float *)found + row * WIDTH, values + (int64_t)found_labels[row] * WIDTH,
                                 WIDTH * sizeof(float));
        }
    }
    ls_pipeline_free(pipeline);
    ck_assert_ptr_null(pinned.features);
    ls_dataset_free(dataset);
}

static ls_status refuse_seven(void *context, const ls_map_call *call) {
    (void)context;
    *call->output = *call->input;
    return call->example == 7 ? LS_DATA_LOSS : LS_OK;
}

/* A thread's error becomes the reader's, at the step of the example and at no other. */
TEST(an_error_comes_at_its_step) {
    ls_dataset *dataset = numbers_make(EXAMPLES, LS_DATASET(.batch_size = 4, .shuffle = LS_SHUFFLE_NEVER, .workers = 3,
                                                            .maps = LS_MAPS(ls_map_function(refuse_seven))));
    struct ls_pipeline *pipeline = open_pipeline(dataset, 0, 1);
    for (int64_t step = 0; step < 4; step++) {
        float features[ROWS];
        int32_t labels[ROWS];
        assert_ok(ls_pipeline_seek(pipeline, 0, step));
        ls_status status = ls_pipeline_read(pipeline, 1, features, LS_LABELS(labels));
        ck_assert_int_eq(status, step == 1 ? LS_DATA_LOSS : LS_OK);
        if (status) ck_assert_msg(strstr(ls_error(), "failed at example 7") != NULL, "%s", ls_error());
    }
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

static ls_status refuse(void *context, const ls_map_call *call) {
    *call->output = *call->input;
    return call->example == 7 && *(atomic_bool *)context ? LS_UNAVAILABLE : LS_OK;
}

/* A second seek to the step has it read once more. */
TEST(another_seek_reads_the_step_again) {
    atomic_bool refused = true;
    ls_dataset *dataset = numbers_make(EXAMPLES, LS_DATASET(.batch_size = 4, .shuffle = LS_SHUFFLE_NEVER, .workers = 3,
                                                            .maps = LS_MAPS(ls_map_function(refuse, &refused))));
    struct ls_pipeline *pipeline = open_pipeline(dataset, 0, 1);
    float features[ROWS];
    int32_t labels[ROWS];
    for (int time = 0; time < 2; time++) {
        assert_ok(ls_pipeline_seek(pipeline, 0, 1));
        ck_assert_int_eq(ls_pipeline_read(pipeline, 1, features, LS_LABELS(labels)), time ? LS_OK : LS_UNAVAILABLE);
        refused = false;
    }
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

static ls_status count_calls(void *context, const ls_map_call *call) {
    ++*(atomic_int *)context;
    *call->output = *call->input;
    return LS_OK;
}

/* Nothing is read that lies further ahead than asked for. */
TEST(reading_stops_at_the_depth) {
    atomic_int calls = 0;
    ls_dataset *dataset = numbers_make(100, LS_DATASET(.batch_size = 5, .workers = 2, .prefetch = 3,
                                                       .maps = LS_MAPS(ls_map_function(count_calls, &calls))));
    struct ls_pipeline *pipeline = open_pipeline(dataset, 0, 1);
    assert_ok(ls_pipeline_seek(pipeline, 0, 1));
    for (int i = 0, after = 10; i < 500 && after > 0; i++) {
        struct timespec pause = {0, 10000000};
        (void)nanosleep(&pause, NULL);
        after -= calls >= 20;
    }
    ck_assert(calls >= 20 && calls <= 25); /* steps 1 to 4, and what step 0 had begun */
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

/* tf.data's shuffle with a buffer: an example comes at most so much too early. */
TEST(a_shuffle_buffer_bounds_the_distance) {
    ls_dataset *dataset =
        numbers_make(EXAMPLES, LS_DATASET(.batch_size = 2, .shuffle_buffer = 5, .skip = 3, .limit = 30));
    struct ls_pipeline *pipeline = open_pipeline(dataset, 0, 1);
    bool seen[EXAMPLES] = {false};
    int moved = 0;
    ck_assert_int_eq(ls_pipeline_steps(pipeline), 15);
    for (int64_t step = 0; step < 15; step++) {
        assert_ok(ls_pipeline_seek(pipeline, 2, step));
        for (int local = 0; local < 2; local++) {
            struct batch batch;
            read_batch(pipeline, local, &batch);
            int number = (int)batch.features[0], place = (int)(2 * step + local);
            ck_assert(number >= 3 && number < 33 && !seen[number]);
            ck_assert_int_lt(number - 3, place + 5);
            seen[number] = true;
            moved += number - 3 != place;
        }
    }
    ck_assert_int_gt(moved, 15);
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

static ls_status stand_still(void *context, const ls_map_call *call) {
    *call->output = *call->input;
    while (*(atomic_bool *)context && call->example == 5) {
        struct timespec pause = {0, 1000000};
        (void)nanosleep(&pause, NULL);
    }
    return LS_OK;
}

/* An example that does not come is named; when it has come, its batch is there. */
TEST(a_missing_example_is_named) {
    atomic_bool still = true;
    ls_dataset *dataset = numbers_make(EXAMPLES, LS_DATASET(.batch_size = 4, .shuffle = LS_SHUFFLE_NEVER, .workers = 2,
                                                            .maps = LS_MAPS(ls_map_function(stand_still, &still))));
    const struct ls_pipeline_config config = {
        .dataset = dataset, .num_replicas = 2, .local_replicas = 2, .num_workers = 1, .timeout_seconds = 0.1};
    struct ls_pipeline *pipeline;
    struct batch batch = {0};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    assert_ok(ls_pipeline_seek(pipeline, 0, 1));
    assert_fails(ls_pipeline_read(pipeline, 0, batch.features, LS_LABELS(batch.labels)), LS_DEADLINE_EXCEEDED,
                 "the data of step 1 of epoch 0 has not been read within 0.1 s: 3 of 4 examples are there");
    assert_fails(ls_pipeline_seek(pipeline, 0, 2), LS_DEADLINE_EXCEEDED, "step 1 of epoch 0");
    still = false;
    assert_ok(ls_pipeline_seek(pipeline, 0, 2));
    read_batch(pipeline, 1, &batch);
    ck_assert(batch.rows == 2 && batch.features[0] == 10);
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

/* A read that hangs for longer is left behind, with its buffers. The pipeline and the dataset are given back. */
TEST_RANGE(a_hanging_read_is_left_behind, -1, 3) {
    static atomic_bool still;
    still = true;
    ls_dataset *dataset = numbers_make(EXAMPLES, LS_DATASET(.batch_size = 4, .shuffle = LS_SHUFFLE_NEVER, .workers = _i,
                                                            .maps = LS_MAPS(ls_map_function(stand_still, &still))));
    const struct ls_pipeline_config config = {
        .dataset = dataset, .num_replicas = 2, .local_replicas = 2, .num_workers = 1, .timeout_seconds = 1};
    struct ls_pipeline *pipeline;
    struct batch batch = {0};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    assert_ok(ls_pipeline_seek(pipeline, 0, 1));
    assert_fails(ls_pipeline_read(pipeline, 0, batch.features, LS_LABELS(batch.labels)), LS_DEADLINE_EXCEEDED,
                 "example 5 is being read");
    int64_t begun = ls_now();
    ls_pipeline_free(pipeline);
    double waited = ls_seconds_since(begun);
    ck_assert_msg(waited > 0.9 && waited < 10, "%g s", waited); /* LS_READING_TIMEOUT */
    ls_dataset_free(dataset);
    still = false;
    (void)usleep(200000); /* the thread goes on, and frees what it has: the sanitizers look */
}

static void write_records(int shards) {
    ls_dataset *numbers = numbers_make(EXAMPLES, NULL);
    folder_clear();
    assert_ok(ls_dataset_write(numbers, LS_FORMAT_TFRECORD, folder_path(), LS_WRITE(.shards = shards)));
    ls_dataset_free(numbers);
}

/* Each worker reads its own files, all examples come once, and whose files end first waits for nobody. */
TEST(each_worker_reads_its_own_files) {
    ls_dataset *dataset;
    int seen[EXAMPLES] = {0};
    write_records(5);
    assert_ok(ls_dataset_open(
        folder_path(), LS_DATASET(.batch_size = 8, .division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_AUTO),
        &dataset));
    for (int worker = 0; worker < 2; worker++) {
        struct ls_pipeline *pipeline = open_pipeline(dataset, worker, 2);
        ck_assert_int_eq(ls_pipeline_steps(pipeline), 6); /* 22 examples in files 0, 2, 4 by 4 a step */
        for (int64_t step = 0; step < 6; step++) {
            int64_t rows = 0;
            assert_ok(ls_pipeline_seek(pipeline, 0, step));
            for (int local = 0; local < 2; local++) {
                struct batch batch;
                read_batch(pipeline, local, &batch);
                rows += batch.rows;
                for (int64_t i = 0; i < batch.rows; i++) {
                    int number = (int)batch.features[i], shard = 0;
                    while (number >= EXAMPLES * (shard + 1) / 5) shard++;
                    ck_assert_int_eq(shard % 2, worker);
                    seen[number]++;
                }
            }
            ck_assert_int_ge(ls_pipeline_global_rows(pipeline), rows);
        }
        ls_pipeline_free(pipeline);
    }
    for (int i = 0; i < EXAMPLES; i++) ck_assert_int_eq(seen[i], 1);
    ls_dataset_free(dataset);
}

TEST(too_few_files_are_refused) {
    ls_dataset *dataset;
    struct ls_pipeline *pipeline = NULL;
    write_records(1);
    const struct ls_pipeline_config config = {NULL, 2, 0, 1, 0, 2};
    struct ls_pipeline_config with = config;
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_FILE),
                              &dataset));
    with.dataset = dataset;
    assert_refused(ls_pipeline_new(&with, &pipeline), "needs a file for each of 2 workers: the tfrecord dataset has 1");
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_AUTO),
                              &dataset));
    with.dataset = dataset;
    assert_ok(ls_pipeline_new(&with, &pipeline));
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

/* Cached examples are read once, and keep their values. */
TEST(cached_examples_are_read_once) {
    ls_dataset *cached, *plain;
    write_records(2);
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.batch_size = 10, .cache = true, .workers = 3), &cached));
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.batch_size = 10), &plain));
    struct ls_pipeline *a = open_pipeline(cached, 0, 1), *b = open_pipeline(plain, 0, 1);
    for (int64_t step = 0; step < 12; step++) {
        struct batch one, other;
        assert_ok(ls_pipeline_seek(a, step / 4, step % 4));
        assert_ok(ls_pipeline_seek(b, step / 4, step % 4));
        read_batch(a, 1, &one);
        read_batch(b, 1, &other);
        ck_assert_mem_eq(&one, &other, sizeof(one));
        if (step == 3) ls_pipeline_free(b), b = open_pipeline(plain, 0, 1);
    }
    ls_pipeline_free(a);
    ls_pipeline_free(b);
    float before, after;
    int32_t label;
    assert_ok(ls_source_read(cached->source, 0, &before, LS_LABELS(&label)));
    folder_truncate("arrays-train.tfrecord-00000-of-00002", 4);
    assert_ok(ls_source_read(cached->source, 0, &after, LS_LABELS(&label)));
    ck_assert(before == after);
    assert_fails(ls_source_read(plain->source, 0, &after, LS_LABELS(&label)), LS_DATA_LOSS, "ends too soon");
    ls_dataset_free(cached);
    ls_dataset_free(plain);
}

/* Each worker brings its own examples, batch_size a replica. */
TEST(each_worker_brings_its_own_examples) {
    static const int64_t counts[] = {20, 13};
    ls_dataset *dataset = numbers_make(13, LS_DATASET(.batch_size = 3, .shuffle = LS_SHUFFLE_NEVER));
    const struct ls_pipeline_config config = {.dataset = dataset,
                                              .num_replicas = 4,
                                              .first_replica = 2,
                                              .local_replicas = 2,
                                              .worker = 1,
                                              .num_workers = 2,
                                              .own_examples = counts};
    struct ls_pipeline *pipeline;
    struct batch batch;
    assert_ok(ls_pipeline_new(&config, &pipeline));
    ck_assert_int_eq(ls_pipeline_steps(pipeline), 4);
    assert_ok(ls_pipeline_seek(pipeline, 0, 2));
    read_batch(pipeline, 0, &batch);
    ck_assert(batch.rows == 1 && batch.features[0] == 12);
    ck_assert_int_eq(ls_pipeline_rows(pipeline, 1), 0);
    ck_assert_int_eq(ls_pipeline_global_rows(pipeline), 7);
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

TESTS("read_ahead", .seconds = 60, .begin = folder_make, .end = folder_remove)
