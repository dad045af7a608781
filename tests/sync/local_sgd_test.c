/* LocalSGDStrategy against a simulation: each worker's steps between two meetings are those of a model that trains
 * alone on that worker's rows, and a meeting is what this file computes. Equal bits, for random models, optimizers,
 * workers, replicas and options. */
#define _GNU_SOURCE /* nftw */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "harness.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/draw_optimizer.h"
#include "sync/local_simulation.h"

enum { CASES = 16 };

struct one {
    struct draft *draft;
    ls_model *model;
    int rank, asked;
    pthread_t thread; /* of the worker: it asks once a step, and another one in waits */
};

/* Dense layers have two, and so have batch normalizations. */
static int trained_variables(const struct draft *draft) {
    return 2 * (int)draft->count;
}

static void draw_draft(struct draw *draw, struct draft *draft) {
    *draft = (struct draft){.seed = draw->seed, .workers = 1 + (int)draw_below(draw, MOST)};
    for (size_t hidden = draw_below(draw, 3); hidden > 0; hidden--) {
        draft->layers[draft->count++] = (ls_layer)ls_dense(1 + (int)draw_below(draw, 9), LS_TANH);
        if (draw_once_in(draw, 2)) draft->layers[draft->count++] = (ls_layer)ls_batch_normalization();
    }
    draft->layers[draft->count++] = (ls_layer)ls_dense(3);
    draft->optimizer = draw_optimizer(draw);
    for (int w = 0; w < draft->workers; w++) draft->replicas += draft->devices[w] = 1 + (int)draw_below(draw, 2);
    draft->batch = draft->replicas * (1 + (int)draw_below(draw, 3));
    draft->steps = EXAMPLES / draft->batch;
    draft->local = (ls_local_sgd_options){.size = sizeof(draft->local), .sync_every = 1 + (int)draw_below(draw, 6)};
    if (draw_once_in(draw, 2)) draft->local.outer_learning_rate = 0.7F;
    if (draft->local.outer_learning_rate > 0 && draw_once_in(draw, 2)) draft->local.outer_momentum = 0.9F;
    draft->local.local_moments = draw_once_in(draw, 2);
    int parts = trained_variables(draft);
    if (draw_once_in(draw, 3)) return;
    int every = 1 + (int)draw_below(draw, 3);
    draft->local.fragments = 1 + (int)draw_below(draw, parts < 4 ? (unsigned)parts : 4);
    draft->local.sync_every = every * draft->local.fragments;
    draft->local.fragment_delay = (int)draw_below(draw, (unsigned)every);
    if (draw_once_in(draw, 2)) draft->local.fragment_alpha = (float)draw_below(draw, 5) / 4;
}

/* ---- the strategy ---- */

static ls_request ask(void *context) {
    struct one *one = context;
    if (!pthread_equal(pthread_self(), one->thread)) return LS_GO_ON;
    return one->rank == one->draft->stopper && ++one->asked == one->draft->stop_at ? LS_STOP : LS_GO_ON;
}

static ls_status change_rate(void *context, int epoch, const ls_result *result) {
    const struct one *one = context;
    (void)epoch;
    (void)result;
    if (one->rank != 1 || !(one->draft->other_rate > 0)) return LS_OK;
    return ls_model_set_learning_rate(one->model, one->draft->other_rate);
}

static ls_status train(struct worker *worker) {
    struct draft *draft = worker->context;
    struct one one = {.draft = draft, .rank = worker->rank, .thread = pthread_self()};
    struct outcome *outcome = &draft->outcome;
    struct toy toy;
    ls_dataset *data = NULL;
    ls_result result;
    fill_toy(&toy);
    const struct ls_activity *activity = &worker->strategy->runtime->activity;
    int64_t before = ls_activity_get(&activity->bytes);
    ls_status status = open_model(draft, worker->strategy, &one.model);
    if (!status) status = open_data(&toy, 0, draft->batch * draft->steps, draft->batch, &data);
    if (!status)
        status = ls_model_fit(one.model, data,
                              LS_FIT(.epochs = EPOCHS, .verbose = -1, .on_epoch = change_rate, .context = &one,
                                     .request = draft->stop_at ? ask : NULL,
                                     .checkpoint = draft->checkpoint.folder ? &draft->checkpoint : NULL),
                              &result);
    if (!status) status = ls_model_weights_sha256(one.model, outcome->sha256[worker->rank]);
    if (!status && !worker->rank) {
        outcome->loss = result.loss;
        outcome->steps = result.steps;
        outcome->bytes = ls_activity_get(&activity->bytes) - before;
        outcome->trained = ls_network_trainable_count(one.model->built.network);
        outcome->floats = ls_model_state_count(one.model, LS_PARTS_HERE);
        ck_assert_uint_le(outcome->floats, FLOATS);
        status = ls_model_state_get(one.model, LS_PARTS_HERE, outcome->state);
    }
    ls_model_free(one.model);
    ls_dataset_free(data);
    return status;
}

static struct worker_cluster cluster_of(struct draft *draft) {
    struct worker_cluster cluster = {.count = draft->workers, .fn = train, .context = draft, .local = &draft->local};
    memcpy(cluster.devices, draft->devices, sizeof(draft->devices));
    return cluster;
}

TEST(workers_train_alone_and_meet) {
    uint64_t seed = first_seed();
    for (int i = 0; i < (SANITIZED ? 3 : CASES); i++) {
        static struct draft draft;
        struct simulated workers[MOST];
        double loss;
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        (void)printf("# %d workers, %d replicas, %d steps of %d, sync_every %d, outer %g %g%s, %d fragments %d %g\n",
                     draft.workers, draft.replicas, draft.steps, draft.batch, draft.local.sync_every,
                     (double)draft.local.outer_learning_rate, (double)draft.local.outer_momentum,
                     draft.local.local_moments ? ", local moments" : "", draft.local.fragments,
                     draft.local.fragment_delay, (double)draft.local.fragment_alpha);
        struct worker_cluster cluster = cluster_of(&draft);
        run_workers_ok(&cluster);
        for (int w = 1; w < draft.workers; w++) ck_assert_str_eq(draft.outcome.sha256[w], draft.outcome.sha256[0]);
        ck_assert_int_eq(draft.outcome.steps, EPOCHS * draft.steps);
        simulate(&draft, workers, &loss);
        ck_assert_double_eq_tol(draft.outcome.loss, loss, 1e-5);
    }
}

/* Three workers of two replicas, one, and two; six steps an epoch. */
static struct draft fixed_draft(void) {
    return (struct draft){.layers = {ls_dense(5, LS_TANH), ls_batch_normalization(), ls_dense(3)},
                          .count = 3,
                          .optimizer = ls_adam(0.01F),
                          .workers = 3,
                          .devices = {2, 1, 2},
                          .batch = 6,
                          .steps = 6,
                          .local = {.size = sizeof(ls_local_sgd_options),
                                    .sync_every = 4,
                                    .outer_learning_rate = 0.7F,
                                    .outer_momentum = 0.9F}};
}

/* A meeting adds up the variables, each moment of them unless these are local, and what is told beside. */
TEST(a_meeting_has_these_bytes) {
    static struct draft often, rarely;
    for (int local_moments = 0; local_moments < 2; local_moments++) {
        often = fixed_draft();
        often.local.local_moments = local_moments;
        often.local.sync_every = 1;
        rarely = often;
        rarely.local.sync_every = 6;
        struct worker_cluster cluster = cluster_of(&often);
        run_workers_ok(&cluster);
        cluster = cluster_of(&rarely);
        run_workers_ok(&cluster);
        int64_t meetings = 2 * 6 - 2, blob = (int64_t)often.outcome.floats / 4;
        int64_t moments = local_moments ? 0 : 2 * (int64_t)often.outcome.trained;
        int64_t told = (9 + LS_MAX_METRICS) * (int64_t)sizeof(double);
        ck_assert_int_eq(often.outcome.bytes - rarely.outcome.bytes, meetings * (4 * (blob + moments) + told));
    }
}

/* Fragments have together the bytes of the variables and moments, and each tells two requests. */
TEST(fragments_have_these_bytes) {
    static struct draft whole, draft;
    for (int delay = 0; delay < 2; delay++) {
        whole = fixed_draft();
        whole.local.sync_every = 6;
        draft = fixed_draft();
        draft.local.fragments = 2;
        draft.local.fragment_delay = delay;
        struct worker_cluster cluster = cluster_of(&whole);
        run_workers_ok(&cluster);
        cluster = cluster_of(&draft);
        run_workers_ok(&cluster);
        int64_t rounds = 2, told = 2 * 2 * (int64_t)sizeof(double), trained = (int64_t)whole.outcome.trained;
        ck_assert_int_eq(draft.outcome.bytes - whole.outcome.bytes, rounds * (3 * 4 * trained + told));
    }
}

/* A worker asks before one step, and all stop after another. They go on to the end. */
static void stop_and_go_on(struct draft *draft, int asked, int stopper, int heard) {
    char text[64];
    draft->stop_at = asked;
    draft->stopper = stopper;
    struct worker_cluster cluster = cluster_of(draft);
    run_workers(&cluster);
    (void)snprintf(text, sizeof(text), "stopped after step %d, as rank %d asked", heard, stopper);
    for (int w = 0; w < MOST; w++) {
        ck_assert_int_eq(cluster.workers[w].status, LS_CANCELLED);
        ck_assert_msg(strstr(cluster.workers[w].error, text), "%s", cluster.workers[w].error);
    }
    draft->stop_at = 0;
    cluster = cluster_of(draft);
    run_workers_ok(&cluster);
}

/* Any worker asks in any step: all stop at the next meeting, and go on there to the bits of an undisturbed training. */
TEST(a_request_is_heard_at_a_meeting) {
    static struct draft whole, draft;
    whole = fixed_draft();
    struct worker_cluster cluster = cluster_of(&whole);
    run_workers_ok(&cluster);
    static const int asked[] = {1, 3, 6, 8}, heard[] = {4, 4, 6, 10};
    for (int i = 0; i < (SANITIZED ? 1 : 4); i++) {
        char folder[] = "/tmp/lockstep-local-XXXXXX";
        ck_assert_ptr_nonnull(mkdtemp(folder));
        draft = fixed_draft();
        draft.checkpoint = (ls_checkpoint_options){.size = sizeof(draft.checkpoint), .folder = folder};
        stop_and_go_on(&draft, asked[i], i % MOST, heard[i]);
        ck_assert_str_eq(draft.outcome.sha256[2], whole.outcome.sha256[0]);
        ck_assert(!memcmp(&draft.outcome.loss, &whole.outcome.loss, sizeof(double)));
        ck_assert_int_eq(folder_remove(folder), 0);
    }
}

/* With the exchange that begins next, also where that is used later. All go on from one checkpoint, to the same bits.
 */
TEST(a_request_is_heard_with_a_fragment) {
    static struct draft draft;
    static const int asked[] = {1, 3, 3, 6}, delay[] = {0, 0, 1, 1}, heard[] = {2, 4, 5, 6};
    for (int i = 0; i < (SANITIZED ? 1 : 4); i++) {
        char folder[] = "/tmp/lockstep-local-XXXXXX";
        ck_assert_ptr_nonnull(mkdtemp(folder));
        draft = fixed_draft();
        draft.local.fragments = 2;
        draft.local.fragment_delay = delay[i];
        draft.checkpoint =
            (ls_checkpoint_options){.size = sizeof(draft.checkpoint), .folder = folder, .keep_on_success = true};
        stop_and_go_on(&draft, asked[i], i % MOST, heard[i]);
        for (int w = 0; w < MOST; w++) ck_assert_str_eq(draft.outcome.sha256[w], draft.outcome.sha256[0]);
        ck_assert_int_eq(folder_remove(folder), 0);
    }
}

/* One of them at least finds it, and the others may hear of it from there. */
static void expect_refused(struct draft *draft, ls_status status, const char *text) {
    struct worker_cluster cluster = cluster_of(draft);
    int found = 0;
    run_workers(&cluster);
    for (int w = 0; w < draft->workers; w++) {
        const struct worker *worker = &cluster.workers[w];
        ck_assert_msg(worker->status == status || worker->status == LS_ABORTED, "rank %d: %s", w, worker->error);
        ck_assert_msg(strstr(worker->error, text), "rank %d: %s", w, worker->error);
        found += worker->status == status;
    }
    ck_assert_int_ge(found, 1);
}

TEST(what_cannot_be_is_named) {
    static struct draft draft;
    draft = fixed_draft();
    draft.layers[1] = (ls_layer)ls_batch_normalization(.synchronized = true);
    expect_refused(&draft, LS_UNIMPLEMENTED, "layer 1 is a synchronized batch normalization");
    draft = fixed_draft();
    draft.local.sync_every = 28;
    draft.local.fragments = 7;
    expect_refused(&draft, LS_INVALID_ARGUMENT, "fragments 7 are more than the 6 variables that the model trains");
    draft = fixed_draft();
    draft.other_rate = 0.5F;
    expect_refused(&draft, LS_INVALID_ARGUMENT, "the learning rate on rank 1 is another one than on rank 0");
}

TEST(a_frozen_normalization_exchanges_nothing) {
    static struct draft draft;
    draft = fixed_draft();
    draft.layers[1] = (ls_layer)ls_batch_normalization(.synchronized = true, .frozen = true);
    struct worker_cluster cluster = cluster_of(&draft);
    run_workers_ok(&cluster);
    for (int w = 1; w < draft.workers; w++) ck_assert_str_eq(draft.outcome.sha256[w], draft.outcome.sha256[0]);
}

TEST(options_are_checked) {
    static const struct {
        ls_local_sgd_options local;
        ls_strategy_options options;
        const char *text;
    } rows[] = {
        {{.sync_every = 0}, {.size = 0}, "sync_every 0 must be at least 1"},
        {{.sync_every = 1, .outer_learning_rate = -1}, {.size = 0}, "outer_learning_rate -1"},
        {{.sync_every = 1, .outer_learning_rate = 1, .outer_momentum = 1},
         {.size = 0},
         "outer_momentum 1 is not in [0"},
        {{.sync_every = 1, .outer_momentum = 0.5F}, {.size = 0}, "needs an outer_learning_rate"},
        {{.sync_every = 10, .fragments = 3}, {.size = 0}, "sync_every 10 is no multiple of fragments 3"},
        {{.sync_every = 10, .fragments = -1}, {.size = 0}, "fragments -1 must be at least 1"},
        {{.sync_every = 10, .fragments = 2, .fragment_delay = 5}, {.size = 0}, "fragment_delay 5 is not in 0 .. 4"},
        {{.sync_every = 10, .fragments = 2, .fragment_alpha = 1.5F},
         {.size = 0},
         "fragment_alpha 1.5 is not in [0, 1]"},
        {{.sync_every = 1}, {.compression = LS_COMPRESS_FP16}, "compression fp16 would round the variables"},
        {{.sync_every = 1}, {.communication = LS_NCCL}, "in place of NCCL"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ls_strategy *strategy = NULL;
        ls_local_sgd_options local = rows[i].local;
        ls_strategy_options options = rows[i].options;
        local.size = sizeof(local);
        options.size = sizeof(options);
        options.tf_config = "{}";
        assert_refused(ls_local_sgd_strategy_new(&options, &local, &strategy), rows[i].text);
        ck_assert_ptr_null(strategy);
    }
}

TESTS("sync/local_sgd", .seconds = 120)
