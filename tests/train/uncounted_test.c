/* Labels that do not count, in training: one digest in every layout however unevenly they lie, the same numbers as
 * without the examples that have none, also where steps go on while workers count. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 61, COUNT = 6, IDS = 11, BATCH = 18 };

static int32_t ids[EXAMPLES][COUNT];
static float next[EXAMPLES][COUNT];

/* share of 8 positions do not count; in every seventh example none does. */
static void fill(int share) {
    for (int i = 0; i < EXAMPLES; i++)
        for (int t = 0; t < COUNT; t++) {
            int drawn = (i * 37 + t * 11 + i * t) % 8;
            ids[i][t] = (i * 5 + t * 3) % IDS;
            next[i][t] = (float)((i * 5 + t * 3 + 4) % IDS);
            if (share && (drawn < share || i % 7 == 3)) next[i][t] = -1;
        }
}

static ls_status open_examples(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_from_arrays(LS_ARRAYS(.count = EXAMPLES, .ids = &ids[0][0], .shape = LS_SHAPE(COUNT),
                                            .targets = &next[0][0], .target_shape = LS_SHAPE(COUNT)),
                                  options, data);
}

static ls_status make_model(ls_strategy *strategy, ls_optimizer optimizer, ls_model **model) {
    ls_status st = ls_model_new(strategy,
                                LS_LAYERS(ls_embedding(IDS, 5), ls_dense(9, LS_RELU, .per_position = true),
                                          ls_dense(IDS, .per_position = true)),
                                model);
    const ls_compile_options *options =
        LS_COMPILE(.metrics = LS_METRICS(ls_perplexity(), ls_sparse_categorical_accuracy(), ls_mean_loss()));
    return st ? st : ls_model_compile_with(*model, optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY, options);
}

struct job {
    ls_optimizer optimizer;
    int64_t batch; /* 0: BATCH */
    ls_result results[MAX_WORKERS];
    char digests[MAX_WORKERS][65];
};

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st = open_examples(LS_DATASET(.batch_size = job->batch ? job->batch : BATCH, .seed = 4), &data);
    if (!st) st = make_model(worker->strategy, job->optimizer, &model);
    if (!st)
        st = ls_model_fit(model, data, LS_FIT(.epochs = 3, .validation_data = data, .verbose = -1),
                          &job->results[worker->rank]);
    if (!st) st = ls_model_weights_sha256(model, job->digests[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static void run(struct job *job, int workers, int devices) {
    struct worker_cluster cluster = {.count = workers, .fn = train, .context = job};
    for (int i = 0; i < workers; i++) cluster.devices[i] = devices;
    run_workers_ok(&cluster);
    for (int i = 1; i < workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

TEST_EACH(every_layout_trains_to_the_same_bits, 3) {
    const ls_optimizer optimizers[] = {ls_sgd(0.3F), ls_adam(0.01F, .gradient_accumulation_steps = 2),
                                       ls_sgd(0.3F, .global_clipnorm = 0.1F)};
    struct job first = {.optimizer = optimizers[_i]}, job = first;
    fill(3);
    run(&first, 1, 4);
    run(&job, 2, 2);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    ck_assert(job.results[0].loss == first.results[0].loss && job.results[1].val_loss == first.results[0].val_loss);
    run(&job, 4, 1);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    ck_assert(job.results[3].metrics[0] == first.results[0].metrics[0]);
    fill(0);
    run(&job, 1, 4);
    ck_assert_str_ne(job.digests[0], first.digests[0]);
}

/* ---- workers that train apart ---- */

static const ls_local_sgd_options local_options = {.size = sizeof(local_options), .sync_every = 2};
static const ls_parameter_server_options async_options = {.size = sizeof(async_options), .consistency = LS_ASYNC};

static void run_apart(struct job *job, int workers, bool local) {
    struct worker_cluster cluster = {.count = workers, .devices = {2, 2, 2}, .fn = train, .context = job};
    if (local) cluster.local = &local_options;
    if (!local) cluster.stored = &async_options;
    cluster.servers = !local;
    run_workers_ok(&cluster);
}

/* A worker alone counts what mirrored training counts. */
TEST_EACH(workers_that_train_apart_count_their_own, 2) {
    struct job mirrored = {.optimizer = ls_sgd(0.3F)}, job = mirrored;
    fill(3);
    run(&mirrored, 1, 2);
    run_apart(&job, 1, _i == 0);
    ck_assert_str_eq(job.digests[0], mirrored.digests[0]);
    ck_assert(job.results[0].loss == mirrored.results[0].loss);
    run_apart(&job, 3, _i == 0);
    for (int i = 1; i < 3; i++) ck_assert_str_eq(job.digests[i], job.digests[0]);
    ck_assert(job.results[0].loss > 0.1 && job.results[0].loss < 2.5);
}

/* ---- delayed steps ---- */

static void run_delayed(struct job *job, int workers, int devices, int delay) {
    const ls_parameter_server_options delayed = {.size = sizeof(delayed), .consistency = LS_DELAYED, .delay = delay};
    struct worker_cluster cluster = {
        .count = workers, .fn = train, .context = job, .stored = &delayed, .servers = 1 + workers % 2};
    for (int i = 0; i < workers; i++) cluster.devices[i] = devices;
    run_workers_ok(&cluster);
    for (int i = 1; i < workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

/* Each step has its own number, however many are under way. The bits follow from the delay. */
TEST_EACH(delayed_steps_count_their_own, 3) {
    const ls_optimizer optimizers[] = {ls_sgd(0.3F), ls_adam(0.01F), ls_sgd(0.3F, .global_clipnorm = 0.1F)};
    struct job mirrored = {.optimizer = optimizers[_i]}, first = mirrored, job = mirrored;
    fill(3);
    run(&mirrored, 1, 4);
    run_delayed(&job, 2, 2, 0);
    ck_assert_str_eq(job.digests[0], mirrored.digests[0]);
    run_delayed(&first, 1, 4, 2);
    ck_assert_str_ne(first.digests[0], mirrored.digests[0]);
    run_delayed(&job, 2, 2, 2);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    ck_assert(job.results[1].loss == first.results[0].loss && job.results[0].val_loss == first.results[0].val_loss);
    run_delayed(&job, 4, 1, 2);
    ck_assert_str_eq(job.digests[0], first.digests[0]);
    ck_assert(job.results[3].metrics[0] == first.results[0].metrics[0]);
}

/* With a step an epoch nothing is under way when the next one begins: the numbers are those of mirrored training. */
TEST(a_delayed_step_is_divided_as_another_is) {
    struct job mirrored = {.optimizer = ls_sgd(0.3F), .batch = EXAMPLES}, delayed = mirrored;
    fill(3);
    run(&mirrored, 1, 2);
    run_delayed(&delayed, 2, 1, 3);
    ck_assert_double_le(fabs(delayed.results[0].loss - mirrored.results[0].loss), 1e-6);
    ck_assert_double_le(fabs(delayed.results[0].val_loss - mirrored.results[0].val_loss), 1e-6);
}

static const struct {
    ls_optimizer optimizer;
    float l2;
    const char *beside;
} refused[] = {{ls_adam(0.01F, .gradient_accumulation_steps = 2), 0, "beside gradient_accumulation_steps"},
               {ls_sgd(0.1F), 0.01F, "beside regularisers of kernels"}};

static ls_status train_refused(struct worker *worker) {
    const int *row = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st = open_examples(LS_DATASET(.batch_size = BATCH), &data);
    if (!st)
        st = ls_model_new(
            worker->strategy,
            LS_LAYERS(ls_embedding(IDS, 5), ls_dense(IDS, .per_position = true, .kernel_l2 = refused[*row].l2)),
            &model);
    if (!st) st = ls_model_compile(model, refused[*row].optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST_EACH(what_has_another_divisor_is_refused, COUNT_OF(refused)) {
    int row = _i;
    const ls_parameter_server_options delayed = {.size = sizeof(delayed), .consistency = LS_DELAYED, .delay = 1};
    struct worker_cluster cluster = {
        .count = 1, .devices = {1}, .fn = train_refused, .context = &row, .stored = &delayed, .servers = 1};
    fill(2);
    run_workers(&cluster);
    ck_assert_int_eq(cluster.workers[0].status, LS_UNIMPLEMENTED);
    ck_assert_msg(strstr(cluster.workers[0].error, "labels of -1, which do not count, beside ") != NULL &&
                      strstr(cluster.workers[0].error, refused[_i].beside) != NULL,
                  "%s", cluster.workers[0].error);
}

/* ---- the scale ---- */

static ls_result measure(int devices, int64_t batch, const ls_arrays *arrays) {
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    char list[4];
    (void)snprintf(list, sizeof(list), "%d", devices);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = list), &strategy));
    assert_ok(ls_dataset_from_arrays(arrays, LS_DATASET(.batch_size = batch, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(make_model(strategy, (ls_optimizer)ls_sgd(0.5F), &model));
    assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 6, .validation_data = data, .verbose = -1), &result));
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return result;
}

/* Examples without a label among others: as if only the others were there. On several replicas some have none. */
TEST_EACH(examples_without_a_label_change_nothing, 3) {
    enum { KEPT = 20 };
    static float padded[2 * KEPT][COUNT];
    static int32_t padded_ids[2 * KEPT][COUNT];
    fill(0);
    for (int i = 0; i < 2 * KEPT; i++)
        for (int t = 0; t < COUNT; t++) {
            padded_ids[i][t] = ids[i / 2][t];
            padded[i][t] = i % 2 ? -1 : next[i / 2][t];
        }
    ls_result alone = measure(1, 5,
                              LS_ARRAYS(.count = KEPT, .ids = &ids[0][0], .shape = LS_SHAPE(COUNT),
                                        .targets = &next[0][0], .target_shape = LS_SHAPE(COUNT)));
    ls_result among = measure(_i + 1, 10,
                              LS_ARRAYS(.count = 2 * KEPT, .ids = &padded_ids[0][0], .shape = LS_SHAPE(COUNT),
                                        .targets = &padded[0][0], .target_shape = LS_SHAPE(COUNT)));
    ck_assert_double_le(fabs(among.loss - alone.loss), 2e-5 * alone.loss);
    ck_assert_double_le(fabs(among.val_loss - alone.val_loss), 2e-5 * alone.val_loss);
    ck_assert_double_le(fabs(among.accuracy - alone.accuracy), 1e-9);
    ck_assert_double_le(fabs(among.metrics[1] - alone.metrics[1]), 1e-6);
    ck_assert_double_le(fabs(among.val_metrics[0] - exp(among.val_loss)), 1e-9 * exp(among.val_loss));
    ck_assert_double_le(fabs(among.metrics[0] - exp(among.metrics[2])), 1e-9 * among.metrics[0]);
    ck_assert(alone.loss > 0.1 && alone.loss < 2.2);
}

/* ---- refusals ---- */

TEST(a_single_label_of_less_than_0_stays_an_error) {
    ls_dataset *data = NULL;
    static const int32_t labels[] = {0, -1};
    static const float x[2] = {1, 2};
    assert_refused(ls_dataset_arrays(x, LS_SHAPE(1), labels, 2, 3, NULL, &data), "label -1 of example 1 is outside");
}

TEST(perplexity_is_of_a_cross_entropy_of_classes) {
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    const ls_optimizer sgd = ls_sgd(0.1F);
    assert_refused(
        ls_model_compile_with(model, sgd, LS_MEAN_SQUARED_ERROR, LS_COMPILE(.metrics = LS_METRICS(ls_perplexity()))),
        "metric perplexity");
    assert_refused(ls_model_compile_with(model, sgd, LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                         LS_COMPILE(.metrics = LS_METRICS(ls_perplexity()), .label_smoothing = 0.1F)),
                   "label_smoothing makes another loss");
    ls_model_free(model);
    ls_strategy_free(strategy);
}

TESTS("uncounted", .seconds = 60)
