/* Synchronized batch normalization: Keras' numbers on two replicas; a replica that fails between two exchanges is one
 * error for all, and the step is as if it had not been. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/shape.h"
#include "golden/golden.h"
#include "harness.h"
#include "strategy/workers.h"
#include "weights/arrays.h"
#include "weights/weights.h"

/* ---- Keras ---- */

enum { BATCH = 8, STEPS = 10 };

struct keras {
    struct golden *golden;
    char path[64]; /* the initial weights */
    int32_t labels[BATCH];
    double losses[STEPS];
};

/* By name, as a file of weights has them. */
static const char *const names[] = {"conv/bias",          "conv/kernel",           "dense/bias",  "dense/kernel",
                                    "dense_1/bias",       "dense_1/kernel",        "norm/beta",   "norm/gamma",
                                    "norm/moving_mean",   "norm/moving_variance",  "norm_1/beta", "norm_1/gamma",
                                    "norm_1/moving_mean", "norm_1/moving_variance"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void add_weight(struct ls_weights *weights, const char *name, const struct golden_tensor *tensor) {
    const struct ls_weight weight = {
        .name = (char *)(uintptr_t)name, .shape = tensor->shape, .values = (const uint8_t *)tensor->values};
    assert_ok(ls_weights_add(weights, &weight));
}

static void write_weights(struct ls_weights *weights, char path[64]) {
    (void)snprintf(path, 64, "/tmp/lockstep-synchronized-%d.npz", (int)getpid());
    assert_ok(ls_weights_arrays_write(path, weights));
    ls_weights_free(weights);
}

static void write_initial(struct keras *keras) {
    struct ls_weights weights = {0};
    for (int i = 0; i < NAMES; i++) add_weight(&weights, names[i], golden_find(keras->golden, "initial/%s", names[i]));
    write_weights(&weights, keras->path);
}

static ls_status make_keras(ls_strategy *strategy, const struct keras *keras, ls_model **model) {
    ls_status status =
        ls_model_new(strategy,
                     LS_LAYERS(ls_conv2d(4, 3, .name = "conv"),
                               ls_batch_normalization(.synchronized = true, .momentum = 0.9F, .name = "norm"),
                               ls_relu(), ls_flatten(), ls_dense(5, .name = "dense"),
                               ls_batch_normalization(.synchronized = true, .momentum = 0.5F, .name = "norm_1"),
                               ls_relu(), ls_dense(3, .name = "dense_1")),
                     model);
    if (!status) status = ls_model_load_weights(*model, keras->path, NULL);
    return status ? status : ls_model_compile(*model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status record_loss(void *context, int epoch, const ls_result *result) {
    struct keras *keras = context;
    keras->losses[epoch] = result->loss;
    return LS_OK;
}

static void compare_final(const struct keras *keras, const ls_model *model) {
    for (int k = 0; k < ls_model_num_variables(model); k++) {
        const char *name;
        const float *data;
        ls_shape shape;
        double scale = 0;
        assert_ok(ls_model_variable(model, k, &name, &shape, &data));
        const struct golden_tensor *wanted = golden_find(keras->golden, "final/%s", name);
        ck_assert_int_eq(ls_shape_count(&shape), wanted->count);
        for (int64_t i = 0; i < wanted->count; i++) scale = fmax(scale, fabs((double)wanted->values[i]));
        for (int64_t i = 0; i < wanted->count; i++)
            ck_assert_msg(fabs((double)(data[i] - wanted->values[i])) <= 2e-5 * scale, "%s[%d]: %.9g, Keras has %.9g",
                          name, (int)i, (double)data[i], (double)wanted->values[i]);
    }
}

static ls_status train_as_keras(struct worker *worker) {
    struct keras *keras = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status = ls_dataset_arrays(golden_find(keras->golden, "x")->values, LS_SHAPE(6, 5, 3), keras->labels,
                                         BATCH, 3, LS_DATASET(.batch_size = BATCH, .shuffle = LS_SHUFFLE_NEVER), &data);
    if (!status) status = make_keras(worker->strategy, keras, &model);
    if (!status)
        status = ls_model_fit(
            model, data,
            LS_FIT(.epochs = STEPS, .verbose = -1, .on_epoch = worker->rank ? NULL : record_loss, .context = keras),
            NULL);
    if (!status) compare_final(keras, model);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

TEST_EACH(as_keras, 2) {
    static const struct worker_cluster layouts[] = {{.count = 1, .devices = {2}}, {.count = 2, .devices = {1, 1}}};
    struct keras keras = {.golden = golden_open("synchronized.txt")};
    struct worker_cluster cluster = layouts[_i];
    cluster.fn = train_as_keras;
    cluster.context = &keras;
    for (int i = 0; i < BATCH; i++) keras.labels[i] = (int32_t)golden_find(keras.golden, "labels")->values[i];
    write_initial(&keras);
    run_workers_ok(&cluster);
    for (int i = 0; i < STEPS; i++) {
        double wanted = (double)golden_find(keras.golden, "losses")->values[i];
        ck_assert_msg(fabs(keras.losses[i] - wanted) <= 1e-6 * wanted * (1 + i), "step %d: loss %.9g, Keras has %.9g",
                      i, keras.losses[i], wanted);
    }
    ck_assert_int_eq(unlink(keras.path), 0);
    golden_close(keras.golden);
}

/* ---- TensorFlow's fused kernel ---- */

static void compare_statistic(const struct golden *golden, const ls_model *model, const char *name,
                              const char *wanted) {
    const struct golden_tensor *tensor = golden_find(golden, "fused/%s", wanted);
    for (int k = 0; k < ls_model_num_variables(model); k++) {
        const char *there;
        const float *data;
        ls_shape shape;
        assert_ok(ls_model_variable(model, k, &there, &shape, &data));
        if (strcmp(there, name) != 0) continue;
        for (int64_t i = 0; i < tensor->count; i++)
            ck_assert_float_eq_tol(data[i], tensor->values[i], 2e-6F * tensor->values[i] + 1e-6F);
        return;
    }
    ck_abort_msg("no %s", name);
}

/* Two examples, whose variance is corrected for their 12 values a channel; one replica, or two synchronized ones. */
TEST_EACH(as_the_fused_kernel, 2) {
    static const int32_t labels[] = {0, 1};
    struct golden *golden = golden_open("synchronized.txt");
    struct ls_weights weights = {0};
    char path[64];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    add_weight(&weights, "norm/moving_mean", golden_find(golden, "fused/mean"));
    add_weight(&weights, "norm/moving_variance", golden_find(golden, "fused/variance"));
    write_weights(&weights, path);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = _i ? "2" : "1"), &strategy));
    assert_ok(ls_dataset_arrays(golden_find(golden, "fused/x")->values, LS_SHAPE(3, 2, 4), labels, 2, 2,
                                LS_DATASET(.batch_size = 2), &data));
    assert_ok(ls_model_new(
        strategy,
        LS_LAYERS(ls_batch_normalization(.fused = true, .synchronized = true, .momentum = 0.75F, .name = "norm"),
                  ls_flatten(), ls_dense(2)),
        &model));
    assert_ok(ls_model_load_weights(model, path, LS_LOAD(.skip_mismatch = true)));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL));
    compare_statistic(golden, model, "norm/moving_mean", "new_mean");
    compare_statistic(golden, model, "norm/moving_variance", "new_variance");
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    ck_assert_int_eq(unlink(path), 0);
    golden_close(golden);
}

/* ---- failures ---- */

enum { EXAMPLES = 24, WIDTH = 6 };

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

static void fill_toy(struct toy *toy) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++) toy->features[i][j] = (float)((i * 5 + j * 3) % 7) + (j == i % 3 ? 1.0F : 0);
    }
}

static ls_status open_toy(struct toy *toy, ls_dataset **data) {
    return ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                             LS_DATASET(.batch_size = 8, .shuffle = LS_SHUFFLE_NEVER), data);
}

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy,
                                    LS_LAYERS(ls_dense(5), ls_batch_normalization(.synchronized = true), ls_relu(),
                                              ls_dense(3), ls_batch_normalization(.synchronized = true)),
                                    model);
    return status ? status : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* One replica meets a label that is no class, in the loss: the others wait for it in the first exchange of the backward
 * pass. Afterwards training goes on as if nothing had been. */
TEST(a_step_is_a_transaction) {
    struct toy toy, broken;
    char digests[2][65];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL, *bad = NULL;
    fill_toy(&toy);
    fill_toy(&broken);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "3"), &strategy));
    assert_ok(open_toy(&toy, &data));
    assert_ok(open_toy(&broken, &bad));
    broken.labels[3] = 77; /* the second replica's, behind the back of the dataset */
    for (int i = 0; i < 2; i++) {
        ls_model *model = NULL;
        assert_ok(make_model(strategy, &model));
        assert_ok(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL));
        if (i) ck_assert_int_ne(ls_model_fit(model, bad, LS_FIT(.verbose = -1), NULL), LS_OK);
        if (i) ck_assert_msg(strstr(ls_error(), "replica 1") && strstr(ls_error(), "77"), "%s", ls_error());
        assert_ok(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL));
        assert_ok(ls_model_weights_sha256(model, digests[i]));
        ls_model_free(model);
    }
    ck_assert_str_eq(digests[0], digests[1]);
    ls_dataset_free(data);
    ls_dataset_free(bad);
    ls_strategy_free(strategy);
}

/* After the first epoch, behind the back of the dataset. */
static ls_status break_labels(void *context, int epoch, const ls_result *result) {
    struct toy *toy = context;
    (void)epoch;
    (void)result;
    for (int i = 8; i < 16; i++) toy->labels[i] = 77;
    return LS_OK;
}

static ls_status train_with_a_bad_label(struct worker *worker) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    bool bad = worker->rank == *(int *)worker->context;
    fill_toy(&toy);
    ls_status status = open_toy(&toy, &data);
    if (!status) status = make_model(worker->strategy, &model);
    if (!status)
        status = ls_model_fit(
            model, data, LS_FIT(.epochs = 2, .verbose = -1, .on_epoch = bad ? break_labels : NULL, .context = &toy),
            NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

/* Either worker's replicas fail: both workers end with the cause, and nobody waits. */
TEST_EACH(the_cause_reaches_all, 2) {
    int rank = _i;
    struct worker_cluster cluster = {.count = 2, .devices = {2, 2}, .fn = train_with_a_bad_label, .context = &rank};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(cluster.workers[i].status, LS_OK);
        ck_assert_msg(strstr(cluster.workers[i].error, "77"), "%d: %s", i, cluster.workers[i].error);
    }
}

TESTS("synchronized", .seconds = 120)
