/* fit with checkpoints: what was interrupted ends with the bits, the numbers and the epochs of what was not, whatever
 * was interrupted where; what belongs to another training is refused; what goes wrong is an error or a warning. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "strategy/workers.h"
#include "train/checkpoint_watch.h"

#define EXAMPLES 40
#define WIDTH    6
#define EPOCHS   5
#define STEPS    6  /* an epoch; the last one is short */
#define BAD      77 /* no class: the step that meets it fails */

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

/* One training: what it is, where it breaks, and what came of it. */
struct job {
    ls_optimizer optimizer;
    const char *devices;
    ls_checkpoint_options checkpoint;
    ls_model *model; /* during run */
    bool slower;     /* half the learning rate after each epoch */
    bool statistics; /* the model has some, and draws random numbers */
    bool patient;    /* at the end of an epoch, the checkpoint of the epoch before is waited for */
    int break_epoch; /* a label is spoiled after it; 0: never */
    int64_t batch;
    int epochs;       /* 0: EPOCHS */
    int called;       /* on_epoch was so often */
    float rate;       /* of the first epoch that was done */
    struct toy *toy;  /* during run */
    ls_result result; /* of rank 0 */
    char sha256[65];
};

static char folder[64], lines[8192];

static void make_folder(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-checkpoint-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    lines[0] = '\0';
}

/* Names in the folder; removes them too. */
static int count_files(bool removing) {
    int count = 0;
    char path[512];
    DIR *names = opendir(folder);
    ck_assert_ptr_nonnull(names);
    for (const struct dirent *entry; (entry = readdir(names));) {
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (removing) ck_assert_int_eq(unlink(path), 0);
        count++;
    }
    (void)closedir(names);
    return count;
}

static void remove_folder(void) {
    (void)count_files(true);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void hear(void *context, ls_log_level level, const char *line) {
    (void)context;
    (void)level;
    size_t length = strlen(lines);
    (void)snprintf(lines + length, sizeof(lines) - length, "%s\n", line);
}

static void fill_toy(struct toy *toy) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++)
            toy->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % 3 ? 1.0F : 0);
    }
}

static ls_status end_of_epoch(void *context, int epoch, const ls_result *result) {
    struct job *job = context;
    ck_assert_int_gt(result->steps, 0);
    job->called++;
    if (job->called == 1) assert_ok(ls_model_learning_rate(job->model, &job->rate));
    if (job->patient && job->called > 1) checkpoint_watch_wait(folder, result->steps - STEPS);
    if (epoch + 1 == job->break_epoch) job->toy->labels[20] = BAD;
    if (!job->slower) return LS_OK;
    float rate = 0;
    assert_ok(ls_model_learning_rate(job->model, &rate));
    return ls_model_set_learning_rate(job->model, rate / 2);
}

static ls_status train(ls_strategy *strategy, struct job *job) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    job->toy = &toy;
    job->called = 0;
    fill_toy(&toy);
    ls_status st = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                     LS_DATASET(.batch_size = job->batch ? job->batch : 7, .seed = 5), &data);
    if (!st && job->statistics)
        st = ls_model_new(strategy,
                          LS_LAYERS(ls_dense(5), ls_batch_normalization(), ls_relu(), ls_dropout(0.3F), ls_dense(3)),
                          &model);
    else if (!st)
        st = ls_model_new(strategy, LS_LAYERS(ls_dense(5, LS_RELU, .kernel_l2 = 0.01F), ls_dense(3)), &model);
    job->model = model;
    if (!st)
        st = ls_model_compile_with(model, job->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                   LS_COMPILE(.metrics = LS_METRICS(ls_top_k(2), ls_mean_loss())));
    if (!st)
        st = ls_model_fit(model, data,
                          LS_FIT(.epochs = job->epochs ? job->epochs : EPOCHS, .verbose = -1, .validation_data = data,
                                 .on_epoch = end_of_epoch, .context = job,
                                 .checkpoint = job->checkpoint.folder ? &job->checkpoint : NULL),
                          &job->result);
    if (!st) st = ls_model_weights_sha256(model, job->sha256);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static ls_status run(struct job *job) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_mirrored_strategy_new(LS_STRATEGY(.devices = job->devices, .log = hear), &strategy);
    if (!st) st = train(strategy, job);
    ls_strategy_free(strategy);
    return st;
}

static void expect_same(const struct job *job, const struct job *undisturbed) {
    ck_assert_str_eq(job->sha256, undisturbed->sha256);
    ck_assert_int_eq(job->result.steps, undisturbed->result.steps);
    ck_assert_mem_eq(&job->result.loss, &undisturbed->result.loss, 4 * sizeof(double)); /* and what follows it */
    ck_assert_mem_eq(job->result.metrics, undisturbed->result.metrics, sizeof(job->result.metrics));
    ck_assert_mem_eq(job->result.val_metrics, undisturbed->result.val_metrics, sizeof(job->result.val_metrics));
    ck_assert_double_ge(job->result.metrics[0], job->result.accuracy);
    ck_assert_double_le(job->result.val_metrics[1], job->result.val_loss); /* without the regulariser's part */
}

static struct job job_of(ls_optimizer optimizer, const char *devices, int64_t every_steps) {
    return (struct job){
        .optimizer = optimizer,
        .devices = devices,
        .checkpoint = {.size = sizeof(ls_checkpoint_options), .folder = folder, .every_steps = every_steps},
    };
}

static struct job without(struct job job) {
    job.checkpoint.folder = NULL;
    job.patient = false;
    return job;
}

static void check_interruptions(ls_optimizer optimizer, const char *devices, bool statistics, bool slower) {
    static const int64_t every[] = {0, 1, 2, 5, 6, 7, 1000};
    struct job undisturbed = without(job_of(optimizer, devices, 0));
    undisturbed.statistics = statistics;
    undisturbed.slower = slower;
    assert_ok(run(&undisturbed));
    for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
        struct job job = job_of(optimizer, devices, every[i]);
        job.statistics = statistics;
        job.slower = slower;
        for (job.break_epoch = 1; job.break_epoch < EPOCHS; job.break_epoch++) {
            ck_assert_int_ne(run(&job), LS_OK);
            ck_assert_msg(strstr(ls_error(), "77"), "%s", ls_error());
        }
        job.break_epoch = 0;
        assert_ok(run(&job));
        expect_same(&job, &undisturbed);
        ck_assert_int_eq(count_files(false), 0);
    }
}

TEST(interrupted_again_and_again) {
    check_interruptions(ls_adam(0.01F), "1", false, false);
    check_interruptions(ls_sgd(0.1F, .momentum = 0.9F, .nesterov = true), "1", false, false);
    check_interruptions(ls_sgd(0.1F), "3", false, false);
    check_interruptions(ls_adam(0.01F), "2", false, false);
    check_interruptions(ls_adam(0.01F), "2", true, false);
    check_interruptions(ls_sgd(0.1F, .momentum = 0.9F), "2", false, true);
    check_interruptions(ls_rmsprop(0.01F, .momentum = 0.9F, .momentum_correction = true, .centered = true,
                                   .schedule = {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 5, .decay_rate = 0.9F}),
                        "1", false, false);
    check_interruptions(ls_adam(0.01F, .gradient_accumulation_steps = 4), "2", true, false);
}

TEST(epochs_that_are_done_are_not_done_again) {
    struct job job = job_of(ls_adam(0.01F), "1", 0);
    job.patient = true;
    job.break_epoch = 3;
    ck_assert_int_ne(run(&job), LS_OK);
    ck_assert_int_eq(job.called, 3);
    ck_assert_int_eq(count_files(false), 2);
    job.break_epoch = 0;
    assert_ok(run(&job));
    ck_assert_int_eq(job.called, EPOCHS - 3);
    ck_assert_msg(strstr(lines, "training goes on after step 18 (3 epochs and 0 steps)"), "%s", lines);
}

TEST(success_keeps_what_it_is_told_to) {
    struct job job = job_of(ls_adam(0.01F), "1", 0), again;
    job.patient = true;
    job.checkpoint.keep_on_success = true;
    job.checkpoint.keep = 3;
    assert_ok(run(&job));
    ck_assert_int_eq(count_files(false), 3);
    again = job;
    assert_ok(run(&again)); /* it is done already */
    ck_assert_int_eq(again.called, 0);
    expect_same(&again, &job);
    ck_assert(isnan(again.result.samples_per_second));
    struct job longer = without(job); /* more epochs go on from there */
    longer.epochs = again.epochs = EPOCHS + 2;
    assert_ok(run(&longer));
    assert_ok(run(&again));
    ck_assert_int_eq(again.called, 2);
    expect_same(&again, &longer);
    again.epochs = 1;
    assert_refused(run(&again), "beyond the 6 steps");
}

/* Leaves checkpoints of an interrupted training. */
static struct job interrupted(void) {
    struct job job = job_of(ls_adam(0.01F), "1", 0);
    job.patient = true;
    job.break_epoch = 3;
    ck_assert_int_ne(run(&job), LS_OK);
    job.break_epoch = 0;
    job.patient = false;
    return job;
}

TEST(another_training_is_refused) {
    static const char *const words[] = {"optimizer differs: 'adam(learning_rate=0.01", "data batch_size differs: '7'"};
    for (int i = 0; i < 2; i++) {
        struct job other = interrupted();
        if (i == 0) other.optimizer = ls_adam(0.02F);
        if (i == 1) other.batch = 8;
        ck_assert_int_eq(run(&other), LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ls_error(), words[i]) && strstr(ls_error(), folder), "%s", ls_error());
        ck_assert_int_eq(count_files(true), 2); /* they are as they were */
    }
}

TEST(numbers_of_the_optimizer_can_be_overridden) {
    struct job job = interrupted();
    job.optimizer = ls_adam(0.02F, .weight_decay = 0.1F);
    assert_refused(run(&job), "--checkpoint-override learning_rate,weight_decay");
    job.checkpoint.overrides = "learning_rate,seed";
    assert_refused(run(&job), "overrides 'seed' is none of learning_rate,momentum");
    job.checkpoint.overrides = "weight_decay,learning_rate";
    assert_ok(run(&job));
    ck_assert_int_eq(job.called, EPOCHS - 3);
    ck_assert_float_eq(job.rate, 0.02F);
    ck_assert_msg(strstr(lines, "overridden: weight_decay is 0.1, was none; learning_rate is 0.02, was 0.01\n"), "%s",
                  lines);
}

/* The rate that a callback has made counts if the compiled rate is the same. Another compiled rate replaces it. */
TEST(an_overridden_rate_is_the_compiled_one) {
    for (int i = 0; i < 2; i++) {
        struct job job = job_of(ls_sgd(0.1F, .momentum = 0.9F), "1", 0);
        job.patient = job.slower = true;
        for (job.break_epoch = 3; job.break_epoch; job.break_epoch = 0) ck_assert_int_ne(run(&job), LS_OK);
        job.optimizer = ls_sgd(i ? 0.4F : 0.1F, .momentum = 0.5F);
        job.checkpoint.overrides = "learning_rate,momentum";
        assert_ok(run(&job));
        ck_assert_float_eq(job.rate, i ? 0.4F : 0.0125F);
    }
}

TEST(a_second_fit_needs_another_folder) {
    struct job job = job_of(ls_sgd(0.1F), "1", 0);
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    job.checkpoint.keep_on_success = true;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.log = hear), &strategy));
    assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3, NULL, &data));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    assert_ok(ls_model_compile(model, job.optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    const ls_fit_options *options = LS_FIT(.verbose = -1, .checkpoint = &job.checkpoint);
    assert_ok(ls_model_fit(model, data, options, NULL));
    assert_refused(ls_model_fit(model, data, options, NULL), "iteration differs: '0' there, '2' here");
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

static void damage(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(truncate(path, 1000), 0);
}

TEST(damage_is_a_warning) {
    struct job undisturbed = without(job_of(ls_adam(0.01F), "1", 0));
    assert_ok(run(&undisturbed));
    for (int damaged = 1; damaged <= 2; damaged++) {
        struct job job = interrupted();
        damage("checkpoint-000000000018.safetensors");
        if (damaged == 2) damage("checkpoint-000000000012.safetensors");
        lines[0] = '\0';
        assert_ok(run(&job));
        expect_same(&job, &undisturbed);
        ck_assert_int_eq(job.called, damaged == 1 ? EPOCHS - 2 : EPOCHS);
        ck_assert_msg(strstr(lines, "warning: checkpoint '") && strstr(lines, "18.safetensors' is damaged"), "%s",
                      lines);
        ck_assert_msg(strstr(lines, damaged == 1 ? "after step 12 (2 epochs" : "there is none before it"), "%s", lines);
    }
}

/* The run is not the same to the bit then, and says so. */
TEST(another_number_of_replicas_is_a_warning) {
    struct job job = interrupted();
    job.devices = "2";
    assert_ok(run(&job));
    ck_assert_msg(
        strstr(lines, "the bits may be others than without an interruption: replicas differs: '1' there, '2'"), "%s",
        lines);
}

TEST(bad_options_are_named) {
    static const ls_checkpoint_options bad[] = {
        {.size = sizeof(ls_checkpoint_options)},
        {.size = sizeof(ls_checkpoint_options), .folder = ""},
        {.size = sizeof(ls_checkpoint_options), .folder = "/", .every_steps = -1},
        {.size = sizeof(ls_checkpoint_options), .folder = "/", .keep = -1},
        {.folder = "/"}};
    static const char *const words[] = {"folder", "folder", "every_steps -1", "keep -1", "ls_checkpoint_options.size"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct toy toy;
        ls_strategy *strategy = NULL;
        ls_dataset *data = NULL;
        ls_model *model = NULL;
        fill_toy(&toy);
        assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
        assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3, NULL, &data));
        assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
        assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
        assert_refused(ls_model_fit(model, data, LS_FIT(.verbose = -1, .checkpoint = &bad[i]), NULL), words[i]);
        ls_model_free(model);
        ls_dataset_free(data);
        ls_strategy_free(strategy);
    }
}

TEST(a_missing_folder_is_an_error_or_one_warning) {
    char none[80];
    struct job undisturbed = without(job_of(ls_adam(0.01F), "1", 1)), job = job_of(ls_adam(0.01F), "1", 1);
    assert_ok(run(&undisturbed));
    (void)snprintf(none, sizeof(none), "%s/no/parent", folder);
    job.checkpoint.folder = none;
    ck_assert_int_eq(run(&job), LS_NOT_FOUND);
    ck_assert_msg(strstr(ls_error(), none) && strstr(ls_error(), "No such file or directory"), "%s", ls_error());
    job.checkpoint.warn_only = true;
    lines[0] = '\0';
    assert_ok(run(&job));
    expect_same(&job, &undisturbed);
    const char *warning = strstr(lines, "warning: ");
    ck_assert_msg(warning && strstr(warning, none) && !strstr(warning + 1, "warning: "), "%s", lines);
}

/* ---- several workers ---- */

struct crowd {
    struct job jobs[4];
};

static ls_status train_one(struct worker *worker) {
    struct crowd *crowd = worker->context;
    struct job *job = &crowd->jobs[worker->rank];
    if (worker->rank && job->checkpoint.folder) job->checkpoint.folder = "/only/the/chief/has/it";
    return train(worker->strategy, job);
}

static void run_crowd(struct crowd *crowd, const struct job *job, int workers, int break_epoch) {
    struct worker_cluster cluster = {.count = workers, .fn = train_one, .context = crowd};
    for (int i = 0; i < workers; i++) {
        crowd->jobs[i] = *job;
        crowd->jobs[i].patient = i == 0 && !job->checkpoint.every_steps;
        crowd->jobs[i].break_epoch = break_epoch; /* the one that reads the label fails, all end */
        cluster.devices[i] = 4 / workers;
    }
    if (break_epoch)
        run_workers(&cluster);
    else
        run_workers_ok(&cluster);
    for (int i = 0; break_epoch && i < workers; i++) ck_assert_int_ne(cluster.workers[i].status, LS_OK);
}

/* Four replicas, in another layout each time. */
TEST(workers_go_on_together) {
    struct crowd crowd;
    struct job undisturbed = without(job_of(ls_adam(0.01F), "4", 0));
    assert_ok(run(&undisturbed));
    for (int64_t every = 0; every <= 5; every += 5) {
        const struct job job = job_of(ls_adam(0.01F), NULL, every);
        run_crowd(&crowd, &job, 2, 1);
        run_crowd(&crowd, &job, 4, 2);
        run_crowd(&crowd, &job, 1, 3);
        run_crowd(&crowd, &job, 2, 0);
        for (int i = 0; i < 2; i++) expect_same(&crowd.jobs[i], &undisturbed);
        if (!every) ck_assert_int_eq(crowd.jobs[1].called, EPOCHS - 3);
        ck_assert_int_eq(count_files(false), 0);
    }
}

static ls_status train_otherwise(struct worker *worker) {
    struct job job = job_of(ls_adam(0.02F), NULL, 0);
    return train(worker->strategy, &job);
}

TEST(the_same_error_on_all_workers) {
    struct worker_cluster cluster = {.count = 3, .devices = {1, 1, 1}, .fn = train_otherwise};
    (void)interrupted();
    run_workers(&cluster);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "optimizer differs"), "%s", cluster.workers[i].error);
        ck_assert_str_eq(cluster.workers[i].error, cluster.workers[0].error);
    }
}

static ls_status train_half(struct worker *worker) {
    struct job job = job_of(ls_adam(0.02F), NULL, 0);
    if (worker->rank) job.checkpoint.folder = NULL;
    return train(worker->strategy, &job);
}

TEST(all_have_checkpoints_or_none) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = train_half};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(cluster.workers[i].error, "checkpoint differs: 'yes'"), "%s", cluster.workers[i].error);
}

TESTS("checkpoint", .seconds = 240, .before = make_folder, .after = remove_folder)
