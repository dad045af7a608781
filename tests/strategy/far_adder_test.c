/* The adder of gradients of devices without host memory (tests/far) is part of the conditions of the bits. A training
 * that goes on from a checkpoint with another adder says so. With the same one it does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 40, WIDTH = 6, CLASSES = 3, WORKERS = 2, DEVICES = 2, EPOCHS = 4 };
#define BAD 77 /* no class: the step that meets it fails */

struct job {
    char folder[64], lines[8192]; /* lines: of rank 0's log */
    bool broken;                  /* after its second epoch, when the checkpoint of the first is settled */
    struct data {
        float features[EXAMPLES][WIDTH];
        int32_t labels[EXAMPLES];
    } data[WORKERS];
};

static void hear(void *context, ls_log_level level, const char *line) {
    struct job *job = context;
    size_t length = strlen(job->lines);
    if (level == LS_LOG_WARNING) (void)snprintf(job->lines + length, sizeof(job->lines) - length, "%s\n", line);
}

static ls_status end_of_epoch(void *context, int epoch, const ls_result *result) {
    const struct worker *worker = context;
    struct job *job = worker->context;
    ck_assert_int_gt(result->steps, 0);
    for (int i = 0; job->broken && epoch == 1 && i < EXAMPLES; i++) job->data[worker->rank].labels[i] = BAD;
    return LS_OK;
}

static void fill(struct data *data) {
    for (int i = 0; i < EXAMPLES; i++) {
        data->labels[i] = i % CLASSES;
        for (int j = 0; j < WIDTH; j++) data->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F;
    }
}

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    struct data *own = &job->data[worker->rank];
    const ls_checkpoint_options checkpoint = {.size = sizeof(checkpoint), .folder = job->folder};
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill(own);
    ls_status st = ls_dataset_arrays(&own->features[0][0], LS_SHAPE(WIDTH), own->labels, EXAMPLES, CLASSES,
                                     LS_DATASET(.batch_size = 8, .seed = 5), &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(CLASSES)), &model);
    if (!st) st = ls_model_compile(model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st)
        st = ls_model_fit(model, data,
                          LS_FIT(.epochs = EPOCHS, .verbose = -1, .checkpoint = &checkpoint, .on_epoch = end_of_epoch,
                                 .context = worker),
                          NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

/* name=value is in the environment meanwhile, where there is a name. */
static void run(struct job *job, int workers, const char *name, const char *value) {
    struct worker_cluster cluster = {
        .count = workers, .devices = {DEVICES, DEVICES}, .kind = "gpu", .fn = train, .context = job};
    cluster.options.log = hear;
    cluster.options.log_context = job;
    if (name) ck_assert_int_eq(setenv(name, value, 1), 0);
    if (job->broken)
        run_workers(&cluster);
    else
        run_workers_ok(&cluster);
    if (name) (void)unsetenv(name);
    for (int w = 0; job->broken && w < workers; w++) ck_assert_int_ne(cluster.workers[w].status, LS_OK);
}

#define HOST  "LOCKSTEP_FAR_NO_GROUP", "1"
#define NEWER "LOCKSTEP_FAR_NCCL_VERSION", "23107"
#define PLAIN NULL, NULL

static const struct {
    const char *first, *first_value, *then, *then_value;
    const char *said; /* NULL: nothing is */
} cases[] = {
    {PLAIN, PLAIN, NULL},
    {HOST, HOST, NULL},
    {PLAIN, HOST, "gradients differs: 'nccl 2.28.9' there, 'host' here"},
    {HOST, PLAIN, "gradients differs: 'host' there, 'nccl 2.28.9' here"},
    {PLAIN, NEWER, "gradients differs: 'nccl 2.28.9' there, 'nccl 2.31.7' here"},
};

TEST_EACH(a_checkpoint_knows, 2 * COUNT_OF(cases)) {
    struct job job = {.broken = true};
    int workers = 1 + _i % 2;
    (void)snprintf(job.folder, sizeof(job.folder), "/tmp/lockstep-adder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(job.folder));
    run(&job, workers, cases[_i / 2].first, cases[_i / 2].first_value);
    job.broken = false;
    job.lines[0] = '\0';
    run(&job, workers, cases[_i / 2].then, cases[_i / 2].then_value);
    const char *said = strstr(job.lines, "the bits may be others than without an interruption: ");
    if (cases[_i / 2].said)
        ck_assert_msg(said && strstr(said, cases[_i / 2].said), "%s", job.lines);
    else
        ck_assert_msg(!said, "%s", job.lines);
    ck_assert_int_eq(rmdir(job.folder), 0); /* what is done leaves nothing there */
}

TESTS("far adder", .seconds = 120)
