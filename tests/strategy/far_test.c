/* Devices without host memory that compute behind the threads (tests/far): what is trained and measured on them has the
 * bits of the CPU, wherever the gradients are added in host memory; NCCL's order is its own, and the same everywhere.
 */
#include <pthread.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "far/far.h"
#include "harness.h"
#include "strategy/workers.h"

enum { EPOCHS = 3, BATCHES = SANITIZED ? 2 : 4, VALIDATED = SANITIZED ? 34 : 100 }; /* whole batches */

enum network { DENSE, CONVOLUTIONS, SYNCHRONIZED, REGULARIZED };
struct job {
    enum network network;
    int64_t batch, limit;
    ls_optimizer optimizer;
    /* from rank 0; digests from all */
    double losses[EPOCHS], val_loss, first;
    float *outputs;
    ls_shape shape;
    char digests[MAX_WORKERS][65];
};

static ls_status record_loss(void *context, int epoch, const ls_result *result) {
    struct worker *worker = context;
    struct job *job = worker->context;
    if (worker->rank == 0) job->losses[epoch] = result->loss;
    if (worker->rank == 0) job->val_loss = result->val_loss;
    return LS_OK;
}

static ls_status new_model(ls_strategy *strategy, const struct job *job, ls_model **model) {
    bool all = job->network == SYNCHRONIZED;
    if (job->network == DENSE) return ls_model_new(strategy, LS_LAYERS(ls_dense(31, LS_RELU), ls_dense(10)), model);
    if (job->network == REGULARIZED)
        return ls_model_new(strategy, LS_LAYERS(ls_dense(17, LS_RELU, .kernel_l2 = 0.01F), ls_dense(10)), model);
    return ls_model_new(
        strategy,
        LS_LAYERS(ls_conv2d(6, 3, 3, LS_SAME, .name = "stem"), ls_batch_normalization(.synchronized = all), ls_relu6(),
                  ls_depthwise_conv2d(3, 1, LS_SAME), ls_batch_normalization(.momentum = 0.9F, .synchronized = all),
                  ls_dropout(all ? 0 : 0.2F), ls_add("stem"), ls_relu(), ls_max_pooling2d(2), ls_dense(10)),
        model);
}

static ls_status read_first(ls_model *model, struct job *job) {
    const char *name;
    const float *data;
    ls_shape shape;
    ls_status st = ls_model_variable(model, 0, &name, &shape, &data);
    if (!st) job->first = (double)data[1];
    return st;
}

static ls_status use(struct worker *worker, ls_model *model, ls_dataset *data, ls_dataset *validation) {
    struct job *job = worker->context;
    ls_result result;
    float *outputs;
    ls_shape shape;
    ls_status st = ls_model_fit(model, data,
                                LS_FIT(.epochs = EPOCHS, .validation_data = validation, .verbose = -1,
                                       .on_epoch = record_loss, .context = worker),
                                NULL);
    if (!st) st = ls_model_evaluate(model, validation, &result);
    if (!st && worker->rank == 0) ck_assert_double_eq(result.loss, job->val_loss);
    if (!st) st = ls_model_weights_sha256(model, job->digests[worker->rank]);
    if (!st && worker->rank == 0) st = read_first(model, job);
    if (!st) st = ls_model_predict(model, validation, &outputs, &shape);
    if (st) return st;
    if (worker->rank)
        ls_memory_free(outputs);
    else
        job->outputs = outputs, job->shape = shape;
    return LS_OK;
}

static ls_status train(struct worker *worker) {
    struct job *job = worker->context;
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    ls_status st =
        ls_dataset_digits(LS_DATASET(.batch_size = job->batch, .limit = job->limit, .seed = 7, .workers = 2), &data);
    if (!st)
        st = ls_dataset_digits(
            LS_DATASET(.batch_size = 33, .limit = VALIDATED, .split = LS_TEST, .shuffle = LS_SHUFFLE_NEVER),
            &validation);
    if (!st) st = new_model(worker->strategy, job, &model);
    if (!st) st = ls_model_compile(model, job->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = use(worker, model, data, validation);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return st;
}

struct layout {
    const char *devices; /* of each worker, instead of the numbers; NULL: these */
    int workers, counts[4];
    ls_strategy_options options;
};

static struct worker_cluster cluster_of(const struct layout *layout, const char *kind, void *job) {
    struct worker_cluster cluster = {
        .count = layout->workers, .kind = kind, .fn = train, .context = job, .options = layout->options};
    cluster.options.devices = layout->devices;
    memcpy(cluster.devices, layout->counts, sizeof(layout->counts));
    return cluster;
}

static void run(const struct layout *layout, const char *kind, struct job *job) {
    struct worker_cluster cluster = cluster_of(layout, kind, job);
    run_workers_ok(&cluster);
    for (int i = 1; i < layout->workers; i++) ck_assert_str_eq(job->digests[i], job->digests[0]);
}

static void compare(const struct job *job, const struct job *cpu) {
    for (int e = 0; e < EPOCHS; e++) ck_assert_double_eq(job->losses[e], cpu->losses[e]);
    ck_assert_double_eq(job->val_loss, cpu->val_loss);
    ck_assert_double_eq(job->first, cpu->first);
    ck_assert_str_eq(job->digests[0], cpu->digests[0]);
    ck_assert_int_eq(job->shape.dims[0], cpu->shape.dims[0]);
    ck_assert_int_eq(memcmp(job->outputs, cpu->outputs, (size_t)(cpu->shape.dims[0] * cpu->shape.dims[1]) * 4), 0);
}

static void forget(struct job *job) {
    ls_memory_free(job->outputs);
}

/* On the CPU's devices, and on as many far ones. */
static void same_bits(const struct layout *layout, const struct job *job) {
    struct layout plain = *layout;
    struct job cpu = *job, far = *job;
    plain.devices = NULL;
    plain.options.cross_device_ops = LS_CROSS_DEVICE_AUTO;
    run(&plain, "cpu", &cpu);
    run(layout, "gpu", &far);
    compare(&far, &cpu);
    forget(&cpu);
    forget(&far);
}

enum { LIMIT = BATCHES * 26 + 4 };
#define JOB(...) (&(struct job){.batch = 26, .limit = LIMIT, __VA_ARGS__})

static const struct layout one = {.workers = 1, .counts = {1}};

/* The plugin's own. */
static void *find(const char *name) {
    void *plugin = dlopen(getenv("LOCKSTEP_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    void *found = plugin ? dlsym(plugin, name) : NULL;
    ck_assert_ptr_nonnull(found);
    (void)dlclose(plugin);
    return found;
}

static const struct far_counts *counts(void) {
    return find("far_counts");
}

static const struct job alone[] = {
    {.batch = 26, .limit = 4 * 26 + 4, .optimizer = ls_sgd(0.1F, .momentum = 0.9F)},
    {.batch = 26, .limit = LIMIT, .optimizer = ls_adam(0.001F), .network = CONVOLUTIONS},
    {.batch = 26, .limit = LIMIT, .optimizer = ls_lamb(0.01F, .weight_decay = 0.01F), .network = REGULARIZED},
    {.batch = 26,
     .limit = LIMIT,
     .optimizer = ls_sgd(0.05F, .gradient_accumulation_steps = 3),
     .network = CONVOLUTIONS},
};

/* Steps are captured and replayed, batches copied while others are computed. */
TEST_EACH(one_device, COUNT_OF(alone)) {
    same_bits(&one, &alone[_i]);
    if (_i) return;
    ck_assert_int_ge(counts()->replays, 8);
    ck_assert_int_ge(counts()->early, 8);
    ck_assert_int_ge(counts()->left, 8);
}

TEST_EACH(several_devices, 6) {
    static const struct layout layouts[] = {
        {.workers = 1, .counts = {3}, .options = {.cross_device_ops = LS_HIERARCHICAL_COPY}},
        {.workers = 1, .counts = {3}, .options = {.cross_device_ops = LS_REDUCTION_TO_ONE_DEVICE}},
        {.workers = 1,
         .counts = {3},
         .devices = "cpu:0,gpu:5,gpu:2",
         .options = {.cross_device_ops = LS_CROSS_DEVICE_AUTO}},
    };
    const struct layout *layout = &layouts[_i / 2];
    if (_i % 2)
        same_bits(layout, JOB(.optimizer = ls_sgd(0.1F), .network = SYNCHRONIZED));
    else
        same_bits(layout, JOB(.optimizer = ls_adam(0.001F), .network = _i ? CONVOLUTIONS : DENSE));
}

/* 2 examples in the last batch: a replica has nothing to do. */
TEST(fewer_examples_than_devices) {
    static const struct layout layout = {
        .workers = 1, .counts = {3}, .options = {.cross_device_ops = LS_HIERARCHICAL_COPY}};
    same_bits(&layout, &(struct job){.batch = 8, .limit = 42, .optimizer = ls_sgd(0.1F)});
    same_bits(&layout, &(struct job){.batch = 8, .limit = 42, .optimizer = ls_sgd(0.1F), .network = SYNCHRONIZED});
}

/* Through host memory: RING, which never takes NCCL; AUTO where NCCL makes no group; small buckets, 16 bits. */
static const struct layout through_hosts[] = {
    {.workers = 2, .counts = {2, 1}, .options = {.communication = LS_RING, .bytes_per_pack = 1000}},
    {.workers = 2, .counts = {1, 1}, .options = {.communication = LS_RING, .compression = LS_COMPRESS_BF16}},
    {.workers = 2, .counts = {1, 2}, .options = {.bytes_per_pack = 1000}},
    {.workers = 3, .counts = {1, 1, 1}},
    {.workers = 2, .counts = {2, 2}, .devices = "gpu:1,cpu:1"},
};

TEST_EACH(several_workers, COUNT_OF(through_hosts)) {
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_GROUP", "1", 1), 0);
    same_bits(&through_hosts[_i], JOB(.optimizer = ls_sgd(0.1F, .momentum = 0.9F)));
    same_bits(&through_hosts[_i], JOB(.optimizer = ls_adam(0.001F), .network = _i % 2 ? SYNCHRONIZED : CONVOLUTIONS));
    (void)unsetenv("LOCKSTEP_FAR_NO_GROUP");
}

TEST(several_workers_accumulate) {
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_GROUP", "1", 1), 0);
    same_bits(&through_hosts[2], JOB(.optimizer = ls_sgd(0.05F, .gradient_accumulation_steps = 2)));
    (void)unsetenv("LOCKSTEP_FAR_NO_GROUP");
}

/* ---- NCCL ---- */

static void near(const struct job *job, const struct job *cpu) {
    for (int e = 0; e < EPOCHS; e++) ck_assert_double_eq_tol(job->losses[e], cpu->losses[e], 1e-4 * cpu->losses[e]);
}

struct told {
    pthread_mutex_t lock;
    char nccl[200]; /* the line about it, of any rank */
    int left[2];    /* lines about aborts that did not end, of each rank */
};

static void listen(void *context, ls_log_level level, const char *line) {
    struct told *told = context;
    const char *at = strstr(line, "gradients of"),
               *left = strstr(line, ": NCCL has not aborted its communicator for 2.");
    (void)level;
    (void)pthread_mutex_lock(&told->lock);
    if (at) (void)snprintf(told->nccl, sizeof(told->nccl), "%s", at);
    if (left) told->left[left[-1] - '0']++;
    (void)pthread_mutex_unlock(&told->lock);
}

static void run_listening(const struct layout *layout, struct job *job, const char *expected) {
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct layout listening = *layout;
    listening.options.log = listen;
    listening.options.log_context = &told;
    run(&listening, "gpu", job);
    ck_assert_msg(strstr(told.nccl, expected), "'%s' is not in '%s'", expected, told.nccl);
}

/* ---- in the node ---- */

/* As same_bits, where log says who adds. */
static void same_bits_by(const char *who, const struct layout *layout, const struct job *job) {
    struct layout plain = *layout;
    struct job cpu = *job, far = *job;
    plain.options.cross_device_ops = LS_CROSS_DEVICE_AUTO;
    run(&plain, "cpu", &cpu);
    run_listening(layout, &far, who);
    compare(&far, &cpu);
    forget(&cpu);
    forget(&far);
}

/* Any number of devices, in many buckets and in one; one worker's bits are those of any layout on the host. */
TEST_EACH(added_in_the_node, 3) {
    static const int numbers[] = {3, 4, 8};
    struct layout layout = {.workers = 1, .counts = {numbers[_i]}};
    const struct job *job = JOB(.optimizer = ls_adam(0.001F), .network = _i % 2 ? CONVOLUTIONS : DENSE);
    layout.options.bytes_per_pack = _i % 2 ? 0 : 1000;
    layout.options.cross_device_ops = LS_HIERARCHICAL_COPY;
    same_bits_by("replicas are added between this worker's GPUs by hierarchical copy", &layout, job);
    layout.options.cross_device_ops = LS_REDUCTION_TO_ONE_DEVICE;
    same_bits_by("replicas are added between this worker's GPUs by reduction to one device", &layout, job);
}

TEST(added_in_the_node_after_several_batches) {
    same_bits(&(struct layout){.workers = 1, .counts = {4}, .options = {.cross_device_ops = LS_HIERARCHICAL_COPY}},
              JOB(.optimizer = ls_sgd(0.05F, .gradient_accumulation_steps = 2), .network = SYNCHRONIZED));
}

/* Before the host adds for several workers: RING all of each, AUTO what is a subtree over all replicas. */
static const char in_node[] = "GPUs by hierarchical copy, and then by the host", at_host[] = "added by the host: ";
static const struct {
    struct layout layout;
    const char *who;
} added_by[] = {
    {{.workers = 2, .counts = {2, 2}, .options = {.communication = LS_RING}}, in_node},
    {{.workers = 2, .counts = {2, 2}}, in_node},
    {{.workers = 2, .counts = {3, 1}, .options = {.communication = LS_RING, .bytes_per_pack = 1000}}, in_node},
    {{.workers = 2, .counts = {4, 3}, .options = {.bytes_per_pack = 1000}}, in_node},
    {{.workers = 3, .counts = {2, 4, 1}}, in_node}, /* the second one has two sums */
    {{.workers = 2, .counts = {3, 3}}, at_host},
    {{.workers = 2, .counts = {2, 2}, .options = {.compression = LS_COMPRESS_FP16}}, in_node},
    {{.workers = 2, .counts = {2, 2}, .options = {.communication = LS_RING, .compression = LS_COMPRESS_BF16}}, in_node},
};

TEST_EACH(added_in_each_node, COUNT_OF(added_by)) {
    const struct layout *layout = &added_by[_i].layout;
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_GROUP", "1", 1), 0);
    if (layout->options.compression) ck_assert_int_eq(setenv("LOCKSTEP_TRANSPORT", "tcp", 1), 0);
    same_bits_by(added_by[_i].who, layout,
                 _i % 3 ? JOB(.optimizer = ls_sgd(0.1F, .momentum = 0.9F))
                        : JOB(.optimizer = ls_adam(0.001F), .network = _i ? SYNCHRONIZED : CONVOLUTIONS));
    /* a bucket is copied while the host adds the one before */
    if (layout->options.bytes_per_pack) ck_assert_int_gt(counts()->ahead, 0);
    (void)unsetenv("LOCKSTEP_TRANSPORT");
    (void)unsetenv("LOCKSTEP_FAR_NO_GROUP");
}

/* ---- NCCL's order ---- */

/* The stand-in adds in the order of the ranks, so two runs of the same layout are alike, and all layouts here. */
TEST(nccl) {
    static const struct layout layouts[] = {
        {.workers = 1, .counts = {3}, .options = {.cross_device_ops = LS_NCCL_ALL_REDUCE}},
        {.workers = 1, .counts = {3}},
        {.workers = 2, .counts = {2, 1}, .options = {.communication = LS_NCCL, .bytes_per_pack = 1000}},
        {.workers = 3, .counts = {1, 1, 1}},
    };
    const struct job job = *JOB(.optimizer = ls_sgd(0.1F, .momentum = 0.9F), .network = CONVOLUTIONS);
    struct job cpu = job, first = job;
    run(&(struct layout){.workers = 1, .counts = {3}}, "cpu", &cpu);
    run(&layouts[0], "gpu", &first);
    near(&first, &cpu);
    for (size_t i = 1; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        struct job other = job;
        run_listening(&layouts[i], &other, "gradients of 3 GPUs are added by NCCL 2.28.9");
        compare(&other, &first);
        forget(&other);
    }
    forget(&first);
    forget(&cpu);
}

TEST(nccl_is_refused) {
    static const struct {
        struct layout layout;
        const char *kind, *message;
    } cases[] = {
        {{.workers = 1, .counts = {1}, .options = {.communication = LS_NCCL}},
         "cpu",
         "communication NCCL: device 0 of rank 0 is no GPU"},
        {{.workers = 2, .counts = {1, 2}, .devices = "gpu:0,cpu:0", .options = {.communication = LS_NCCL}},
         "gpu",
         "communication NCCL: device 1 of rank 0 is no GPU"},
        {{.workers = 1, .counts = {2}, .options = {.cross_device_ops = LS_NCCL_ALL_REDUCE}},
         "cpu",
         "cross-device ops NCCL: device 0 of rank 0 is no GPU"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job = *JOB(.optimizer = ls_sgd(0.1F));
        struct worker_cluster cluster = cluster_of(&cases[i].layout, cases[i].kind, &job);
        run_workers(&cluster);
        for (int w = 0; w < cluster.count; w++) {
            ck_assert_int_eq(cluster.workers[w].status, LS_INVALID_ARGUMENT);
            ck_assert_msg(strstr(cluster.workers[w].error, cases[i].message), "%s", cluster.workers[w].error);
        }
    }
}

/* Stripes are updated in host memory. */
TEST(owners_of_moments_are_refused) {
    const struct layout layout = {.workers = 2, .counts = {1, 1}, .options = {.shard = LS_SHARDING_OPTIMIZER}};
    struct job job = *JOB(.optimizer = ls_adam(0.01F));
    struct worker_cluster cluster = cluster_of(&layout, "gpu", &job);
    run_workers(&cluster);
    for (int w = 0; w < 2; w++) {
        ck_assert_int_eq(cluster.workers[w].status, LS_UNIMPLEMENTED);
        ck_assert_msg(strstr(cluster.workers[w].error, "shard optimizer updates moments in host memory, and replica 0"),
                      "%s", cluster.workers[w].error);
    }
}

/* AUTO goes on without it, and says why; NCCL means NCCL. */
TEST(nccl_does_not_work) {
    struct layout layout = {.workers = 2, .counts = {1, 1}};
    struct job job = *JOB(.optimizer = ls_sgd(0.1F));
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_GROUP", "1", 1), 0);
    run_listening(&layout, &job, "gradients of the GPUs are added by the host: ");
    forget(&job);
    layout.options.communication = LS_NCCL;
    struct worker_cluster cluster = cluster_of(&layout, "gpu", &job);
    run_workers(&cluster);
    (void)unsetenv("LOCKSTEP_FAR_NO_GROUP");
    for (int w = 0; w < 2; w++) {
        ck_assert_int_eq(cluster.workers[w].status, LS_FAILED_PRECONDITION);
        ck_assert_msg(strstr(cluster.workers[w].error, "communication NCCL: "), "%s", cluster.workers[w].error);
    }
}

/* ---- what goes wrong ---- */

/* The workers go on after the limit, as if it had ended; and when it ends after all, what is left is given back. */
TEST(an_abort_that_never_ends) {
    const struct layout layout = {.workers = 2, .counts = {1, 1}, .options = {.communication = LS_NCCL}};
    struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct job job = *JOB(.optimizer = ls_sgd(0.1F));
    struct layout listening = layout;
    run(&layout, "gpu", &job); /* loads the plugin */
    forget(&job);
    int before = counts()->forgotten;
    _Atomic bool *waits = find("far_aborts_wait");
    *waits = true;
    listening.options.log = listen;
    listening.options.log_context = &told;
    run(&listening, "gpu", &job);
    forget(&job);
    ck_assert_int_eq(told.left[0], 1);
    ck_assert_int_eq(told.left[1], 1);
    ck_assert_int_eq(counts()->forgotten, before);
    *waits = false;
    for (int i = 0; i < 10000 && counts()->forgotten < before + 2; i++)
        (void)nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
    ck_assert_int_eq(counts()->forgotten, before + 2);
}

static void never_ends(int devices, const char *message) {
    const struct layout layout = {
        .workers = 2, .counts = {devices, devices}, .options = {.communication = LS_RING, .timeout_seconds = 2}};
    struct job job = *JOB(.optimizer = ls_sgd(0.1F));
    struct worker_cluster cluster = cluster_of(&layout, "gpu", &job);
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_STUCK", "1", 1), 0);
    run_workers(&cluster);
    (void)unsetenv("LOCKSTEP_FAR_STUCK");
    bool late = false;
    for (int w = 0; w < 2; w++) { /* the second one may hear of the first */
        late = late || cluster.workers[w].status == LS_DEADLINE_EXCEEDED;
        ck_assert_msg(strstr(cluster.workers[w].error, message), "%s", cluster.workers[w].error);
    }
    ck_assert(late);
}

TEST(a_copy_that_never_ends) {
    never_ends(1, "for gpu:0 to compute and copy gradient bucket 0");
    never_ends(2, "for gpu:0 to add and copy gradient bucket 0");
}

/* The error comes with the wait for the step: it is not done. */
TEST(an_op_that_fails_later) {
    struct job job = *JOB(.optimizer = ls_sgd(0.1F));
    struct worker_cluster cluster = cluster_of(&one, "gpu", &job);
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_FAILS", "3", 1), 0);
    run_workers(&cluster);
    (void)unsetenv("LOCKSTEP_FAR_FAILS");
    ck_assert_int_eq(cluster.workers[0].status, LS_INTERNAL);
    ck_assert_msg(strstr(cluster.workers[0].error, "epoch 1, step 3: replica 0: gpu:0: "), "%s",
                  cluster.workers[0].error);
}

TESTS("far", .seconds = 300)
