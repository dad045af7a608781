/* ParameterServerStrategy with LS_DELAYED against an oracle: the gradients of a step are computed by plans on the
 * variables before the last d steps, folded along the tree, and applied to the newest ones. Equal bits, for random
 * models, optimizers, workers, replicas, servers, copies, buckets, checkpoints and d. */
#define _GNU_SOURCE /* nftw */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "collective/schedule/fold.h"
#include "folder.h"
#include "harness.h"
#include "model/optimizer.h"
#include "model/plan_run.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/draw_optimizer.h"
#include "train/model_state.h"
#include "train/toy.h"

enum { CASES = SANITIZED ? 4 : 14, EPOCHS = 2, MOST = 3, FLOATS = 2048, MOST_STEPS = EPOCHS * EXAMPLES };

struct draft {
    ls_layer layers[8];
    size_t count, pack; /* layers; bytes_per_pack */
    ls_optimizer optimizer;
    int workers, devices[MOST], replicas; /* of all */
    int servers, batch, steps;            /* rows of all; an epoch */
    ls_parameter_server_options stored;
    uint64_t seed;
    ls_checkpoint_options checkpoint;
    int stop_at, asked; /* rank 0 asks before this step; 0: nobody does */
    pthread_t asker;    /* its thread: it asks once a step, and another one in waits */
    /* what it gave */
    float variables[FLOATS];
    double loss;
    int64_t steps_done;
    char sha256[MOST][65];
};

static void draw_draft(struct draw *draw, struct draft *draft) {
    *draft = (struct draft){.seed = draw->seed, .workers = 1 + (int)draw_below(draw, MOST)};
    for (size_t hidden = draw_below(draw, 3); hidden > 0; hidden--) {
        draft->layers[draft->count++] = (ls_layer)ls_dense(1 + (int)draw_below(draw, 9), LS_TANH);
        if (draw_once_in(draw, 2)) draft->layers[draft->count++] = (ls_layer)ls_batch_normalization();
        if (draw_once_in(draw, 2)) draft->layers[draft->count++] = (ls_layer)ls_dropout(0.2F);
    }
    draft->layers[draft->count++] = (ls_layer)ls_dense(3);
    draft->optimizer = draw_optimizer(draw);
    for (int w = 0; w < draft->workers; w++) draft->replicas += draft->devices[w] = 1 + (int)draw_below(draw, 2);
    draft->batch = draft->replicas * (1 + (int)draw_below(draw, 3));
    draft->steps = EXAMPLES / draft->batch;
    draft->servers = 1 + (int)draw_below(draw, 3);
    draft->pack = draw_once_in(draw, 2) ? 100 : 0;
    draft->stored = (ls_parameter_server_options){.size = sizeof(draft->stored),
                                                  .replicas = 1 + (int)draw_below(draw, 2),
                                                  .consistency = LS_DELAYED,
                                                  .delay = (int)draw_below(draw, 4)};
    draft->checkpoint.every_steps = draw_once_in(draw, 2) ? 1 + (int64_t)draw_below(draw, 5) : 0;
}

static ls_status open_model(struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy, draft->layers, draft->count, model);
    if (!status) status = ls_model_seed(*model, draft->seed);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status open_data(struct toy *toy, const struct draft *draft, ls_dataset **data) {
    return ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, draft->batch * draft->steps, 3,
                             LS_DATASET(.batch_size = draft->batch, .shuffle = LS_SHUFFLE_NEVER), data);
}

/* ---- the strategy ---- */

static ls_request ask(void *context) {
    struct draft *draft = context;
    if (!pthread_equal(pthread_self(), draft->asker)) return LS_GO_ON;
    return ++draft->asked == draft->stop_at ? LS_STOP : LS_GO_ON;
}

static ls_status train(struct worker *worker) {
    struct draft *draft = worker->context;
    struct toy toy;
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    ls_result result;
    if (!worker->rank) draft->asker = pthread_self();
    fill_toy(&toy);
    ls_status status = open_model(draft, worker->strategy, &model);
    if (!status) status = open_data(&toy, draft, &data);
    if (!status)
        status = ls_model_fit(model, data,
                              LS_FIT(.epochs = EPOCHS, .verbose = -1,
                                     .request = draft->stop_at && !worker->rank ? ask : NULL, .context = draft,
                                     .checkpoint = draft->checkpoint.folder ? &draft->checkpoint : NULL),
                              &result);
    if (!status) status = ls_model_weights_sha256(model, draft->sha256[worker->rank]);
    if (!status && !worker->rank) {
        draft->loss = result.loss;
        draft->steps_done = result.steps;
        ck_assert_uint_le(model->built.blob_count, FLOATS);
        status = ls_model_state_get_parameters(model, draft->variables);
    }
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static struct worker_cluster cluster_of(struct draft *draft) {
    struct worker_cluster cluster = {.count = draft->workers,
                                     .servers = draft->servers,
                                     .stored = &draft->stored,
                                     .options.bytes_per_pack = draft->pack,
                                     .fn = train,
                                     .context = draft};
    memcpy(cluster.devices, draft->devices, sizeof(draft->devices));
    return cluster;
}

static void run_draft(struct draft *draft) {
    char folder[] = "/tmp/lockstep-delayed-XXXXXX";
    struct worker_cluster cluster = cluster_of(draft);
    if (draft->checkpoint.every_steps) {
        ck_assert_ptr_nonnull(mkdtemp(folder));
        draft->checkpoint.size = sizeof(draft->checkpoint);
        draft->checkpoint.folder = folder;
        cluster = cluster_of(draft);
    }
    run_workers_ok(&cluster);
    if (draft->checkpoint.every_steps) ck_assert_int_eq(folder_remove(folder), 0);
    draft->checkpoint.folder = NULL;
    for (int w = 1; w < draft->workers; w++) ck_assert_str_eq(draft->sha256[w], draft->sha256[0]);
}

/* ---- the oracle ---- */

struct oracle {
    const struct draft *draft;
    ls_strategy *strategy;
    ls_model *model;
    struct toy toy;
    struct ls_device *device;
    struct ls_plan *plans[2 * MOST];
    struct ls_loss_sums sums;
    struct ls_optimizer_step step;
    float scale, features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
    float read[FLOATS], gradients[2 * MOST][FLOATS], sum[FLOATS], moments[LS_MAX_MOMENTS][FLOATS];
    float versions[MOST_STEPS + 1][FLOATS];
    struct ls_op update;
    struct ls_blob_part *parts;
    double loss;
};

static void make_plans(struct oracle *oracle) {
    const struct draft *draft = oracle->draft;
    oracle->scale = 1.0F / (float)draft->batch;
    for (int r = 0; r < draft->replicas; r++) {
        const struct ls_plan_config config = {.network = oracle->model->built.network,
                                              .device = oracle->device,
                                              .rows = draft->batch / draft->replicas,
                                              .training = true,
                                              .objective = oracle->model->spec.objective,
                                              .parameters = oracle->read,
                                              .gradients = oracle->gradients[r],
                                              .features = &oracle->features[0][0],
                                              .labels = oracle->labels,
                                              .loss_scale = &oracle->scale,
                                              .sums = &oracle->sums,
                                              .seed = draft->seed,
                                              .replica = r,
                                              .step = &oracle->step};
        assert_ok(ls_plan_new(&config, &oracle->plans[r]));
    }
}

static void make_update(struct oracle *oracle) {
    const struct ls_network *network = oracle->model->built.network;
    struct ls_optimizer_blobs blobs = {.count = ls_network_trainable_count(network),
                                       .parameters = oracle->sum, /* told in each step */
                                       .gradients = oracle->sum};
    oracle->step.rule = oracle->model->progress.step.rule;
    for (int m = 0; m < LS_MAX_MOMENTS; m++) blobs.moments[m] = oracle->moments[m];
    assert_ok(ls_optimizer_parts(&oracle->step.rule, network, &oracle->parts, &blobs.part_count));
    blobs.parts = oracle->parts;
    assert_ok(ls_optimizer_build(oracle->device, &oracle->step, &blobs, &oracle->update));
}

static void open_oracle(const struct draft *draft, struct oracle *oracle) {
    struct draft copy = *draft;
    ls_dataset *data = NULL;
    ls_result result;
    memset(oracle, 0, sizeof(*oracle));
    oracle->draft = draft;
    fill_toy(&oracle->toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "cpu:0"), &oracle->strategy));
    assert_ok(open_model(&copy, oracle->strategy, &oracle->model));
    assert_ok(open_data(&oracle->toy, draft, &data));
    assert_ok(ls_model_evaluate(oracle->model, data, &result)); /* makes the variables */
    ls_dataset_free(data);
    oracle->device = oracle->strategy->replicas[0].device;
    assert_ok(ls_model_state_get_parameters(oracle->model, oracle->versions[0]));
    make_plans(oracle);
    make_update(oracle);
}

static void close_oracle(struct oracle *oracle) {
    for (int r = 0; r < oracle->draft->replicas; r++) ls_plan_free(oracle->plans[r]);
    oracle->device->ops->discard(oracle->device, &oracle->update);
    ls_free(oracle->parts);
    ls_model_free(oracle->model);
    ls_strategy_free(oracle->strategy);
}

/* Step number from 0, with the variables of that version. */
static void make_step(struct oracle *oracle, int step, int version) {
    const struct draft *draft = oracle->draft;
    const void *leaves[2 * MOST];
    int part = draft->batch / draft->replicas;
    size_t blob = oracle->model->built.blob_count, trained = ls_network_trainable_count(oracle->model->built.network);
    float *newest = oracle->versions[step + 1];
    oracle->step.iteration = step + 1;
    memcpy(oracle->read, oracle->versions[version], sizeof(oracle->read));
    for (int r = 0; r < draft->replicas; r++) {
        int from = step % draft->steps * draft->batch + r * part;
        memcpy(oracle->features, oracle->toy.features[from], (size_t)part * sizeof(oracle->features[0]));
        memcpy(oracle->labels, oracle->toy.labels + from, (size_t)part * sizeof(oracle->labels[0]));
        assert_ok(ls_plan_run(oracle->plans[r], NULL, NULL));
        oracle->loss += oracle->sums.loss;
        leaves[r] = oracle->gradients[r];
    }
    const struct ls_fold fold = {.n = draft->replicas, .count = draft->replicas, .data = leaves};
    ls_fold_tree(LS_SUM, LS_FLOAT32, fold, oracle->sum, blob);
    memcpy(newest, oracle->versions[step], sizeof(oracle->versions[0]));
    for (size_t i = trained; i < blob; i++) newest[i] += oracle->sum[i];
    oracle->update.tensors[LS_ARG_PARAMETERS].data = newest;
    assert_ok(oracle->update.run(&oracle->update));
}

/* Nothing is under way at the end of an epoch, and where a checkpoint may be due. */
static void run_oracle(struct oracle *oracle) {
    const struct draft *draft = oracle->draft;
    int every = (int)draft->checkpoint.every_steps, begin = 0;
    struct ls_thread_state before;
    assert_ok(oracle->device->ops->enter(oracle->device, &before));
    for (int step = 0; step < EPOCHS * draft->steps; step++) {
        int version = step - draft->stored.delay;
        if (step % draft->steps == 0 || (every && step % every == 0)) begin = step;
        if (step % draft->steps == 0) oracle->loss = 0;
        make_step(oracle, step, version > begin ? version : begin);
    }
    oracle->device->ops->leave(oracle->device, &before);
    oracle->loss /= draft->batch * draft->steps;
}

TEST(gradients_are_d_steps_old) {
    uint64_t seed = first_seed();
    static struct draft draft;
    static struct oracle oracle;
    for (int i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        (void)printf("# %zu layers, %s, %d workers, %d replicas, %d servers, %d copies, %d steps of %d, delay %d, "
                     "checkpoints every %d, packs of %zu\n",
                     draft.count, draft.optimizer.kind == LS_OPTIMIZER_SGD ? "SGD" : "another", draft.workers,
                     draft.replicas, draft.servers, draft.stored.replicas, draft.steps, draft.batch, draft.stored.delay,
                     (int)draft.checkpoint.every_steps, draft.pack);
        run_draft(&draft);
        open_oracle(&draft, &oracle);
        run_oracle(&oracle);
        ck_assert_int_eq(draft.steps_done, EPOCHS * draft.steps);
        ck_assert_double_eq_tol(draft.loss, oracle.loss, 1e-5);
        ck_assert_msg(!memcmp(draft.variables, oracle.versions[EPOCHS * draft.steps],
                              oracle.model->built.blob_count * sizeof(float)),
                      "other variables");
        close_oracle(&oracle);
    }
}

/* ---- a pull that goes on while the next step begins ---- */

struct coming {
    struct oracle *oracle;
    size_t there, trained;
    int calls;
    bool all;
};

/* Nothing is there before it is waited for, and no gradient is written before all is. */
static ls_status bring(void *context, size_t end) {
    struct coming *coming = context;
    struct oracle *oracle = coming->oracle;
    size_t upto = end < coming->trained ? end : coming->trained;
    coming->calls++;
    for (size_t i = 0; !coming->all && i < coming->trained; i++) ck_assert(oracle->gradients[1][i] == 7);
    for (; coming->there < upto; coming->there++) oracle->read[coming->there] = oracle->versions[0][coming->there];
    coming->all = coming->all || end == SIZE_MAX;
    return LS_OK;
}

static ls_status refuse(void *context, size_t end) {
    (void)context, (void)end;
    return ls_fail(LS_UNAVAILABLE, "it does not come");
}

static struct ls_plan *waiting_plan(struct oracle *oracle, ls_plan_await_fn *await, void *context) {
    struct ls_plan *plan = NULL;
    const struct ls_plan_config config = {.network = oracle->model->built.network,
                                          .device = oracle->device,
                                          .rows = oracle->draft->batch / oracle->draft->replicas,
                                          .training = true,
                                          .objective = oracle->model->spec.objective,
                                          .parameters = oracle->read,
                                          .gradients = oracle->gradients[1],
                                          .features = &oracle->features[0][0],
                                          .labels = oracle->labels,
                                          .loss_scale = &oracle->scale,
                                          .sums = &oracle->sums,
                                          .await = await,
                                          .await_context = context,
                                          .seed = oracle->draft->seed,
                                          .step = &oracle->step};
    assert_ok(ls_plan_new(&config, &plan));
    return plan;
}

TEST(a_plan_waits_for_what_it_reads) {
    uint64_t seed = first_seed();
    static struct draft draft;
    static struct oracle oracle;
    for (int i = 0; i < 3 * CASES; i++) {
        struct draw draw = draw_from(seed, (uint64_t)i + 1000);
        draw_draft(&draw, &draft);
        open_oracle(&draft, &oracle);
        struct coming coming = {.oracle = &oracle, .trained = ls_network_trainable_count(oracle.model->built.network)};
        size_t blob = oracle.model->built.blob_count;
        memcpy(oracle.features, oracle.toy.features, sizeof(oracle.features));
        memcpy(oracle.labels, oracle.toy.labels, sizeof(oracle.labels));
        oracle.step.iteration = 1;
        memcpy(oracle.read, oracle.versions[0], sizeof(oracle.read));
        assert_ok(ls_plan_run(oracle.plans[0], NULL, NULL));
        struct ls_plan *plan = waiting_plan(&oracle, bring, &coming);
        for (size_t e = 0; e < coming.trained; e++) {
            oracle.read[e] = NAN;
            oracle.gradients[1][e] = 7;
        }
        assert_ok(ls_plan_run(plan, NULL, NULL));
        for (size_t e = 0; e < coming.trained; e++)
            if (oracle.gradients[1][e] == 7) oracle.gradients[1][e] = 0; /* between variables */
        ck_assert_msg(!memcmp(oracle.gradients[0], oracle.gradients[1], blob * sizeof(float)), "other gradients");
        ck_assert(coming.all);
        ck_assert_int_ge(coming.calls, 2);
        ls_plan_free(plan);
        plan = waiting_plan(&oracle, refuse, NULL);
        ck_assert_int_eq(ls_plan_run(plan, NULL, NULL), LS_UNAVAILABLE);
        ls_plan_free(plan);
        close_oracle(&oracle);
    }
}

/* Two workers of two replicas and one; ten steps an epoch. */
static struct draft fixed_draft(void) {
    return (struct draft){
        .layers = {ls_dense(5, LS_TANH), ls_batch_normalization(), ls_dense(3)},
        .count = 3,
        .optimizer = ls_adam(0.01F),
        .workers = 2,
        .devices = {2, 1},
        .replicas = 3,
        .servers = 2,
        .batch = 3,
        .steps = 10,
        .stored = {.size = sizeof(ls_parameter_server_options), .replicas = 1, .consistency = LS_DELAYED, .delay = 2}};
}

/* A request in step 3 is heard behind step 5, which has it from there on all workers. */
TEST(a_request_drains) {
    static struct draft draft;
    char folder[] = "/tmp/lockstep-delayed-XXXXXX";
    draft = fixed_draft();
    ck_assert_ptr_nonnull(mkdtemp(folder));
    draft.checkpoint = (ls_checkpoint_options){.size = sizeof(draft.checkpoint), .folder = folder};
    draft.stop_at = 3;
    struct worker_cluster cluster = cluster_of(&draft);
    run_workers(&cluster);
    for (int w = 0; w < draft.workers; w++) {
        ck_assert_int_eq(cluster.workers[w].status, LS_CANCELLED);
        ck_assert_msg(strstr(cluster.workers[w].error, "stopped after step 5, as rank 0 asked"), "%s",
                      cluster.workers[w].error);
    }
    draft.stop_at = 0;
    cluster = cluster_of(&draft);
    run_workers_ok(&cluster);
    ck_assert_int_eq(draft.steps_done, EPOCHS * draft.steps);
    ck_assert_str_eq(draft.sha256[1], draft.sha256[0]);
    ck_assert_int_eq(folder_remove(folder), 0);
}

TEST(what_cannot_be_is_named) {
    static struct draft draft;
    draft = fixed_draft();
    draft.layers[1] = (ls_layer)ls_batch_normalization(.synchronized = true);
    struct worker_cluster cluster = cluster_of(&draft);
    run_workers(&cluster);
    int found = 0;
    for (int w = 0; w < draft.workers; w++) {
        found += cluster.workers[w].status == LS_UNIMPLEMENTED;
        ck_assert_msg(strstr(cluster.workers[w].error, "layer 1 is a synchronized batch normalization"), "%s",
                      cluster.workers[w].error);
    }
    ck_assert_int_ge(found, 1);
}

TESTS("sync/delayed", .seconds = 240)
