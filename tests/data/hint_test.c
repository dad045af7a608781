/* Sharding where the user marks the place: TensorFlow's recorded batches, shuffled rows, and mistakes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fixture.h"
#include "data/pipeline.h"
#include "harness.h"

#define MOST 1024

struct layout {
    int workers, each; /* replicas of each worker */
};

static struct ls_pipeline *open_worker(const ls_dataset *dataset, const struct layout *layout, int worker) {
    struct ls_pipeline *pipeline;
    const struct ls_pipeline_config config = {.dataset = dataset,
                                              .num_replicas = layout->workers * layout->each,
                                              .first_replica = worker * layout->each,
                                              .local_replicas = layout->each,
                                              .worker = worker,
                                              .num_workers = layout->workers};
    assert_ok(ls_pipeline_new(&config, &pipeline));
    return pipeline;
}

/* One epoch of a worker; returns how many examples it has. */
static int read_worker(const ls_dataset *dataset, const struct layout *layout, int worker, int64_t epoch,
                       float *examples) {
    struct ls_pipeline *pipeline = open_worker(dataset, layout, worker);
    int32_t labels[MOST];
    int count = 0;
    for (int64_t step = 0; step < ls_pipeline_steps(pipeline); step++) {
        assert_ok(ls_pipeline_seek(pipeline, epoch, step));
        for (int local = 0; local < layout->each; local++) {
            require(count + ls_pipeline_rows(pipeline, local) <= MOST);
            assert_ok(ls_pipeline_read(pipeline, local, examples + count, LS_LABELS(labels)));
            count += (int)ls_pipeline_rows(pipeline, local);
        }
    }
    ls_pipeline_free(pipeline);
    return count;
}

/* ---- as recorded ---- */

/* One mini-batch of the recording and the rows of a replica. */
static void check_piece(const struct ls_pipeline *pipeline, int local, char *piece) {
    float examples[MOST];
    int32_t labels[MOST];
    int64_t rows = ls_pipeline_rows(pipeline, local), count = 0;
    char *save = NULL;
    require(rows <= MOST);
    assert_ok(ls_pipeline_read(pipeline, local, examples, LS_LABELS(labels)));
    for (char *word = strtok_r(piece, ",", &save); word && strcmp(word, "-") != 0; word = strtok_r(NULL, ",", &save)) {
        require(count < rows);
        ck_assert_int_eq((int)examples[count++], atoi(word));
    }
    ck_assert_int_eq(rows, count);
}

static void check_line(const ls_dataset *dataset, const struct layout *layout, char *line) {
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    ck_assert_str_eq(word, "worker");
    struct ls_pipeline *pipeline = open_worker(dataset, layout, atoi(strtok_r(NULL, " \n", &save)));
    int64_t steps = ls_pipeline_steps(pipeline) * layout->each, index = 0;
    for (; (word = strtok_r(NULL, " \n", &save)); index++) {
        if (index >= steps) {
            ck_assert_str_eq(word, "-"); /* TensorFlow may go on with steps in which nobody has a row */
            continue;
        }
        assert_ok(ls_pipeline_seek(pipeline, 0, index / layout->each));
        check_piece(pipeline, (int)(index % layout->each), word);
    }
    for (; index < steps; index++) { /* the others have more */
        assert_ok(ls_pipeline_seek(pipeline, 0, index / layout->each));
        ck_assert_int_eq(ls_pipeline_rows(pipeline, (int)(index % layout->each)), 0);
    }
    ls_pipeline_free(pipeline);
}

static ls_shard_hint find_hint(const char *name) {
    return !strcmp(name, "EXAMPLES") ? LS_HINT_EXAMPLES : !strcmp(name, "ROWS") ? LS_HINT_ROWS : LS_HINT_BATCHES;
}

TEST(batches_equal_tensorflow) {
    char line[4096], place[16];
    long long examples, repeat, batch;
    struct layout layout;
    int drop, cases = 0;
    FILE *file = fopen(HINT_GOLDEN, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#') continue;
        ck_assert_int_eq(sscanf(line, "case %lld %lld %lld %d %d %d %15s", &examples, &repeat, &batch, &layout.workers,
                                &layout.each, &drop, place),
                         7);
        ls_dataset *dataset =
            numbers_make(examples, LS_DATASET(.batch_size = batch, .repeat = repeat, .drop_remainder = drop,
                                              .shuffle = LS_SHUFFLE_NEVER, .division = LS_DIVIDE_TENSORFLOW,
                                              .auto_shard = LS_SHARD_HINT, .shard_hint = find_hint(place)));
        for (int worker = 0; worker < layout.workers; worker++) {
            ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
            check_line(dataset, &layout, line);
        }
        ls_dataset_free(dataset);
        cases++;
    }
    ck_assert_int_eq(cases, 36);
    (void)fclose(file);
}

/* ---- shuffled ---- */

static ls_dataset *make_shuffled(ls_shard_hint hint) {
    return numbers_make(50, LS_DATASET(.batch_size = 6, .repeat = 3, .seed = 7, .division = LS_DIVIDE_TENSORFLOW,
                                       .auto_shard = LS_SHARD_HINT, .shard_hint = hint));
}

/* All workers know one order, and each has its part of it. */
static void check_dealt(ls_shard_hint hint, int block) {
    const struct layout alone = {1, 1}, three = {3, 2};
    float all[MOST], own[MOST];
    ls_dataset *dataset = make_shuffled(hint);
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int total = 0;
        ck_assert_int_eq(read_worker(dataset, &alone, 0, epoch, all), 150);
        for (int worker = 0; worker < 3; worker++) {
            int count = read_worker(dataset, &three, worker, epoch, own);
            for (int i = 0; i < count; i++) require(own[i] == all[(i / block * 3 + worker) * block + i % block]);
            total += count;
        }
        ck_assert_int_eq(total, 150);
    }
    ls_dataset_free(dataset);
}

TEST(workers_share_one_order) {
    check_dealt(LS_HINT_ROWS, 1);
    check_dealt(LS_HINT_BATCHES, 6);
}

/* Each worker shuffles its own: in each pass all of them, every epoch in another order. */
TEST(each_worker_shuffles_its_own_examples) {
    const struct layout three = {3, 2};
    float first[MOST], second[MOST];
    ls_dataset *dataset = make_shuffled(LS_HINT_EXAMPLES);
    for (int worker = 0; worker < 3; worker++) {
        int each = (50 - worker + 2) / 3;
        ck_assert_int_eq(read_worker(dataset, &three, worker, 0, first), 3 * each);
        ck_assert_int_eq(read_worker(dataset, &three, worker, 1, second), 3 * each);
        ck_assert(memcmp(first, second, sizeof(*first) * 3 * (size_t)each));
        for (int pass = 0; pass < 3; pass++) {
            bool seen[50] = {false};
            for (int i = 0; i < each; i++) {
                int example = (int)first[pass * each + i];
                require(example % 3 == worker && !seen[example]);
                seen[example] = true;
            }
        }
    }
    ls_dataset_free(dataset);
}

/* Any order of seeks gives what going through in order gives. */
TEST(any_order_of_seeks_gives_the_same_batches) {
    const struct layout two = {2, 1};
    static const int64_t steps[] = {20, 3, 24, 0, 11, 3};
    float examples[MOST], batch[MOST];
    int32_t labels[MOST];
    ls_dataset *dataset = make_shuffled(LS_HINT_BATCHES);
    ck_assert_int_eq(read_worker(dataset, &two, 0, 1, examples), 78); /* 13 batches of 25 */
    struct ls_pipeline *pipeline = open_worker(dataset, &two, 0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_ok(ls_pipeline_seek(pipeline, 1, steps[i]));
        assert_ok(ls_pipeline_read(pipeline, 0, batch, LS_LABELS(labels)));
        ck_assert_int_eq(ls_pipeline_rows(pipeline, 0), 3);
        ck_assert_mem_eq(batch, examples + 3 * steps[i], 3 * sizeof(float));
    }
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

/* ---- the rest ---- */

/* The default division shards nothing, whatever the hint. */
TEST(the_default_division_ignores_the_hint) {
    const struct layout two = {2, 1}, alone = {1, 1};
    float hinted[MOST], plain[MOST];
    ls_dataset *with =
        numbers_make(20, LS_DATASET(.batch_size = 4, .auto_shard = LS_SHARD_HINT, .shard_hint = LS_HINT_EXAMPLES));
    ls_dataset *without = numbers_make(20, LS_DATASET(.batch_size = 4));
    for (int worker = 0; worker < 2; worker++) {
        ck_assert_int_eq(read_worker(with, &two, worker, 0, hinted), 10);
        ck_assert_int_eq(read_worker(without, &two, worker, 0, plain), 10);
        ck_assert_mem_eq(hinted, plain, 10 * sizeof(float));
    }
    ck_assert_int_eq(read_worker(with, &alone, 0, 0, hinted), 20);
    ls_dataset_free(with);
    ls_dataset_free(without);
}

static void check_refused(const ls_dataset_options *options, const char *text) {
    static const float feature;
    static const int32_t label;
    ls_dataset *dataset = NULL;
    assert_refused(ls_dataset_arrays(&feature, LS_SHAPE(1), &label, 1, 1, options, &dataset), text);
    ck_assert_ptr_null(dataset);
}

TEST(bad_hints_are_refused) {
    struct ls_pipeline *pipeline = NULL;
    check_refused(LS_DATASET(.auto_shard = LS_SHARD_HINT), "auto_shard is 4 and shard_hint 0");
    check_refused(LS_DATASET(.shard_hint = LS_HINT_ROWS), "auto_shard is 0 and shard_hint 3");
    check_refused(LS_DATASET(.auto_shard = LS_SHARD_HINT, .shard_hint = (ls_shard_hint)5), "shard_hint is 5");
    for (int hint = LS_HINT_FILES; hint <= LS_HINT_BATCHES; hint++) {
        ls_dataset *dataset =
            numbers_make(2, LS_DATASET(.batch_size = 1, .division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_HINT,
                                       .shard_hint = (ls_shard_hint)hint));
        const struct ls_pipeline_config config = {dataset, 3, 0, 1, 0, 3};
        assert_refused(ls_pipeline_new(&config, &pipeline), hint == LS_HINT_FILES
                                                                ? "FILE needs a file for each of 3 workers"
                                                                : "auto_shard HINT leaves nothing to worker 2 of 3");
        ls_dataset_free(dataset);
    }
}

TEST(the_hint_is_described) {
    char text[512];
    const struct layout two = {2, 1};
    ls_dataset *dataset = make_shuffled(LS_HINT_BATCHES);
    struct ls_pipeline *pipeline = open_worker(dataset, &two, 1);
    ls_pipeline_describe(pipeline, text, sizeof(text));
    ck_assert_msg(strstr(text, "; of batches this worker has number 1 of each 2;") != NULL, "%s", text);
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

TEST(the_choice_of_auto_is_described) {
    char text[512];
    const struct layout two = {2, 1};
    ls_dataset *dataset =
        numbers_make(8, LS_DATASET(.batch_size = 4, .division = LS_DIVIDE_TENSORFLOW, .auto_shard = LS_SHARD_AUTO));
    struct ls_pipeline *pipeline = open_worker(dataset, &two, 1);
    ls_pipeline_describe(pipeline, text, sizeof(text));
    ck_assert_msg(strstr(text, "; auto_shard AUTO is DATA: 0 files for 2 workers;") != NULL, "%s", text);
    ls_pipeline_free(pipeline);
    ls_dataset_free(dataset);
}

TESTS("hint", .seconds = 60)
