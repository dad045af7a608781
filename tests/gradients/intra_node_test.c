/* Gradients added in the node, on any device without host memory that LOCKSTEP_PLUGIN names: emulated GPUs, whose
 * streams wait for nothing that they are not told to wait for. The bits must be those of as many workers with one
 * device each, whose gradients the host adds. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

struct job {
    bool accumulates;
    char digests[MAX_WORKERS][65];
};

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_optimizer optimizer = ls_sgd(0.1F, .momentum = 0.9F, .gradient_accumulation_steps = job->accumulates ? 2 : 0);
    ls_status st = ls_dataset_digits(LS_DATASET(.batch_size = 17, .limit = 4 * 17 + 3, .seed = 5), &data);
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(19, LS_RELU), ls_dense(10)), &model);
    if (!st) st = ls_model_compile(model, optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), NULL);
    if (!st) st = ls_model_weights_sha256(model, job->digests[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

struct layout {
    int workers, counts[4];
    ls_strategy_options options;
};

/* The digest of all workers' variables after the same steps. */
static void digest_of(const struct layout *layout, bool accumulates, char digest[65]) {
    struct job job = {.accumulates = accumulates};
    struct worker_cluster cluster = {
        .count = layout->workers, .kind = "gpu", .fn = train, .context = &job, .options = layout->options};
    for (int w = 0; w < layout->workers; w++) cluster.devices[w] = w < 4 ? layout->counts[w] : 1;
    run_workers_ok(&cluster);
    for (int w = 1; w < layout->workers; w++) ck_assert_str_eq(job.digests[w], job.digests[0]);
    memcpy(digest, job.digests[0], sizeof(job.digests[0]));
}

static void assert_digest(const struct layout *layout, bool accumulates, const char *wanted) {
    char digest[65];
    digest_of(layout, accumulates, digest);
    ck_assert_str_eq(digest, wanted);
}

static const struct layout one_each = {.counts = {1, 1, 1, 1}};

TEST(one_worker) {
    static const int counts[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct layout reference = one_each, layout = {.workers = 1, .counts = {counts[i]}};
        char wanted[65];
        reference.workers = counts[i];
        digest_of(&reference, i == 1, wanted);
        layout.options.bytes_per_pack = i % 2 ? 1000 : 0;
        for (int op = LS_REDUCTION_TO_ONE_DEVICE; op <= LS_HIERARCHICAL_COPY; op++) {
            layout.options.cross_device_ops = (ls_cross_device_ops)op;
            assert_digest(&layout, i == 1, wanted);
        }
    }
}

TEST(several_workers) {
    struct layout reference = one_each;
    char wanted[65], ring[65];
    reference.workers = 4;
    digest_of(&reference, false, wanted);
    assert_digest(&(struct layout){.workers = 2, .counts = {2, 2}, .options = {.bytes_per_pack = 1000}}, false, wanted);
    assert_digest(
        &(struct layout){.workers = 2, .counts = {2, 2}, .options = {.cross_device_ops = LS_REDUCTION_TO_ONE_DEVICE}},
        false, wanted);
    struct layout layout = {.workers = 2, .counts = {2, 2}, .options = {.communication = LS_RING}};
    digest_of(&layout, false, ring);
    layout.options.cross_device_ops = LS_REDUCTION_TO_ONE_DEVICE;
    assert_digest(&layout, false, ring);
}

/* Fails in the first step, by a label that is no class; then trains. */
static ls_status fail_and_train(struct worker *worker) {
    enum { EXAMPLES = 32, WIDTH = 4 };
    float features[EXAMPLES * WIDTH] = {0};
    int32_t labels[EXAMPLES] = {0};
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st =
        ls_dataset_arrays(features, LS_SHAPE(WIDTH), labels, EXAMPLES, 10, LS_DATASET(.batch_size = EXAMPLES), &data);
    labels[EXAMPLES - 1] = 10;
    if (!st) st = ls_model_new(worker->strategy, LS_LAYERS(ls_dense(10)), &model);
    if (!st) st = ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) ck_assert_int_eq(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL), LS_INVALID_ARGUMENT);
    labels[EXAMPLES - 1] = 9;
    if (!st) st = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST(after_a_failed_step) {
    struct worker_cluster cluster = {.count = 1, .kind = "gpu", .fn = fail_and_train, .devices = {3}};
    run_workers_ok(&cluster);
}

TESTS("node", .seconds = 300)
