/* A label that is no class, on devices without host memory (tests/far): the step fails as it does on the CPU, with the
 * same words on every worker, and changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 40, WIDTH = 6, CLASSES = 3, WORKERS = 2 };
#define SPOILED 20 /* the example, */
#define BAD     77 /* and its label */

struct job {
    ls_loss loss;
    ls_metric metrics[2];
    int batches; /* a step */
    struct worker_data {
        float features[EXAMPLES][WIDTH];
        int32_t labels[EXAMPLES];
    } data[WORKERS];
    struct failure {
        ls_status status;
        char error[1024], digest[65]; /* of the weights after it */
    } failures[WORKERS];
    /* of a worker that is alone: of an evaluation, and after a training that goes on with the label mended */
    char evaluation[1024], last[65];
};

static void fill(struct worker_data *data) {
    for (int i = 0; i < EXAMPLES; i++) {
        data->labels[i] = i % CLASSES;
        for (int j = 0; j < WIDTH; j++)
            data->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % CLASSES ? 1.0F : 0);
    }
}

/* After a training that has failed. */
static ls_status go_on(ls_model *model, ls_dataset *data, struct job *job) {
    ls_result result;
    ck_assert_int_eq(ls_model_evaluate(model, data, &result), LS_INVALID_ARGUMENT);
    (void)snprintf(job->evaluation, sizeof(job->evaluation), "%s", ls_error());
    job->data[0].labels[SPOILED] = 0;
    ls_status st = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), NULL);
    return st ? st : ls_model_weights_sha256(model, job->last);
}

static ls_status meet_it(struct worker *worker, ls_model *model, ls_dataset *data) {
    struct job *job = worker->context;
    struct failure *failure = &job->failures[worker->rank];
    job->data[worker->rank].labels[SPOILED] = BAD;
    failure->status = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), NULL);
    (void)snprintf(failure->error, sizeof(failure->error), "%s", ls_error());
    assert_ok(ls_model_weights_sha256(model, failure->digest));
    return worker->count > 1 ? failure->status : go_on(model, data, job);
}

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    struct worker_data *own = &job->data[worker->rank];
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill(own);
    ls_status st = ls_dataset_arrays(&own->features[0][0], LS_SHAPE(WIDTH), own->labels, EXAMPLES, CLASSES,
                                     LS_DATASET(.batch_size = 7, .seed = 5), &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(CLASSES)), &model);
    if (!st)
        st = ls_model_compile_with(model, ls_adam(0.01F, .gradient_accumulation_steps = job->batches), job->loss,
                                   LS_COMPILE(.metrics = job->metrics));
    if (!st) st = meet_it(worker, model, data);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static void run(const struct worker_cluster *layout, const char *kind, struct job *job) {
    struct worker_cluster cluster = *layout;
    cluster.kind = kind;
    cluster.fn = train;
    cluster.context = job;
    run_workers(&cluster);
    if (cluster.count == 1) ck_assert_msg(!cluster.workers[0].status, "%s", cluster.workers[0].error);
}

static void fails_alike(const struct worker_cluster *layout, const struct job *job) {
    struct job cpu = *job, far = *job;
    run(layout, "cpu", &cpu);
    run(layout, "gpu", &far);
    ck_assert_msg(strstr(cpu.failures[0].error, "has label 77, but the model has "), "%s", cpu.failures[0].error);
    for (int w = 0; w < layout->count; w++) {
        ck_assert_int_eq(far.failures[w].status, cpu.failures[w].status);
        ck_assert_str_eq(far.failures[w].error, cpu.failures[w].error);
        ck_assert_str_eq(far.failures[w].digest, cpu.failures[w].digest);
    }
    ck_assert_str_eq(far.evaluation, cpu.evaluation);
    ck_assert_str_eq(far.last, cpu.last);
}

#define SPARSE LS_SPARSE_CATEGORICAL_CROSSENTROPY

/* A step of one list of ops, a step in which the replicas meet, and a step of several batches. */
TEST(one_worker) {
    for (int devices = 1; devices <= 2; devices++) {
        const struct worker_cluster layout = {.count = 1, .devices = {devices}};
        fails_alike(&layout, &(struct job){.loss = SPARSE, .batches = 1});
        fails_alike(&layout, &(struct job){.loss = SPARSE, .batches = 3});
        fails_alike(&layout, &(struct job){.loss = SPARSE, .batches = 1, .metrics = {ls_top_k(2)}});
        fails_alike(&layout, &(struct job){.loss = LS_CATEGORICAL_CROSSENTROPY, .batches = 1});
        fails_alike(&layout, &(struct job){.loss = LS_MEAN_SQUARED_ERROR, .batches = 1});
    }
}

/* The one whose replica has the label, and the one who hears of it; added by NCCL, and by the host. */
TEST(several_workers) {
    const struct worker_cluster layout = {.count = WORKERS, .devices = {1, 1}};
    const struct job job = {.loss = SPARSE, .batches = 1};
    fails_alike(&layout, &job);
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_GROUP", "1", 1), 0);
    fails_alike(&layout, &job);
    (void)unsetenv("LOCKSTEP_FAR_NO_GROUP");
}

TESTS("far labels", .seconds = 120)
