/* Workers that own the optimizer's moments, and may divide gradients: random models, optimizers, clips, accumulations,
 * buckets, workers and devices give the bits of workers that have them all, and a worker has its share of them. */
#include <stdio.h>
#include <string.h>

#include "device/norm.h"
#include "harness.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "train/draw_optimizer.h"
#include "train/shards.h"
#include "train/toy.h"

enum { CASES = SANITIZED ? 3 : 12, EPOCHS = 2, MOST = 4, UNITS = SANITIZED ? 60 : 400 };

struct draft {
    ls_layer layers[6];
    size_t count;
    ls_optimizer optimizer;
    int workers, devices[MOST], copies, batch;
    ls_sharding shard;
    size_t bytes_per_pack;
    bool frozen;
    uint64_t seed;
    /* what it gave */
    bool shards;
    char sha256[MOST][65];
    double loss;
    size_t held[MOST], trained; /* elements of a moment */
};

static void draw_layers(struct draw *draw, struct draft *draft) {
    draft->layers[draft->count++] =
        (ls_layer)ls_dense(2 + (int)draw_below(draw, UNITS), LS_TANH, .kernel_l2 = draw_once_in(draw, 3) ? 0.01F : 0,
                           .rate_multiplier = draw_once_in(draw, 3) ? 0.5F : 0);
    if (draw_once_in(draw, 2))
        draft->layers[draft->count++] = (ls_layer)ls_batch_normalization(.synchronized = draw_once_in(draw, 3));
    if (draw_once_in(draw, 2)) draft->layers[draft->count++] = (ls_layer)ls_dropout(0.2F);
    draft->layers[draft->count++] = (ls_layer)ls_dense(1 + (int)draw_below(draw, 20), LS_RELU);
    draft->layers[draft->count++] = (ls_layer)ls_dense(3);
}

static void draw_draft(struct draw *draw, struct draft *draft) {
    int replicas = 0;
    *draft = (struct draft){.seed = draw->seed, .workers = 1 + (int)draw_below(draw, MOST)};
    draw_layers(draw, draft);
    draft->optimizer = draw_optimizer(draw);
    if (!(draft->optimizer.global_clipnorm > 0) && draw_once_in(draw, 3)) draft->optimizer.clipnorm = 0.05F;
    if (draw_once_in(draw, 3)) draft->optimizer.weight_decay = 0.01F;
    draft->optimizer.gradient_accumulation_steps = draw_once_in(draw, 3) ? 2 : 0;
    draft->copies = 1 + (int)draw_below(draw, 3);
    draft->frozen = draw_once_in(draw, 4);
    draft->shard = draw_once_in(draw, 3) ? LS_SHARDING_OPTIMIZER : LS_SHARDING_GRADIENTS;
    draft->bytes_per_pack = draw_once_in(draw, 2) ? 1 + draw_below(draw, 20000) : 0;
    for (int w = 0; w < draft->workers; w++) replicas += draft->devices[w] = 1 + (int)draw_below(draw, 2);
    draft->batch = replicas * (1 + (int)draw_below(draw, 3));
}

static ls_status open_model(const struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy, draft->layers, draft->count, model);
    if (!status) status = ls_model_seed(*model, draft->seed);
    if (!status && draft->frozen) status = ls_model_set_frozen(*model, "dense_1", true);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static void note_held(const struct worker *worker, const ls_model *model, struct draft *draft) {
    if (!ls_shards_are(model)) return;
    draft->held[worker->rank] = model->built.shards->kept[0]->count;
    if (worker->rank) return;
    draft->shards = true;
    draft->trained = model->built.shards->terms.count;
}

static ls_status train(struct worker *worker) {
    struct draft *draft = worker->context;
    struct toy toy;
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    ls_result result;
    fill_toy(&toy);
    ls_status status = open_model(draft, worker->strategy, &model);
    if (!status)
        status = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                   LS_DATASET(.batch_size = draft->batch, .shuffle = LS_SHUFFLE_NEVER), &data);
    if (!status) status = ls_model_fit(model, data, LS_FIT(.epochs = EPOCHS, .verbose = -1), &result);
    if (!status) status = ls_model_weights_sha256(model, draft->sha256[worker->rank]);
    if (!status && !worker->rank) draft->loss = result.loss;
    if (!status) note_held(worker, model, draft);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void run_draft(struct draft *draft, ls_sharding shard) {
    struct worker_cluster cluster = {.count = draft->workers,
                                     .options.shard = shard,
                                     .options.bytes_per_pack = draft->bytes_per_pack,
                                     .options.shard_copies = shard ? draft->copies : 0,
                                     .fn = train,
                                     .context = draft};
    memcpy(cluster.devices, draft->devices, sizeof(draft->devices));
    run_workers_ok(&cluster);
}

/* Its share and the copies', but for chunks at the borders, and gaps between ranges. */
static void check_share(const struct draft *draft) {
    size_t copies = (size_t)(draft->copies < draft->workers ? draft->copies : draft->workers), sum = 0;
    size_t most = draft->trained / (size_t)draft->workers + 2 * LS_NORM_CHUNK;
    for (int w = 0; w < draft->workers; w++) {
        ck_assert_uint_le(draft->held[w], copies * most);
        sum += draft->held[w];
    }
    ck_assert_uint_ge(sum, copies * draft->trained);
}

TEST(owners_give_the_bits_of_all) {
    uint64_t seed = first_seed();
    static struct draft draft, whole;
    for (int i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        (void)printf("# shard %d, %zu layers, optimizer %d, %d workers, %d copies, batches of %d\n", (int)draft.shard,
                     draft.count, (int)draft.optimizer.kind, draft.workers, draft.copies, draft.batch);
        whole = draft;
        run_draft(&whole, LS_SHARDING_NONE);
        run_draft(&draft, draft.shard);
        ck_assert(draft.shards && !whole.shards);
        for (int w = 0; w < draft.workers; w++) ck_assert_str_eq(draft.sha256[w], whole.sha256[w]);
        ck_assert_double_eq(draft.loss, whole.loss);
        check_share(&draft);
    }
}

TESTS("sync/sharded")
