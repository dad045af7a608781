/* The second promise: with AUTO the bits of a training run do not depend on how the replicas are laid out on workers,
 * nor on the cross-device ops, nor on having been run before; and every layout, RING too, follows one replica's losses.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

enum { STEPS = SANITIZED_THREADS ? 8 : SANITIZED ? 20 : 100, VALIDATED = SANITIZED ? 34 : 100 };

struct job {
    int64_t batch, limit, per_epoch; /* per_epoch 0: to the end of the data, epochs passes */
    int epochs;
    bool convolutions; /* instead of a dense network: with batch norm, a residual, dropout */
    bool synchronized; /* its batch norm; no dropout then, which every replica draws for itself */
    ls_optimizer optimizer;
    double losses[STEPS + 1]; /* of each epoch, from rank 0 */
    double val_loss;
    char digests[MAX_WORKERS][65];
};

static ls_status record_loss(void *context, int epoch, const ls_result *result) {
    struct worker *worker = context;
    struct job *job = worker->context;
    if (worker->rank == 0 && epoch < STEPS) job->losses[epoch] = result->loss;
    if (worker->rank == 0) job->val_loss = result->val_loss;
    return LS_OK;
}

static ls_status new_model(ls_strategy *strategy, const struct job *job, ls_model **model) {
    bool all = job->synchronized;
    if (!job->convolutions) return ls_model_new(strategy, LS_LAYERS(ls_dense(31, LS_RELU), ls_dense(10)), model);
    return ls_model_new(
        strategy,
        LS_LAYERS(ls_conv2d(6, 3, 3, LS_SAME, .name = "stem"),
                  ls_batch_normalization(.synchronized = all, .fused = all), ls_relu6(),
                  ls_depthwise_conv2d(3, 1, LS_SAME), ls_batch_normalization(.momentum = 0.9F, .synchronized = all),
                  ls_dropout(all ? 0 : 0.2F), ls_add("stem"), ls_relu(), ls_max_pooling2d(2), ls_dense(10)),
        model);
}

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    ls_status st = ls_dataset_digits(LS_DATASET(.batch_size = job->batch, .limit = job->limit, .seed = 7), &data);
    if (!st) st = ls_dataset_digits(LS_DATASET(.batch_size = 33, .limit = VALIDATED, .split = LS_TEST), &validation);
    if (!st) st = new_model(worker->strategy, job, &model);
    if (!st) st = ls_model_compile(model, job->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st)
        st =
            ls_model_fit(model, data,
                         LS_FIT(.epochs = job->epochs, .steps_per_epoch = job->per_epoch, .validation_data = validation,
                                .verbose = -1, .on_epoch = record_loss, .context = worker),
                         NULL);
    if (!st) st = ls_model_weights_sha256(model, job->digests[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return st;
}

struct layout {
    int workers, devices[4];
    ls_communication communication;
    ls_cross_device_ops cross_device_ops;
};

static void run_layout(const struct layout *layout, struct job *job) {
    struct worker_cluster cluster = {.count = layout->workers, .fn = train, .context = job};
    cluster.options.communication = layout->communication;
    cluster.options.cross_device_ops = layout->cross_device_ops;
    memcpy(cluster.devices, layout->devices, sizeof(layout->devices));
    run_workers_ok(&cluster);
    for (int i = 1; i < layout->workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

static const struct layout four[] = {
    {1, {4}, LS_AUTO, LS_HIERARCHICAL_COPY},    {1, {4}, LS_AUTO, LS_REDUCTION_TO_ONE_DEVICE},
    {2, {2, 2}, LS_AUTO, LS_CROSS_DEVICE_AUTO}, {4, {1, 1, 1, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
    {2, {3, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO}, {4, {1, 1, 1, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
};
static const struct layout three[] = {
    {1, {3}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
    {3, {1, 1, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
    {2, {1, 2}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
    {2, {2, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
};

/* A batch that 3 and 4 do not divide (26) and a short last one (420 = 16 * 26 + 4), twice over the data. Under a
 * sanitizer every second or third layout runs, and the next time others. */
static void same_bits(const struct layout *layouts, size_t count, const struct job *job_of) {
    enum { ONE_OF = SANITIZED_THREADS ? 3 : SANITIZED ? 2 : 1 };
    static size_t turn;
    struct job whole = *job_of;
    whole.batch = 26;
    whole.limit = SANITIZED ? 3 * 26 + 4 : 420;
    whole.epochs = 2;
    struct job first = whole;
    run_layout(&layouts[0], &first);
    for (size_t i = 1 + turn++ % ONE_OF; i < count; i += ONE_OF) {
        struct job job = whole;
        run_layout(&layouts[i], &job);
        ck_assert_msg(!strcmp(job.digests[0], first.digests[0]), "layout %zu gives other weights than layout 0", i);
        ck_assert_double_eq(job.losses[1], first.losses[1]);
        ck_assert_double_eq(job.val_loss, first.val_loss);
    }
}

TEST(four_replicas_same_bits) {
    same_bits(four, sizeof(four) / sizeof(four[0]), &(struct job){.optimizer = ls_sgd(0.1F, .momentum = 0.9F)});
}

TEST(three_replicas_same_bits) {
    same_bits(three, sizeof(three) / sizeof(three[0]), &(struct job){.optimizer = ls_adam(0.001F)});
}

/* Moving statistics are variables like others, and dropout follows the replica's number. */
TEST(convolutions_same_bits) {
    const struct job job = {.optimizer = ls_adam(0.001F), .convolutions = true};
    same_bits(four, sizeof(four) / sizeof(four[0]), &job);
    same_bits(three, sizeof(three) / sizeof(three[0]), &job);
}

/* Statistics of the whole batch, in the middle of a step. */
TEST(synchronized_same_bits) {
    const struct job job = {.optimizer = ls_adam(0.001F), .convolutions = true, .synchronized = true};
    same_bits(four, sizeof(four) / sizeof(four[0]), &job);
    same_bits(three, sizeof(three) / sizeof(three[0]), &job);
}

/* One replica computes the same from the whole batch. Without synchronization the result differs. */
TEST(synchronized_is_one_big_batch) {
    static const struct layout layouts[] = {{1, {1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
                                            {2, {2, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
                                            {1, {4}, LS_AUTO, LS_CROSS_DEVICE_AUTO}};
    const struct job whole = {.batch = 26,
                              .limit = 420,
                              .epochs = SANITIZED ? 4 : 20,
                              .per_epoch = 1,
                              .convolutions = true,
                              .synchronized = true,
                              .optimizer = ls_sgd(0.05F)};
    struct job one = whole, each = whole;
    run_layout(&layouts[0], &one);
    for (size_t i = 1; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        struct job job = whole;
        run_layout(&layouts[i], &job);
        for (int step = 0; step < whole.epochs; step++)
            ck_assert_msg(fabs(job.losses[step] - one.losses[step]) <= 2e-5 * fabs(one.losses[step]),
                          "layout %zu, step %d: loss %.9g, one replica has %.9g", i, step, job.losses[step],
                          one.losses[step]);
        ck_assert_double_eq_tol(job.val_loss, one.val_loss, 2e-5 * one.val_loss);
    }
    each.synchronized = false;
    run_layout(&layouts[1], &each);
    ck_assert_double_gt(fabs(each.losses[0] - one.losses[0]), 1e-3 * one.losses[0]);
}

/* Norms are of what all replicas have added up. */
TEST(norms_same_bits) {
    const struct job lamb = {.optimizer = ls_lamb(0.01F, .weight_decay = 0.01F, .global_clipnorm = 0.5F)};
    const struct job rmsprop = {
        .optimizer = ls_rmsprop(0.001F, .momentum = 0.5F, .centered = true, .clipnorm = 0.1F,
                                .schedule = {.kind = LS_COSINE_DECAY, .decay_steps = 20, .warmup_steps = 5})};
    same_bits(four, sizeof(four) / sizeof(four[0]), &lamb);
    same_bits(three, sizeof(three) / sizeof(three[0]), &rmsprop);
}

/* Three batches a step, the epochs' last ones with fewer; moving statistics and dropout, or exchanges, too. */
TEST(accumulation_same_bits) {
    struct job job = {.optimizer =
                          ls_sgd(0.05F, .momentum = 0.9F, .gradient_accumulation_steps = 3, .global_clipnorm = 1),
                      .convolutions = true};
    same_bits(four, sizeof(four) / sizeof(four[0]), &job);
    job.synchronized = true;
    same_bits(three, sizeof(three) / sizeof(three[0]), &job);
}

/* A last batch of 2 examples for 4 replicas: two of them have nothing to do. */
TEST(fewer_examples_than_replicas) {
    struct job one = {.batch = 8, .limit = 42, .epochs = 2, .optimizer = ls_sgd(0.1F)}, other = one;
    run_layout(&four[0], &one);
    run_layout(&four[3], &other);
    ck_assert_str_eq(one.digests[0], other.digests[0]);
    one.convolutions = other.convolutions = true;
    run_layout(&four[0], &one);
    run_layout(&four[3], &other);
    ck_assert_str_eq(one.digests[0], other.digests[0]);
    one.synchronized = other.synchronized = true;
    run_layout(&four[0], &one);
    run_layout(&four[3], &other);
    ck_assert_str_eq(one.digests[0], other.digests[0]);
}

/* Step by step (an epoch of one step each), against one replica with the same global batch. */
TEST(losses_follow_one_replica) {
    static const struct layout layouts[] = {
        {1, {1}, LS_AUTO, LS_CROSS_DEVICE_AUTO},          {1, {3}, LS_AUTO, LS_CROSS_DEVICE_AUTO},
        {4, {1, 1, 1, 1}, LS_AUTO, LS_CROSS_DEVICE_AUTO}, {2, {1, 2}, LS_RING, LS_CROSS_DEVICE_AUTO},
        {4, {1, 1, 1, 1}, LS_RING, LS_CROSS_DEVICE_AUTO},
    };
    struct job one = {0};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        struct job job = {.batch = 26, .limit = 420, .epochs = STEPS, .per_epoch = 1, .optimizer = ls_sgd(0.05F)};
        run_layout(&layouts[i], &job);
        if (i == 0) one = job;
        for (int step = 0; step < STEPS; step++)
            ck_assert_msg(fabs(job.losses[step] - one.losses[step]) <= 1e-5 * fabs(one.losses[step]),
                          "layout %zu, step %d: loss %.9g, one replica has %.9g", i, step, job.losses[step],
                          one.losses[step]);
    }
    ck_assert_double_lt(one.losses[STEPS - 1], (SANITIZED_THREADS ? 1
                                                : SANITIZED       ? 0.95
                                                                  : 0.7) *
                                                   one.losses[0]); /* it does learn */
}

/* RING promises the same bits for the same layout. */
TEST(ring_repeats_itself) {
    static const struct layout ring = {3, {1, 1, 1}, LS_RING, LS_CROSS_DEVICE_AUTO};
    struct job one = {.batch = 26, .limit = 420, .epochs = 1, .optimizer = ls_sgd(0.1F)}, two = one;
    run_layout(&ring, &one);
    run_layout(&ring, &two);
    ck_assert_str_eq(one.digests[0], two.digests[0]);
}

TESTS("layout", .seconds = 300)
