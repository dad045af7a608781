/* Workers that divide gradients: the pages that a replica has in the middle of steps are as many as lockstep plan
 * counts, and no more. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"
#include "base/point.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/draw_optimizer.h"
#include "train/kept_gradients.h"
#include "train/toy.h"

enum { CASES = SANITIZED ? 2 : 4, MOST = 4, MOST_REPLICAS = 2 * MOST, ROWS = 600, PAGE = 4096, IDS = 500 };

struct draft {
    int layers, units, workers, devices[MOST], copies, batch;
    size_t bytes_per_pack;
    int activations; /* behind each layer: memory without variables */
    bool tied;       /* the head takes the table of an embedding, which has gradients first and last */
    uint64_t seed;
    ls_optimizer optimizer;
    size_t whole; /* bytes of gradients that nobody divides */
    size_t planned[MOST_REPLICAS];
};
/* The pages of a replica's gradients. */
struct watched {
    _Atomic(unsigned char *) from;
    size_t pages;
    _Atomic size_t most; /* bytes that were there at once */
};
static struct watched watched[MOST_REPLICAS];

static void look(struct watched *own) {
    unsigned char *from = atomic_load(&own->from), there[32768];
    size_t count = 0, most = atomic_load(&own->most);
    if (!from || own->pages > sizeof(there) || mincore(from, own->pages * PAGE, there)) return;
    for (size_t i = 0; i < own->pages; i++) count += there[i] & 1;
    while (count * PAGE > most && !atomic_compare_exchange_weak(&own->most, &most, count * PAGE)) continue;
}

/* Of the library: whichever worker comes to a point, all are looked at. */
void ls_reached(const char *point) {
    if (strcmp(point, "bucket") != 0 && strcmp(point, "sums") != 0 && strcmp(point, "gather") != 0) return;
    for (int i = 0; i < MOST_REPLICAS; i++) look(&watched[i]);
}

static void watch(const struct worker *worker, const ls_model *model, struct draft *draft) {
    const struct ls_shards_of here = ls_shards_here(model);
    for (int i = 0; i < model->strategy->local_count; i++) {
        int id = model->strategy->replicas[i].id;
        const struct ls_model_replica *replica = &model->built.replicas[i];
        watched[id].pages = ((model->built.summed_count + LS_EXTRAS) * sizeof(float) + PAGE - 1) / PAGE;
        draft->planned[id] = ls_kept_gradients_bytes(model, &here, model->built.replicas[0].arena.size, !i);
        atomic_store(&watched[id].from, (unsigned char *)replica->gradients);
    }
    if (!worker->rank) draft->whole = (model->built.summed_count + LS_EXTRAS) * sizeof(float);
}

static ls_status open_model(const struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_layer layers[128];
    size_t count = 0;
    if (draft->tied) layers[count++] = (ls_layer)ls_embedding(IDS, draft->units);
    if (draft->tied) layers[count++] = (ls_layer)ls_global_average_pooling1d();
    for (int i = 0; i < draft->layers; i++) {
        layers[count++] = (ls_layer)ls_dense(draft->units, LS_RELU);
        for (int a = 0; a < draft->activations; a++) layers[count++] = (ls_layer)ls_activation(LS_GELU);
    }
    layers[count++] = draft->tied ? (ls_layer)ls_tied_dense("embedding") : (ls_layer)ls_dense(3);
    ls_status status = ls_model_new(strategy, layers, count, model);
    if (!status) status = ls_model_seed(*model, draft->seed);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* The gradients lie where they are from the first fit on. */
static ls_status fit_twice(struct worker *worker, ls_model *model, ls_dataset *data) {
    struct draft *draft = worker->context;
    const ls_fit_options *options = LS_FIT(.epochs = 1, .steps_per_epoch = 2, .verbose = -1);
    ls_result result;
    ls_status status = ls_model_fit(model, data, options, &result);
    if (!status) watch(worker, model, draft);
    if (!status) status = ls_model_fit(model, data, options, &result);
    return status;
}

static ls_status train(struct worker *worker) {
    const struct draft *draft = worker->context;
    static float features[ROWS][WIDTH]; /* zeros, which no worker writes */
    static int32_t labels[ROWS];
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    ls_status status = open_model(draft, worker->strategy, &model);
    if (!status)
        status = ls_dataset_arrays(&features[0][0], LS_SHAPE(WIDTH), labels, ROWS, 3,
                                   LS_DATASET(.batch_size = draft->batch), &data);
    if (!status) status = fit_twice(worker, model, data);
    for (int i = 0; worker->strategy && i < worker->strategy->local_count; i++)
        atomic_store(&watched[worker->strategy->replicas[i].id].from, NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void run_draft(struct draft *draft) {
    struct worker_cluster cluster = {.count = draft->workers,
                                     .options.shard = LS_SHARDING_GRADIENTS,
                                     .options.shard_copies = draft->copies,
                                     .options.bytes_per_pack = draft->bytes_per_pack,
                                     .fn = train,
                                     .context = draft};
    memcpy(cluster.devices, draft->devices, sizeof(draft->devices));
    for (int i = 0; i < MOST_REPLICAS; i++) atomic_store(&watched[i].most, 0);
    run_workers_ok(&cluster);
}

static void check_draft(const struct draft *draft) {
    int replica = 0;
    for (int w = 0; w < draft->workers; w++)
        for (int d = 0; d < draft->devices[w]; d++, replica++) {
            size_t most = atomic_load(&watched[replica].most);
            (void)printf("#   replica %d: %zu of %zu bytes, planned %zu\n", replica, most, draft->whole,
                         draft->planned[replica]);
            ck_assert_uint_le(most, draft->planned[replica] + PAGE);
            ck_assert_uint_ge(most, draft->planned[replica] / 2);
        }
}

static void draw_draft(struct draw *draw, struct draft *draft) {
    *draft = (struct draft){.layers = 2 + (int)draw_below(draw, 6),
                            .units = 100 + (int)draw_below(draw, 250),
                            .workers = 2 + (int)draw_below(draw, MOST - 1),
                            .batch = draw_once_in(draw, 2) ? ROWS : 2 * MOST_REPLICAS,
                            .bytes_per_pack = draw_once_in(draw, 4) ? 0 : 1 + draw_below(draw, 300000),
                            .tied = draw_once_in(draw, 2),
                            .optimizer = draw_optimizer(draw),
                            .seed = draw->seed};
    draft->copies = draft->workers > 2 ? 1 + draw_once_in(draw, 2) : 1; /* with as many as workers all keep all */
    for (int w = 0; w < draft->workers; w++) draft->devices[w] = 1 + draw_once_in(draw, 3);
}

static void try_draft(struct draft *draft) {
    (void)printf("# %d layers of %d%s, %d workers, %d copies, batches of %d\n", draft->layers, draft->units,
                 draft->tied ? " and a tied table" : "", draft->workers, draft->copies, draft->batch);
    run_draft(draft);
    check_draft(draft);
}

TEST(replicas_have_the_pages_that_are_planned) {
    uint64_t seed = first_seed();
    static struct draft draft;
    for (int i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        try_draft(&draft);
    }
}

/* They come and go in large pages. */
TEST(many_gradients_too) {
    static struct draft draft = {
        .layers = 24, .units = 500, .activations = 4, .workers = 2, .devices = {1, 1}, .copies = 1, .batch = ROWS / 2};
    draft.optimizer = (ls_optimizer)ls_sgd(0.1F);
    try_draft(&draft);
    ck_assert_uint_gt(draft.whole, 8 << 20);
    ck_assert_uint_le(draft.planned[0] + (2 << 20), draft.whole);
}

TESTS("sync/kept_gradients")
