/* Buckets of gradients: drawn cuts, and a model whose largest variable lies in several buckets, which has one digest
 * however it is trained. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "strategy/workers.h"
#include "train/model.h"

/* ---- cuts ---- */

enum { MOST_VARIABLES = 12, EXTRAS = 32 };

struct drawing {
    struct ls_bucket_rule rule;
    size_t offsets[MOST_VARIABLES + 1]; /* and where the last one ends */
};

struct draws {
    uint64_t seed, made;
};

static size_t draw(struct draws *draws, size_t below) {
    return (size_t)(ls_random_bits(draws->seed, 1, draws->made++) % below);
}

static void draw_rule(uint64_t seed, struct drawing *drawing) {
    struct draws draws = {seed, 0};
    size_t count = draw(&draws, MOST_VARIABLES + 1), at = 0;
    for (size_t i = 0; i < count; i++) {
        drawing->offsets[i] = at;
        size_t most = draw(&draws, 3) ? 1000 : 3 * LS_BUCKET_STEP / 16;
        at += 16 * (1 + draw(&draws, most));
        if (!draw(&draws, 4)) at = (at + LS_BUCKET_STEP - 1) / LS_BUCKET_STEP * LS_BUCKET_STEP; /* on a cut */
    }
    drawing->offsets[count] = at;
    drawing->rule =
        (struct ls_bucket_rule){.total = at + EXTRAS, .extras = EXTRAS, .offsets = drawing->offsets, .count = count};
    drawing->rule.bytes = 1 + draw(&draws, 1 << 25);
    drawing->rule.first_bytes = 1 + draw(&draws, 1 << 22);
    if (draw(&draws, 4) == 0) drawing->rule.bytes_per_pack = 1 + draw(&draws, 1 << 25);
}

/* A bucket may begin there. */
static bool is_cut(const struct drawing *drawing, size_t at) {
    const struct ls_bucket_rule *rule = &drawing->rule;
    for (size_t i = 0; i < rule->count; i++)
        if (rule->offsets[i] == at) return true;
    return !rule->bytes_per_pack && at % LS_BUCKET_STEP == 0 && at < drawing->offsets[rule->count];
}

/* Full, and not full at any cut behind its begin. */
static void check_size(const struct drawing *drawing, const struct ls_bucket *bucket, bool first) {
    const struct ls_bucket_rule *rule = &drawing->rule;
    size_t bytes = (bucket->end - bucket->begin) * sizeof(float);
    ck_assert(!bucket->begin || ls_buckets_full(rule, bytes, first));
    for (size_t at = (bucket->begin / 16 + 1) * 16; at < bucket->end; at += 16)
        if (is_cut(drawing, at)) ck_assert(!ls_buckets_full(rule, (bucket->end - at) * sizeof(float), first));
}

TEST(drawn_buckets_are_full_at_the_first_cut) {
    uint64_t seed = first_seed();
    for (uint64_t round = 0; round < (SANITIZED ? 20 : 100); round++) {
        struct drawing drawing;
        struct ls_bucket *buckets;
        size_t count, end;
        draw_rule(seed + round, &drawing);
        end = drawing.rule.total;
        assert_ok(ls_buckets_cut(&drawing.rule, &buckets, &count));
        for (size_t b = 0; b < count; end = buckets[b++].begin) {
            ck_assert_uint_eq(buckets[b].end, end);
            ck_assert(buckets[b].begin < end && (!buckets[b].begin || is_cut(&drawing, buckets[b].begin)));
            check_size(&drawing, &buckets[b], b == 0);
        }
        ck_assert(count >= 1 && end == 0);
        ls_free(buckets);
    }
}

/* ---- trainings ---- */

struct training {
    ls_optimizer optimizer;
    size_t buckets;
    char sha256[65];
};

/* The kernel in the middle has 2.5 Mi elements. */
static ls_status train(struct worker *worker) {
    enum { ROWS = 12, IDS = 40, WIDTH = 64, PLACES = 6, CLASSES = 3 };
    struct training *training = worker->context;
    int32_t ids[ROWS][PLACES], labels[ROWS];
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    for (int i = 0; i < ROWS * PLACES; i++) ids[i / PLACES][i % PLACES] = i * 7 % IDS;
    for (int i = 0; i < ROWS; i++) labels[i] = i % CLASSES;
    ls_status status = ls_dataset_from_arrays(
        LS_ARRAYS(.ids = &ids[0][0], .shape = LS_SHAPE(PLACES), .labels = labels, .count = ROWS, .classes = CLASSES),
        LS_DATASET(.batch_size = 4), &data);
    if (!status)
        status = ls_model_new(worker->strategy,
                              LS_LAYERS(ls_embedding(IDS, WIDTH), ls_flatten(), ls_dense(1024, LS_RELU),
                                        ls_dense(2560, LS_RELU), ls_dense(CLASSES)),
                              &model);
    if (!status) status = ls_model_compile(model, training->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!status) status = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    char sha256[65];
    if (!status) status = ls_model_weights_sha256(model, sha256);
    if (!worker->rank) {
        memcpy(training->sha256, sha256, sizeof(sha256));
        training->buckets = status ? 0 : model->bound.bucket_count;
    }
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

/* No bucket of gradients is smaller. */
static void run_layout(struct training *training, int workers, int devices, int servers, const char *bytes) {
    const ls_parameter_server_options stored = {.size = sizeof(stored), .replicas = 1};
    struct worker_cluster cluster = {.count = workers,
                                     .devices = {devices, devices},
                                     .fn = train,
                                     .context = training,
                                     .servers = servers,
                                     .stored = servers ? &stored : NULL};
    ck_assert_int_eq(setenv("LOCKSTEP_FIRST_BUCKET", bytes, 1), 0);
    run_workers_ok(&cluster);
    ck_assert_int_eq(unsetenv("LOCKSTEP_FIRST_BUCKET"), 0);
}

/* All in one bucket, and the kernel in several: with rules that need norms, and gathered batches. */
TEST_EACH(a_large_variable_has_one_digest, SANITIZED ? 1 : 3) {
    const ls_optimizer optimizers[] = {ls_sgd(0.1F, .gradient_accumulation_steps = 2),
                                       ls_adam(1e-2F, .global_clipnorm = 0.5F), ls_lamb(1e-2F)};
    struct training whole = {.optimizer = optimizers[_i]};
    run_layout(&whole, 1, 2, 0, "64M");
    ck_assert_uint_eq(whole.buckets, 1);
    static const struct {
        int workers, devices, servers;
        const char *bytes;
    } layouts[] = {{2, 1, 0, "64K"}, {2, 1, 0, "4M"}, {2, 1, 2, "4M"}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        if (SANITIZED && i == 1) continue; /* with servers, and without */
        struct training cut = {.optimizer = optimizers[_i]};
        run_layout(&cut, layouts[i].workers, layouts[i].devices, layouts[i].servers, layouts[i].bytes);
        ck_assert_str_eq(cut.sha256, whole.sha256);
        ck_assert_uint_gt(cut.buckets, 1);
    }
}

TESTS("buckets", .seconds = 60)
