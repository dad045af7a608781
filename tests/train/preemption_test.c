/* A worker asks that all stop, or save: they do so after the same step, leave in order with one message, and go on
 * there to the bits of an undisturbed training. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "strategy/workers.h"

#define EXAMPLES 40
#define WIDTH    6
#define EPOCHS   4
#define STEPS    6 /* an epoch; the last one is short */
#define RANKS    3
#define BAD      77 /* no class: the step that meets it fails */

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

/* The orders for the workers, and their results. Each worker touches its own members only. */
struct training {
    ls_checkpoint_options checkpoint;
    int ask_at[RANKS]; /* the rank asks before this step, counted from 1 in its fit; 0: never */
    ls_request ask_for;
    bool remove_folder;  /* when rank 0 asks first */
    atomic_bool *told;   /* when rank 0 is late */
    int cancelled_epoch; /* on_epoch of rank 1 returns LS_CANCELLED after it; 0: never */
    int64_t wait_for;    /* before its fifth step rank 0 waits for the checkpoint of this one; 0: for none */
    int steps[RANKS], epochs[RANKS];
    char sha256[RANKS][65];
};
struct one {
    struct training *training;
    int rank;
    pthread_t thread; /* of the worker: it asks once a step, and another one in waits */
};

static char folder[64];
static atomic_int complaints; /* log lines about what goes with a failure */

static void hear(void *context, ls_log_level level, const char *line) {
    (void)context;
    if (level == LS_LOG_ERROR || strstr(line, "FLIGHT_RECORD")) atomic_fetch_add(&complaints, 1);
}

static void make_folder(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-stop-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Names in the folder; the last one seen into name, where that is not NULL. */
static int count_files(char *name, size_t size) {
    int count = 0;
    DIR *names = opendir(folder);
    ck_assert_ptr_nonnull(names);
    for (const struct dirent *entry; (entry = readdir(names));) {
        if (entry->d_name[0] == '.') continue;
        if (name) (void)snprintf(name, size, "%s", entry->d_name);
        count++;
    }
    (void)closedir(names);
    return count;
}

static void remove_folder(void) {
    if (!access(folder, F_OK)) {
        ck_assert_int_eq(count_files(NULL, 0), 0);
        ck_assert_int_eq(rmdir(folder), 0);
    }
}

static void expect_only(int64_t step) {
    char expected[64], name[256] = "";
    (void)snprintf(expected, sizeof(expected), "checkpoint-%012lld.safetensors", (long long)step);
    ck_assert_int_eq(count_files(name, sizeof(name)), 1);
    ck_assert_str_eq(name, expected);
}

static void wait_for_checkpoint(int64_t step) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/checkpoint-%012lld.safetensors", folder, (long long)step);
    for (int turns = 0; access(path, F_OK) && turns < 3000; turns++) (void)usleep(10000);
    ck_assert_int_eq(access(path, F_OK), 0);
}

static ls_request request(void *context) {
    const struct one *one = context;
    struct training *training = one->training;
    if (!pthread_equal(pthread_self(), one->thread)) return LS_GO_ON;
    int step = ++training->steps[one->rank];
    if (training->wait_for && one->rank == 0 && step == 5) wait_for_checkpoint(training->wait_for);
    if (step != training->ask_at[one->rank]) return LS_GO_ON;
    if (training->remove_folder) {
        char lock[128];
        (void)snprintf(lock, sizeof(lock), "%s/.lock", folder);
        ck_assert_int_eq(unlink(lock), 0);
        ck_assert_int_eq(rmdir(folder), 0);
    }
    return training->ask_for;
}

/* The strategy's own request is asked in waits: rank 1 stops while it waits for rank 0, which does not come to the
 * step. */
static ls_request stop_when_told(void *context) {
    return atomic_load((atomic_bool *)context) ? LS_STOP : LS_GO_ON;
}

static ls_request be_late(void *context) {
    const struct one *one = context;
    struct training *training = one->training;
    bool own = pthread_equal(pthread_self(), one->thread);
    if (own && ++training->steps[one->rank] == training->ask_at[one->rank]) {
        atomic_store(training->told, true);
        (void)usleep(5000000); /* longer than the wait may last */
    }
    return LS_GO_ON;
}

static ls_status on_epoch(void *context, int epoch, const ls_result *result) {
    const struct one *one = context;
    (void)result;
    one->training->epochs[one->rank]++;
    return one->rank == 1 && epoch + 1 == one->training->cancelled_epoch ? LS_CANCELLED : LS_OK;
}

static void fill_toy(struct toy *toy) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++)
            toy->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % 3 ? 1.0F : 0);
    }
}

static ls_status make(ls_strategy *strategy, struct toy *toy, ls_dataset **data, ls_model **model) {
    fill_toy(toy);
    ls_status st = ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                                     LS_DATASET(.batch_size = 7, .seed = 5), data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(3)), model);
    return st ? st : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status train(struct worker *worker) {
    struct training *training = worker->context;
    struct one one = {training, worker->rank, pthread_self()};
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    training->steps[one.rank] = training->epochs[one.rank] = 0;
    ls_status st = make(worker->strategy, &toy, &data, &model);
    if (!st)
        st = ls_model_fit(model, data,
                          LS_FIT(.epochs = EPOCHS, .verbose = -1, .validation_data = data, .on_epoch = on_epoch,
                                 .request = !training->told ? request
                                            : one.rank      ? NULL
                                                            : be_late,
                                 .context = &one,
                                 .checkpoint = training->checkpoint.folder ? &training->checkpoint : NULL),
                          NULL);
    if (!st) st = ls_model_weights_sha256(model, training->sha256[one.rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static struct training training_of(bool checkpoints) {
    return (struct training){.checkpoint = {.size = sizeof(ls_checkpoint_options),
                                            .folder = checkpoints ? folder : NULL,
                                            .every_steps = 1000},
                             .ask_for = LS_STOP};
}

/* Five replicas, or in another layout one worker with all. */
static struct worker_cluster cluster_of(struct training *training, int count) {
    return (struct worker_cluster){
        .count = count, .devices = {count == 1 ? 5 : 2, 1, 2}, .options.log = hear, .fn = train, .context = training};
}

static void expect_all(const struct worker_cluster *cluster, ls_status status, const char *text) {
    for (int i = 0; i < cluster->count; i++) {
        ck_assert_msg(cluster->workers[i].status == status, "rank %d: %s", i, cluster->workers[i].error);
        ck_assert_msg(strstr(cluster->workers[i].error, text), "rank %d: %s", i, cluster->workers[i].error);
        ck_assert_str_eq(cluster->workers[i].error, cluster->workers[0].error);
    }
}

static void expect_undisturbed(struct training *training) {
    struct training undisturbed = training_of(false);
    struct worker_cluster cluster = cluster_of(&undisturbed, 1);
    run_workers_ok(&cluster);
    ck_assert_str_eq(training->sha256[0], undisturbed.sha256[0]);
}

/* One of three asks before its step; the first asked for counts. */
TEST(any_worker_stops_all_and_they_go_on_there) {
    static const int steps[] = {1, 4, STEPS, STEPS + 1, 3 * STEPS, EPOCHS * STEPS - 1};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char text[256];
        int rank = (int)i % RANKS;
        struct training training = training_of(true);
        struct worker_cluster cluster = cluster_of(&training, RANKS);
        for (int other = 0; other < RANKS; other++) training.ask_at[other] = steps[i] + (other == rank ? 0 : 1);
        atomic_store(&complaints, 0);
        run_workers(&cluster);
        ck_assert_int_eq(atomic_load(&complaints), 0); /* they have left in order */
        (void)snprintf(text, sizeof(text), "stopped after step %d, as rank %d asked; its checkpoint is in '%s'",
                       steps[i], rank, folder);
        expect_all(&cluster, LS_CANCELLED, text);
        for (int other = 0; other < RANKS; other++) {
            ck_assert_int_eq(training.steps[other], steps[i]);
            ck_assert_int_eq(training.epochs[other], steps[i] / STEPS);
        }
        expect_only(steps[i]);
        struct training again = training_of(true);
        cluster = cluster_of(&again, i % 2 ? 1 : RANKS);
        run_workers_ok(&cluster);
        ck_assert_int_eq(again.steps[0], EPOCHS * STEPS - steps[i]);
        ck_assert_int_eq(again.epochs[0], EPOCHS - steps[i] / STEPS);
        expect_undisturbed(&again);
    }
}

TEST(several_ask_over_compressed_links) {
    struct training training = training_of(false);
    struct worker_cluster cluster = cluster_of(&training, RANKS);
    cluster.options.compression = LS_COMPRESS_FP16;
    cluster.options.communication = LS_RING;
    training.ask_at[1] = training.ask_at[2] = 3;
    ck_assert_int_eq(setenv("LOCKSTEP_TRANSPORT", "tcp", 1), 0);
    run_workers(&cluster);
    ck_assert_int_eq(unsetenv("LOCKSTEP_TRANSPORT"), 0);
    expect_all(&cluster, LS_CANCELLED,
               "epoch 1, step 3: stopped after step 3, as 2 workers asked; it has no checkpoint");
}

TEST(after_the_last_step_there_is_nothing_to_stop) {
    struct training training = training_of(true);
    struct worker_cluster cluster = cluster_of(&training, RANKS);
    training.ask_at[2] = EPOCHS * STEPS;
    run_workers_ok(&cluster);
    ck_assert_int_eq(training.epochs[0], EPOCHS);
    expect_undisturbed(&training);
}

TEST(a_checkpoint_is_saved_when_asked_for) {
    struct training training = training_of(true);
    struct worker_cluster cluster = cluster_of(&training, RANKS);
    training.ask_for = LS_SAVE;
    training.ask_at[1] = 3;
    training.wait_for = 3;
    run_workers_ok(&cluster);
    expect_undisturbed(&training);
}

TEST(what_cannot_be_saved_is_one_line_or_a_warning) {
    for (int warn = 0; warn < 2; warn++) {
        struct training training = training_of(true);
        struct worker_cluster cluster = cluster_of(&training, RANKS);
        training.ask_at[0] = 3;
        training.remove_folder = true;
        training.checkpoint.warn_only = warn;
        run_workers(&cluster);
        if (warn)
            expect_all(&cluster, LS_CANCELLED, "stopped after step 3, as rank 0 asked; it has no checkpoint");
        else
            expect_all(&cluster, LS_CANCELLED,
                       "stopped after step 3, as rank 0 asked; its checkpoint could not be saved: NOT_FOUND: ");
        make_folder();
    }
}

TEST(a_wait_is_given_up) {
    atomic_bool told = false;
    struct training training = training_of(true);
    struct worker_cluster cluster = cluster_of(&training, 2);
    training.told = &told;
    training.ask_at[0] = 4;
    cluster.options.request = stop_when_told;
    cluster.options.request_context = &told;
    atomic_store(&complaints, 0);
    int64_t begun = ls_now();
    run_workers(&cluster);
    assert_within(begun, 15);
    ck_assert_int_eq(atomic_load(&complaints), 0);
    for (int rank = 0; rank < 2; rank++) {
        const struct worker *worker = &cluster.workers[rank];
        ck_assert_msg(worker->status == LS_CANCELLED, "rank %d: %s", rank, worker->error);
        ck_assert_msg(strstr(worker->error, "stopped after step 3: "), "rank %d: %s", rank, worker->error);
        ck_assert_msg(strstr(worker->error, "worker:1 (rank 1) was asked to stop"), "rank %d: %s", rank, worker->error);
    }
    ck_assert_msg(strstr(cluster.workers[0].error, folder), "%s", cluster.workers[0].error);
    expect_only(3);
    struct training again = training_of(true);
    cluster = cluster_of(&again, 2);
    run_workers_ok(&cluster);
    ck_assert_int_eq(again.steps[0], EPOCHS * STEPS - 3);
}

/* Nobody else comes: the join ends at once. */
TEST(a_join_is_given_up) {
    atomic_bool told = true;
    ls_strategy *strategy = NULL;
    const char *config = "{\"cluster\":{\"worker\":[\"127.0.0.1:0\",\"127.0.0.1:9\"]},"
                         "\"task\":{\"type\":\"worker\",\"index\":0}}";
    char text[256];
    (void)snprintf(text, sizeof(text), "%s", config);
    (void)snprintf(strstr(text, ":0\","), sizeof(text) - 64, ":%d%s", 21000 + getpid() % 4000,
                   strstr(config, ":0\",") + 2);
    int64_t begun = ls_now();
    ck_assert_int_eq(
        ls_multi_worker_mirrored_strategy_new(
            LS_STRATEGY(.tf_config = text, .log = hear, .request = stop_when_told, .request_context = &told),
            &strategy),
        LS_CANCELLED);
    assert_within(begun, 3);
    ck_assert_str_eq(ls_error(), "worker:0 (rank 0) was asked to stop");
}

/* Examples that take longer than the wait for them may: one worker alone, whose fit gives the step up and saves. */
struct slow {
    atomic_bool reads, told; /* told: when a step has waited for a while */
};

static ls_status read_slowly(void *context, const ls_map_call *call) {
    struct slow *slow = context;
    memcpy(call->output, call->input, WIDTH * sizeof(float));
    if (!atomic_load(&slow->reads)) return LS_OK;
    (void)usleep(700000);
    atomic_store(&slow->told, true);
    (void)usleep(2500000);
    return LS_OK;
}

static ls_status tell(void *context, int epoch, const ls_result *result) {
    (void)epoch;
    (void)result;
    atomic_store(&((struct slow *)context)->reads, true);
    return LS_OK;
}

TEST(a_wait_for_data_is_given_up) {
    struct slow slow = {false, false};
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    const ls_strategy_options *options =
        LS_STRATEGY(.log = hear, .request = stop_when_told, .request_context = &slow.told);
    assert_ok(ls_mirrored_strategy_new(options, &strategy));
    fill_toy(&toy);
    assert_ok(ls_dataset_arrays(
        &toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
        LS_DATASET(.batch_size = 7, .workers = 1, .prefetch = 1, .maps = LS_MAPS(ls_map_function(read_slowly, &slow))),
        &data));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    struct training training = training_of(true);
    const ls_fit_options *fit =
        LS_FIT(.epochs = 100, .verbose = -1, .on_epoch = tell, .context = &slow, .checkpoint = &training.checkpoint);
    int64_t begun = ls_now();
    assert_fails(ls_model_fit(model, data, fit, NULL), LS_CANCELLED,
                 "this process was asked to stop; its checkpoint is in");
    assert_within(begun, 20);
    ck_assert_int_eq(count_files(NULL, 0), 1);
    char path[512], name[256] = "";
    (void)count_files(name, sizeof(name));
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(unlink(path), 0);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

/* The same status for another reason, and on one worker alone: the others are told. */
TEST(cancelled_by_one_worker_is_a_failure_to_the_others) {
    struct training training = training_of(false);
    struct worker_cluster cluster = cluster_of(&training, RANKS);
    training.cancelled_epoch = 1;
    run_workers(&cluster);
    ck_assert_int_eq(cluster.workers[1].status, LS_CANCELLED);
    for (int rank = 0; rank < RANKS; rank += 2) {
        ck_assert_int_eq(cluster.workers[rank].status, LS_ABORTED);
        ck_assert_msg(strstr(cluster.workers[rank].error, "(rank 1) failed: CANCELLED"), "%s",
                      cluster.workers[rank].error);
    }
}

/* The request of a failed fit does not reach the next one. */
TEST(a_failed_fit_takes_its_request_with_it) {
    struct training training = training_of(false);
    struct one one = {&training, 0, pthread_self()};
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    training.ask_at[0] = 1;
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(make(strategy, &toy, &data, &model));
    for (int i = 0; i < EXAMPLES; i++) toy.labels[i] = BAD;
    const ls_fit_options *options = LS_FIT(.verbose = -1, .request = request, .context = &one);
    ck_assert_int_eq(ls_model_fit(model, data, options, NULL), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(training.steps[0], 1);
    fill_toy(&toy);
    assert_ok(ls_model_fit(model, data, options, NULL));
    ck_assert_int_eq(training.steps[0], 1 + STEPS);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

TESTS("stop", .seconds = 240, .before = make_folder, .after = remove_folder)
