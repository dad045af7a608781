/* So many replicas, whatever the devices that have them: one digest from one device to one a replica, and a checkpoint
 * that goes on with other workers. On the kind of device that LOCKSTEP_TEST_DEVICE names, or on CPUs. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "harness.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/draw_optimizer.h"
#include "train/model.h"
#include "train/toy.h"

enum { CASES = SANITIZED ? 4 : 12, MOST = 5, BATCH = 12 };

static const char *kind(void) {
    return getenv("LOCKSTEP_TEST_DEVICE") ? "gpu" : NULL;
}

struct job {
    ls_optimizer optimizer;
    bool synchronized; /* replicas meet amid their layers */
    int epochs;
    const char *folder;
    char digests[MAX_WORKERS][65];
    char outputs[MAX_WORKERS][EXAMPLES * 3 * sizeof(float)];
};

static ls_status make_model(const struct job *job, ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy,
                                    LS_LAYERS(ls_dense(9, LS_TANH), ls_dropout(0.2F),
                                              ls_batch_normalization(.synchronized = job->synchronized), ls_dense(3)),
                                    model);
    return status ? status : ls_model_compile(*model, job->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* Replicas of a device have one set of variables and moments, and of the memory of layers where they do not meet. */
static void check_sharing(const struct job *job, const ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_model_replica *own = &model->built.replicas[i],
                                      *first = &model->built.replicas[i % strategy->device_count];
        ck_assert_ptr_eq(own->parameters, first->parameters);
        ck_assert(own->shares == (own != first));
        if (own != first) ck_assert(!own->moments[0] && (own->arena.size > 0) == job->synchronized);
    }
}

static ls_status keep_outputs(ls_model *model, const struct toy *toy, char *kept) {
    ls_dataset *data = NULL;
    float *outputs = NULL;
    ls_shape shape;
    ls_status status = ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                                         LS_DATASET(.batch_size = BATCH, .shuffle = LS_SHUFFLE_NEVER), &data);
    if (!status) status = ls_model_predict(model, data, &outputs, &shape);
    if (!status) memcpy(kept, outputs, (size_t)(shape.dims[0] * shape.dims[1]) * sizeof(float));
    ls_memory_free(outputs);
    ls_dataset_free(data);
    return status;
}

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    fill_toy(&toy);
    const ls_checkpoint_options checkpoint = {.size = sizeof(checkpoint), .folder = job->folder};
    ls_status status = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                         LS_DATASET(.batch_size = BATCH, .seed = 4), &data);
    if (!status) status = make_model(job, worker->strategy, &model);
    if (!status)
        status = ls_model_fit(model, data,
                              LS_FIT(.epochs = job->epochs, .verbose = -1, .validation_data = data,
                                     .checkpoint = job->folder ? &checkpoint : NULL),
                              NULL);
    if (!status) check_sharing(job, model);
    if (!status) status = ls_model_weights_sha256(model, job->digests[worker->rank]);
    if (!status) status = keep_outputs(model, &toy, job->outputs[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

/* replicas: 0: one a device. */
static void run(struct job *job, int workers, const int devices[MAX_WORKERS], int replicas) {
    struct worker_cluster cluster = {
        .count = workers, .fn = train, .context = job, .kind = kind(), .options = {.replicas = replicas}};
    memcpy(cluster.devices, devices, (size_t)workers * sizeof(*devices));
    run_workers_ok(&cluster);
    for (int i = 1; i < workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

/* Devices of a worker: a machine has one GPU at least. */
static int most_devices(void) {
    return kind() ? 1 : MOST;
}

static void run_alone(struct job *job, int replicas) {
    int devices = replicas < most_devices() ? replicas : most_devices();
    run(job, 1, (const int[MAX_WORKERS]){devices}, devices < replicas ? replicas : 0);
}

static struct job draw_job(struct draw *draw) {
    return (struct job){.optimizer = draw_optimizer(draw), .synchronized = draw_once_in(draw, 3), .epochs = 2};
}

/* Workers that have at most so many devices together, each at least one. */
static int draw_workers(struct draw *draw, int most, int devices[MAX_WORKERS]) {
    int workers = 1 + (int)draw_below(draw, (uint64_t)(most < 4 ? most : 4)), left = most - workers;
    for (int i = 0; i < workers; i++) {
        int room = most_devices() - 1, more = (int)draw_below(draw, (uint64_t)(left < room ? left : room) + 1);
        devices[i] = 1 + more;
        left -= more;
    }
    return workers;
}

TEST(every_placement_trains_to_the_same_bits) {
    uint64_t seed = first_seed();
    for (uint64_t k = 0; k < (kind() ? 3 : CASES); k++) {
        struct draw draw = draw_from(seed, k);
        struct job wanted = draw_job(&draw), job = wanted;
        int replicas = 2 + (int)draw_below(&draw, MOST - 1), devices[MAX_WORKERS],
            workers = draw_workers(&draw, replicas, devices);
        if (kind() && workers == replicas) workers--; /* one a GPU: NCCL adds in an order of its own */
        run_alone(&wanted, replicas);
        run(&job, workers, devices, replicas);
        ck_assert_msg(!strcmp(job.digests[0], wanted.digests[0]) &&
                          !memcmp(job.outputs[0], wanted.outputs[0], sizeof(job.outputs[0])),
                      "case %d of seed %llu: %d replicas on %d workers", (int)k, (unsigned long long)seed, replicas,
                      workers);
    }
}

TEST(a_checkpoint_goes_on_with_other_workers) {
    const int ones[MAX_WORKERS] = {1, 1, 1, 1}, two[MAX_WORKERS] = {most_devices() < 2 ? 1 : 2, 1};
    struct job wanted = {.optimizer = ls_adam(0.01F), .epochs = 3}, job = wanted;
    char folder[] = "/tmp/lockstep-replicas-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    job.folder = folder;
    run_alone(&wanted, MOST);
    job.epochs = 1;
    run(&job, 4, ones, MOST);
    job.epochs = 2;
    run(&job, 1, ones, MOST);
    job.epochs = 3;
    run(&job, 2, two, MOST);
    ck_assert_str_eq(job.digests[0], wanted.digests[0]);
    ck_assert_int_eq(folder_remove(folder), 0);
}

/* ---- what cannot be ---- */

static ls_status never(struct worker *worker) {
    (void)worker;
    return LS_OK;
}

static void check_refused(struct worker_cluster *cluster, const char *words) {
    cluster->count = 2;
    cluster->fn = never;
    run_workers(cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster->workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster->workers[i].error, words) != NULL, "%s", cluster->workers[i].error);
    }
}

TEST(each_device_has_a_replica) {
    struct worker_cluster cluster = {.devices = {2, 1}, .options = {.replicas = 2}};
    check_refused(&cluster, "replicas 2: the workers have 3 devices");
}

TEST(scaled_batches_have_one_a_device) {
    struct worker_cluster cluster = {.devices = {1, 1}, .options = {.replicas = 3, .elastic = "1:2,scaled"}};
    check_refused(&cluster, "replicas 3: an elastic run with scaled batches");
}

TEST(the_number_has_limits) {
    ls_strategy *strategy = NULL;
    assert_refused(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .replicas = -1), &strategy),
                   "replicas -1 is not in 0 .. 65536");
    ls_status status = ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .replicas = 65), &strategy);
    ck_assert_int_eq(status, LS_RESOURCE_EXHAUSTED);
    ck_assert_msg(strstr(ls_error(), "rank 0 would hold 65 replicas, 64 are the limit") != NULL, "%s", ls_error());
}

TESTS("train/replicas", .seconds = 60)
