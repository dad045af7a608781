/* A model that begins with Keras' weights: all of them on every worker, and what does not fit is one named error. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/shape.h"
#include "data/files.h"
#include "harness.h"
#include "strategy/workers.h"
#include "weights/arrays.h"
#include "weights/read.h"

#define FILE_NAME(name) WEIGHTS_GOLDEN "/" name

static const float examples[4][36] = {{1}, {2}, {3}, {4}};
static const int32_t labels[4] = {0, 1, 0, 1};

struct job {
    const char *path;   /* NULL: none */
    int classes, first; /* classes of the last layer; filters of the first one */
    bool skip_mismatch;
    bool not_chief; /* path is the others' alone */
    int matching;   /* out: variables with the file's values */
    char digests[MAX_WORKERS][65];
};

/* As tests/golden/weights.py makes it, for two classes. */
static ls_status make_model(ls_strategy *strategy, const struct job *job, ls_model **model) {
    ls_status status =
        ls_model_new(strategy,
                     LS_LAYERS(ls_conv2d(job->first, 3, .no_bias = true, .name = "Conv1"),
                               ls_batch_normalization(.name = "bn_Conv1"), ls_relu(), ls_depthwise_conv2d(3),
                               ls_batch_normalization(), ls_flatten(), ls_dropout(0.25F), ls_dense(3),
                               ls_dense(job->classes, .name = "predictions")),
                     model);
    if (!status && job->path && !(job->not_chief && ls_is_chief(strategy)))
        status = ls_model_load_weights(*model, job->path, LS_LOAD(.skip_mismatch = job->skip_mismatch));
    return status ? status : ls_model_compile(*model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* Keras' numbers of the variables, by our order: what is trained comes first. */
static const int numbers[] = {0, 1, 2, 5, 6, 7, 8, 11, 12, 13, 14, 3, 4, 9, 10};

static int count_matching(const ls_model *model) {
    int matching = 0;
    for (int k = 0; k < ls_model_num_variables(model); k++) {
        const char *name;
        const float *data;
        ls_shape shape;
        bool same = true;
        assert_ok(ls_model_variable(model, k, &name, &shape, &data));
        for (int64_t i = 0; i < ls_shape_count(&shape); i++) same &= data[i] == (float)numbers[k] + (float)i / 16;
        matching += same;
    }
    return matching;
}

static ls_status evaluate(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status =
        ls_dataset_arrays(&examples[0][0], LS_SHAPE(6, 6, 1), labels, 4, 2, LS_DATASET(.batch_size = 4), &data);
    if (!status) status = make_model(worker->strategy, job, &model);
    if (!status) status = ls_model_evaluate(model, data, NULL);
    if (!status) status = ls_model_weights_sha256(model, job->digests[worker->rank]);
    if (!status && worker->rank == worker->count - 1) job->matching = count_matching(model);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static const char *const files[] = {FILE_NAME("keras3.h5"),        FILE_NAME("keras2.h5"),   FILE_NAME("whole.h5"),
                                    FILE_NAME("named.weights.h5"), FILE_NAME("whole.keras"), FILE_NAME("weights.npz")};
enum { FILES = sizeof(files) / sizeof(files[0]) };

/* The last worker has the weights of the file, which the chief alone can read. */
TEST_EACH(all_workers_begin_alike, FILES) {
    struct job job = {.path = files[_i], .classes = 2, .first = 2};
    struct worker_cluster cluster = {.count = 2, .devices = {1, 2}, .fn = evaluate, .context = &job};
    run_workers_ok(&cluster);
    ck_assert_int_eq(job.matching, 15);
    ck_assert_str_eq(job.digests[0], job.digests[1]);
}

TEST(what_does_not_fit_is_named) {
    static const struct {
        const char *path, *says;
        int classes, first;
    } bad[] = {
        {FILE_NAME("keras3.h5"), "variable 'predictions/kernel' has shape (3, 2), the model's has (3, 5)", 5, 2},
        {FILE_NAME("keras3.h5"), "variable 'Conv1/kernel' has shape (3, 3, 1, 2), the model's has (3, 3, 1, 4)", 2, 4},
        {FILE_NAME("missing.h5"), "missing.h5", 2, 2},
        {FILE_NAME("other.npz"), "has no variable 'Conv1/kernel' (3, 3, 1, 2)", 2, 2},
        {FILE_NAME("surplus.npz"), "has variable 'surplus/bias' (4), the model has not", 2, 2},
        {FILE_NAME("chunks.h5"), "has no variable 'Conv1/kernel'", 2, 2},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct job job = {.path = bad[i].path, .classes = bad[i].classes, .first = bad[i].first};
        struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = evaluate, .context = &job};
        run_workers(&cluster);
        ck_assert_msg(strstr(cluster.workers[0].error, bad[i].says), "%s", cluster.workers[0].error);
        ck_assert_int_ne(cluster.workers[1].status, LS_OK);
        ck_assert_msg(strstr(cluster.workers[1].error, bad[i].says), "%s", cluster.workers[1].error);
    }
}

TEST(all_load_or_none) {
    struct job job = {.path = FILE_NAME("weights.npz"), .classes = 2, .first = 2, .not_chief = true};
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = evaluate, .context = &job};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "initial_weights differs"), "%s", cluster.workers[i].error);
        ck_assert_ptr_nonnull(strstr(cluster.workers[i].error, "'drawn'"));
    }
}

/* Another head and a file of more and less: what fits is taken. */
TEST(what_does_not_fit_is_skipped) {
    struct job job = {.path = FILE_NAME("surplus.npz"), .classes = 5, .first = 2, .skip_mismatch = true};
    struct worker_cluster cluster = {.count = 1, .devices = {1}, .fn = evaluate, .context = &job};
    run_workers_ok(&cluster);
    ck_assert_int_eq(job.matching, 13);
    job.path = FILE_NAME("other.npz");
    run_workers(&cluster);
    ck_assert_int_eq(cluster.workers[0].status, LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(cluster.workers[0].error, "has none of the model's 15 variables"), "%s",
                  cluster.workers[0].error);
}

/* The file with another type in the place of one variable's: "F32" becomes "F9Z". */
static void write_other_type(const char *path, const char *name) {
    struct ls_weights weights;
    uint8_t *bytes;
    size_t size;
    char start[200];
    assert_ok(ls_weights_read(FILE_NAME("weights.npz"), &weights));
    assert_ok(ls_weights_arrays_write(path, &weights));
    ls_weights_free(&weights);
    assert_ok(ls_file_read(path, &bytes, &size));
    int length = snprintf(start, sizeof(start), "\"%s\":{\"dtype\":\"", name);
    uint8_t *at = memmem(bytes, size, start, (size_t)length);
    ck_assert_ptr_nonnull(at);
    memcpy(at + length, "F9Z", 3);
    assert_ok(ls_file_write(path, bytes, size));
    ls_free(bytes);
}

/* A variable whose type is not known is one error by its name, or keeps its value. */
TEST(a_type_that_is_not_read_refuses_its_variable_alone) {
    static const char *const names[] = {"Conv1/kernel", "bn_Conv1/beta", "predictions/bias"};
    char folder[] = "/tmp/lockstep-initial-XXXXXX", path[64], wanted[100];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/w.safetensors", folder);
    for (int i = 0; i < 3; i++) {
        struct job job = {.path = path, .classes = 2, .first = 2};
        struct worker_cluster cluster = {.count = 1, .devices = {1}, .fn = evaluate, .context = &job};
        write_other_type(path, names[i]);
        run_workers(&cluster);
        (void)snprintf(wanted, sizeof(wanted), "variable '%s' is of type F9Z", names[i]);
        ck_assert_int_eq(cluster.workers[0].status, LS_UNIMPLEMENTED);
        ck_assert_msg(strstr(cluster.workers[0].error, wanted), "%s", cluster.workers[0].error);
        job.skip_mismatch = true;
        run_workers_ok(&cluster);
        ck_assert_int_eq(job.matching, 14);
    }
    (void)unlink(path);
    (void)rmdir(folder);
}

/* Two files with one model of two workers, in turns, after training as well: what is measured is what was loaded. */
static ls_status load_in_turns(struct worker *worker) {
    static const char *const paths[] = {FILE_NAME("keras3.h5"), FILE_NAME("weights.npz")};
    struct job job = {.classes = 2, .first = 2};
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status =
        ls_dataset_arrays(&examples[0][0], LS_SHAPE(6, 6, 1), labels, 4, 2, LS_DATASET(.batch_size = 4), &data);
    if (!status) status = make_model(worker->strategy, &job, &model);
    for (int i = 0; !status && i < 4; i++) {
        status = ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), NULL);
        if (!status) ck_assert_int_lt(count_matching(model), 15);
        if (!status) status = ls_model_load_weights(model, paths[i % 2], NULL);
        if (!status) status = ls_model_evaluate(model, data, NULL);
        if (!status) ck_assert_int_eq(count_matching(model), 15);
    }
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

TEST(loading_at_any_time) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = load_in_turns};
    run_workers_ok(&cluster);
}

static ls_status make_counted(ls_strategy *strategy, const char *first, const char *second, uint64_t seed,
                              ls_model **model) {
    ls_status status = ls_model_new(
        strategy, LS_LAYERS(ls_flatten(), ls_dense(3, LS_RELU, .name = first), ls_dense(2, .name = second)), model);
    if (!status) status = ls_model_seed(*model, seed);
    return status ? status : ls_model_compile(*model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* The second model of a process of Keras: its layers are "dense_3" and "dense_4". One that has lost a layer is none. */
TEST(names_that_were_counted_on_are_found) {
    char path[] = "/tmp/lockstep-counted-XXXXXX.npz";
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *models[3] = {NULL};
    static const char *const names[3][2] = {{"dense_3", "dense_4"}, {NULL, NULL}, {"dense", "dense_2"}};
    int file = mkstemps(path, 4);
    ck_assert_int_ge(file, 0);
    (void)close(file);
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    assert_ok(ls_dataset_arrays(&examples[0][0], LS_SHAPE(6, 6, 1), labels, 4, 2, NULL, &data));
    for (int i = 0; i < 3; i++) assert_ok(make_counted(strategy, names[i][0], names[i][1], (uint64_t)i, &models[i]));
    assert_ok(ls_model_evaluate(models[0], data, NULL));
    assert_ok(ls_model_save_weights(models[0], path));
    assert_ok(ls_model_load_weights(models[1], path, NULL));
    assert_ok(ls_model_evaluate(models[1], data, NULL));
    for (int k = 0; k < ls_model_num_variables(models[0]); k++) {
        const char *name;
        const float *values[2];
        ls_shape shape;
        for (int i = 0; i < 2; i++) assert_ok(ls_model_variable(models[i], k, &name, &shape, &values[i]));
        ck_assert_mem_eq(values[0], values[1], (size_t)ls_shape_count(&shape) * sizeof(float));
    }
    assert_ok(ls_model_load_weights(models[2], path, NULL));
    assert_refused(ls_model_evaluate(models[2], data, NULL), "has no variable 'dense/");
    for (int i = 0; i < 3; i++) ls_model_free(models[i]);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    (void)unlink(path);
}

TEST(loading_comes_first) {
    struct job job = {.classes = 2, .first = 2};
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    assert_ok(ls_dataset_arrays(&examples[0][0], LS_SHAPE(6, 6, 1), labels, 4, 2, NULL, &data));
    assert_ok(make_model(strategy, &job, &model));
    ck_assert_int_eq(ls_model_load_weights(model, "", NULL), LS_INVALID_ARGUMENT);
    assert_ok(ls_model_load_weights(model, files[0], NULL));
    assert_ok(ls_model_load_weights(model, files[1], NULL));
    assert_ok(ls_model_evaluate(model, data, NULL));
    ck_assert_int_eq(count_matching(model), 15);
    char before[65], after[65];
    assert_ok(ls_model_weights_sha256(model, before));
    assert_ok(ls_model_load_weights(model, FILE_NAME("other.npz"), NULL));
    assert_refused(ls_model_evaluate(model, data, NULL), "skip_mismatch");
    assert_ok(ls_model_load_weights(model, files[0], NULL));
    assert_ok(ls_model_evaluate(model, data, NULL));
    assert_ok(ls_model_weights_sha256(model, after));
    ck_assert_str_eq(after, before);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

TESTS("weights", .seconds = 120)
