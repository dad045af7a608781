/* LocalSGDStrategy against a simulation: each worker's steps between two meetings are those of a model that trains
 * alone on that worker's rows, and a meeting is what this file computes. Equal bits, for random models, optimizers,
 * workers, replicas and options. */
#define _GNU_SOURCE /* nftw */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "model/optimizer.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/model_state.h"
#include "train/toy.h"

enum { CASES = 10, EPOCHS = 2, MOST = 3, FLOATS = 4096 };

struct outcome {
    float state[FLOATS];
    size_t floats, trained;
    double loss;
    int64_t steps, bytes; /* of the vectors of rank 0's collectives in the fit */
    char sha256[MOST][65];
};
struct draft {
    ls_layer layers[8];
    size_t count;
    ls_optimizer optimizer;
    int workers, devices[MOST], replicas; /* of all */
    int batch, steps;                     /* rows of all; an epoch */
    ls_local_sgd_options local;
    uint64_t seed;
    /* of one run of it */
    ls_checkpoint_options checkpoint;
    int stop_at, stopper; /* the rank asks before this step; 0: nobody does */
    float other_rate;     /* of rank 1 after the first epoch; 0: that of all */
    struct outcome outcome;
};
struct one {
    struct draft *draft;
    ls_model *model;
    int rank, asked;
};

static ls_optimizer draw_optimizer(struct draw *draw) {
    const ls_optimizer rules[] = {
        ls_sgd(0.1F),   ls_sgd(0.1F, .momentum = 0.9F, .nesterov = true),      ls_adam(0.01F), ls_adamw(0.01F),
        ls_lamb(0.01F), ls_rmsprop(0.01F, .momentum = 0.5F, .centered = true),
    };
    ls_optimizer rule = rules[draw_below(draw, sizeof(rules) / sizeof(rules[0]))];
    if (draw_once_in(draw, 3)) rule.global_clipnorm = 0.5F;
    return rule;
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
}

static ls_status open_model(struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy, draft->layers, draft->count, model);
    if (!status) status = ls_model_seed(*model, draft->seed);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status open_data(struct toy *toy, int first, int rows, int batch, ls_dataset **data) {
    return ls_dataset_arrays(&toy->features[first][0], LS_SHAPE(WIDTH), toy->labels + first, rows, 3,
                             LS_DATASET(.batch_size = batch, .shuffle = LS_SHUFFLE_NEVER), data);
}

/* ---- the strategy ---- */

static ls_request ask(void *context) {
    struct one *one = context;
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
    struct one one = {.draft = draft, .rank = worker->rank};
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
        outcome->floats = ls_model_state_count(one.model);
        ck_assert_uint_le(outcome->floats, FLOATS);
        status = ls_model_state_get(one.model, outcome->state);
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

/* ---- the simulation ---- */

struct simulated {
    ls_strategy *strategy;
    ls_model *model;
    float state[FLOATS];
};

/* The worker's rows of the round's steps, side by side: of each batch those of its replicas. */
static int collect(const struct draft *draft, const struct toy *toy, int worker, int step, int steps, struct toy *own) {
    int before = 0, part = draft->batch / draft->replicas, rows = 0;
    for (int w = 0; w < worker; w++) before += draft->devices[w];
    for (int s = step; s < step + steps; s++)
        for (int i = 0; i < part * draft->devices[worker]; i++, rows++) {
            int from = s * draft->batch + before * part + i;
            memcpy(own->features[rows], toy->features[from], sizeof(own->features[rows]));
            own->labels[rows] = toy->labels[from];
        }
    return rows;
}

/* Returns the sum of the losses of its rows. */
static double train_alone(struct simulated *worker, struct toy *own, int rows, int steps) {
    ls_dataset *data = NULL;
    ls_result result;
    assert_ok(open_data(own, 0, rows, rows / steps, &data));
    assert_ok(ls_model_fit(worker->model, data, LS_FIT(.verbose = -1), &result));
    assert_ok(ls_model_state_get(worker->model, worker->state));
    ls_dataset_free(data);
    return result.loss * rows;
}

/* The tree over two or three workers, then the division. */
static float mean(const struct draft *draft, const float *values) {
    float sum = values[0];
    for (int w = 1; w < draft->workers; w++) sum += values[w];
    return sum / (float)draft->workers;
}

static float step_outer(const struct draft *draft, float before, float change, float *momentum) {
    float rate = draft->local.outer_learning_rate, kept = draft->local.outer_momentum;
    if (kept > 0) {
        *momentum = kept * *momentum + change;
        change += kept * *momentum;
    }
    return before - rate * change;
}

/* before: the variables at the last meeting, then those of this one. */
static void meet(const struct draft *draft, struct simulated *workers, float *before, float *momentum) {
    const ls_model *model = workers[0].model;
    size_t trained = ls_network_trainable_count(model->built.network), blob = model->built.blob_count;
    size_t floats = ls_model_state_count(model);
    bool outer = draft->local.outer_learning_rate > 0;
    float values[MOST];
    for (size_t i = 0; i < floats; i++) {
        bool changes = i < trained && outer;
        if (i >= blob && (draft->local.local_moments || i % blob >= trained)) continue;
        for (int w = 0; w < draft->workers; w++)
            values[w] = changes ? before[i] - workers[w].state[i] : workers[w].state[i];
        float met = mean(draft, values);
        if (changes) met = step_outer(draft, before[i], met, &momentum[i]);
        for (int w = 0; w < draft->workers; w++) workers[w].state[i] = met;
        if (i < blob) before[i] = met;
    }
    for (int w = 0; w < draft->workers; w++) assert_ok(ls_model_state_set(workers[w].model, workers[w].state));
}

static void simulate(struct draft *draft, struct simulated *workers, double *loss) {
    struct toy toy, own;
    static float before[FLOATS], momentum[FLOATS];
    memset(momentum, 0, sizeof(momentum));
    fill_toy(&toy);
    for (int w = 0; w < draft->workers; w++) {
        char devices[8];
        (void)snprintf(devices, sizeof(devices), "%d", draft->devices[w]);
        assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices), &workers[w].strategy));
        assert_ok(open_model(draft, workers[w].strategy, &workers[w].model));
        ls_result result;
        ls_dataset *data = NULL;
        assert_ok(open_data(&toy, 0, draft->batch, draft->batch, &data));
        assert_ok(ls_model_evaluate(workers[w].model, data, &result)); /* makes the variables */
        ls_dataset_free(data);
    }
    assert_ok(ls_model_state_get(workers[0].model, before));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        *loss = 0;
        for (int step = 0, steps; step < draft->steps; step += steps) {
            steps = draft->steps - step < draft->local.sync_every ? draft->steps - step : draft->local.sync_every;
            for (int w = 0; w < draft->workers; w++) {
                int rows = collect(draft, &toy, w, step, steps, &own);
                *loss += train_alone(&workers[w], &own, rows, steps);
            }
            meet(draft, workers, before, momentum);
        }
    }
    *loss /= draft->batch * draft->steps;
    const struct outcome *outcome = &draft->outcome;
    size_t floats = ls_model_state_count(workers[0].model);
    ck_assert_msg(!memcmp(outcome->state, workers[0].state, floats * sizeof(float)), "another state");
    if (draft->local.outer_momentum > 0)
        for (size_t i = 0; i < ls_network_trainable_count(workers[0].model->built.network); i++)
            ck_assert(outcome->state[floats + i] == momentum[i]);
    for (int w = 0; w < draft->workers; w++) {
        ls_model_free(workers[w].model);
        ls_strategy_free(workers[w].strategy);
    }
}

START_TEST(workers_train_alone_and_meet) {
    uint64_t seed = draw_first_seed();
    for (int i = 0; i < (SANITIZED ? 3 : CASES); i++) {
        static struct draft draft;
        struct simulated workers[MOST];
        double loss;
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        (void)printf("# %d workers, %d replicas, %d steps of %d, sync_every %d, outer %g %g%s\n", draft.workers,
                     draft.replicas, draft.steps, draft.batch, draft.local.sync_every,
                     (double)draft.local.outer_learning_rate, (double)draft.local.outer_momentum,
                     draft.local.local_moments ? ", local moments" : "");
        struct worker_cluster cluster = cluster_of(&draft);
        run_workers_ok(&cluster);
        for (int w = 1; w < draft.workers; w++) ck_assert_str_eq(draft.outcome.sha256[w], draft.outcome.sha256[0]);
        ck_assert_int_eq(draft.outcome.steps, EPOCHS * draft.steps);
        simulate(&draft, workers, &loss);
        ck_assert_double_eq_tol(draft.outcome.loss, loss, 1e-5);
    }
}
END_TEST

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
START_TEST(a_meeting_has_these_bytes) {
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
        int64_t told = (8 + LS_MAX_METRICS) * (int64_t)sizeof(double);
        ck_assert_int_eq(often.outcome.bytes - rarely.outcome.bytes, meetings * (4 * (blob + moments) + told));
    }
}
END_TEST

static int remove_one(const char *path, const struct stat *state, int kind, struct FTW *place) {
    (void)state, (void)kind, (void)place;
    return remove(path);
}

/* Any worker asks in any step: all stop at the next meeting, and go on there to the bits of an undisturbed training. */
START_TEST(a_request_is_heard_at_a_meeting) {
    static struct draft whole, draft;
    whole = fixed_draft();
    struct worker_cluster cluster = cluster_of(&whole);
    run_workers_ok(&cluster);
    static const int asked[] = {1, 3, 6, 8}, heard[] = {4, 4, 6, 10};
    for (int i = 0; i < (SANITIZED ? 1 : 4); i++) {
        char folder[] = "/tmp/lockstep-local-XXXXXX", text[64];
        ck_assert_ptr_nonnull(mkdtemp(folder));
        draft = fixed_draft();
        draft.checkpoint = (ls_checkpoint_options){.size = sizeof(draft.checkpoint), .folder = folder};
        draft.stop_at = asked[i];
        draft.stopper = i % MOST;
        cluster = cluster_of(&draft);
        run_workers(&cluster);
        (void)snprintf(text, sizeof(text), "stopped after step %d, as rank %d asked", heard[i], draft.stopper);
        for (int w = 0; w < MOST; w++) {
            ck_assert_int_eq(cluster.workers[w].status, LS_CANCELLED);
            ck_assert_msg(strstr(cluster.workers[w].error, text), "%s", cluster.workers[w].error);
        }
        draft.stop_at = 0;
        cluster = cluster_of(&draft);
        run_workers_ok(&cluster);
        ck_assert_str_eq(draft.outcome.sha256[2], whole.outcome.sha256[0]);
        ck_assert(!memcmp(&draft.outcome.loss, &whole.outcome.loss, sizeof(double)));
        ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}
END_TEST

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

START_TEST(what_cannot_be_is_named) {
    static struct draft draft;
    draft = fixed_draft();
    draft.layers[1] = (ls_layer)ls_batch_normalization(.synchronized = true);
    expect_refused(&draft, LS_UNIMPLEMENTED, "layer 1 is a synchronized batch normalization");
    draft = fixed_draft();
    draft.other_rate = 0.5F;
    expect_refused(&draft, LS_INVALID_ARGUMENT, "the learning rate on rank 1 is another one than on rank 0");
}
END_TEST

START_TEST(options_are_checked) {
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
        ck_assert_int_eq(ls_local_sgd_strategy_new(&options, &local, &strategy), LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ls_error(), rows[i].text), "%s", ls_error());
        ck_assert_ptr_null(strategy);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("train/local_sgd");
    TCase *tests = tcase_create("local sgd");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, workers_train_alone_and_meet);
    tcase_add_test(tests, a_meeting_has_these_bytes);
    tcase_add_test(tests, a_request_is_heard_at_a_meeting);
    tcase_add_test(tests, what_cannot_be_is_named);
    tcase_add_test(tests, options_are_checked);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
