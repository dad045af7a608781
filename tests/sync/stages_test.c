/* A pipeline of stages over workers: random models, optimizers, clips, batches, schedules and numbers of stages give
 * the bits of gradient accumulation on one device. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "property/draw.h"
#include "strategy/workers.h"
#include "sync/pipeline_order.h"
#include "train/draw_optimizer.h"
#include "train/stages.h"
#include "train/toy.h"

#define TEXT "/usr/share/common-licenses/GPL-3"
enum {
    CASES = SANITIZED ? 4 : 16,
    EPOCHS = 2,
    MOST = 4,
    MOST_WORKERS = 2 * MOST,
    MOST_LAYERS = 16,
    CONTEXT = 8,
    TEXTS = 5
};

struct draft {
    ls_layer layers[MOST_LAYERS];
    size_t count;
    const char *transformer; /* NULL: the layers are above */
    ls_application_options application;
    ls_optimizer optimizer;
    int stages, replicas, batch;
    bool gpipe, frozen, validates;
    uint64_t seed;
    /* what it gave */
    char sha256[MOST_WORKERS][65];
    ls_result result[MOST_WORKERS];
    size_t trained[MOST_WORKERS]; /* elements of each worker's stage */
};

static void add_layer(struct draft *draft, ls_layer layer) {
    draft->layers[draft->count++] = layer;
}

/* A residual block may not be cut inside. */
static void draw_layers(struct draw *draw, struct draft *draft) {
    int width = 2 + (int)draw_below(draw, SANITIZED ? 30 : 90);
    bool sum = draw_once_in(draw, 2);
    add_layer(draft, (ls_layer)ls_dense(width, LS_TANH, .name = "first"));
    if (draw_once_in(draw, 3)) add_layer(draft, (ls_layer)ls_batch_normalization());
    if (sum) add_layer(draft, (ls_layer)ls_dense(width, LS_RELU, .name = "entry"));
    if (sum) add_layer(draft, (ls_layer)ls_dense(width, LS_GELU));
    if (sum) add_layer(draft, (ls_layer)ls_add("entry"));
    if (draw_once_in(draw, 2)) add_layer(draft, (ls_layer)ls_dropout(0.2F));
    add_layer(draft, (ls_layer)ls_dense(1 + (int)draw_below(draw, 20), LS_RELU));
    if (draw_once_in(draw, 3)) add_layer(draft, (ls_layer)ls_batch_normalization(.momentum = 0.9F));
    add_layer(draft, (ls_layer)ls_dense(5, LS_SIGMOID));
    add_layer(draft, (ls_layer)ls_dense(3));
}

static void draw_transformer(struct draw *draw, struct draft *draft) {
    draft->transformer = draw_once_in(draw, 2) ? "llama" : "gpt";
    draft->application =
        *LS_APPLICATION(.classes = 256, .layers = 2 + (int)draw_below(draw, 2), .heads = 2,
                        .width = 4 * (1 + (int)draw_below(draw, 4)), .dropout = draw_once_in(draw, 2) ? 0.1F : 0);
}

static void draw_draft(struct draw *draw, struct draft *draft) {
    *draft = (struct draft){.seed = draw->seed, .stages = 2 + (int)draw_below(draw, MOST - 1), .replicas = 1};
    if (draw_once_in(draw, 2)) draft->replicas = 2 + (draft->stages == 2 && draw_once_in(draw, 2));
    (draw_once_in(draw, 2) ? draw_layers : draw_transformer)(draw, draft);
    draft->optimizer = draw_optimizer(draw);
    if (!(draft->optimizer.global_clipnorm > 0) && draw_once_in(draw, 3)) draft->optimizer.clipnorm = 0.05F;
    if (draw_once_in(draw, 3)) draft->optimizer.weight_decay = 0.01F;
    draft->optimizer.gradient_accumulation_steps = (int)draw_below(draw, 7);
    draft->batch = draft->replicas + (int)draw_below(draw, 8);
    draft->gpipe = draw_once_in(draw, 2);
    draft->frozen = !draft->transformer && draw_once_in(draw, 4);
    if (draft->frozen && draft->stages > 3) draft->stages = 3; /* each trains a variable */
    draft->validates = draw_once_in(draw, 3);
}

static ls_status open_model(const struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_layer *made = NULL;
    size_t count = draft->count;
    ls_status status = LS_OK;
    if (draft->transformer) status = ls_application(draft->transformer, &draft->application, &made, &count);
    if (!status) status = ls_model_new(strategy, made ? made : draft->layers, count, model);
    ls_memory_free(made);
    if (!status) status = ls_model_seed(*model, draft->seed);
    if (!status && draft->frozen) status = ls_model_set_frozen(*model, "first", true);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status open_data(const struct draft *draft, const struct toy *toy, ls_dataset **data) {
    if (draft->transformer)
        return ls_dataset_tokens(TEXT,
                                 LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = CONTEXT, .batch_size = draft->batch,
                                            .limit = TEXTS * draft->batch - 1),
                                 data);
    return ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                             LS_DATASET(.batch_size = draft->batch), data);
}

static void note_share(const struct worker *worker, const ls_model *model, struct draft *draft) {
    const struct ls_stages *stages = model->built.stages;
    ck_assert(!stages == (draft->stages == 1));
    if (!stages) return;
    ck_assert_int_eq(stages->own, worker->rank % draft->stages);
    ck_assert_int_eq(ls_num_replicas_in_sync(worker->strategy), draft->replicas);
    draft->trained[worker->rank] = stages->ranges[0].end - stages->ranges[0].begin;
}

static ls_status train(struct worker *worker) {
    struct draft *draft = worker->context;
    struct toy toy;
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    fill_toy(&toy);
    worker->strategy->pipeline = draft->gpipe ? LS_PIPELINE_GPIPE : LS_PIPELINE_1F1B;
    ls_status status = open_model(draft, worker->strategy, &model);
    if (!status) status = open_data(draft, &toy, &data);
    if (!status)
        status = ls_model_fit(
            model, data, LS_FIT(.epochs = EPOCHS, .verbose = -1, .validation_data = draft->validates ? data : NULL),
            &draft->result[worker->rank]);
    if (!status) status = ls_model_weights_sha256(model, draft->sha256[worker->rank]);
    if (!status) note_share(worker, model, draft);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

/* Without stages one worker has all replicas. */
static void run_draft(struct draft *draft, int stages) {
    int workers = stages > 1 ? stages * draft->replicas : 1;
    struct worker_cluster cluster = {
        .count = workers, .options.stages = stages > 1 ? stages : 0, .fn = train, .context = draft};
    draft->stages = stages;
    for (int w = 0; w < workers; w++) cluster.devices[w] = stages > 1 ? 1 : draft->replicas;
    run_workers_ok(&cluster);
}

static void compare(const struct draft *draft, const struct draft *whole) {
    size_t trained = 0;
    for (int w = 0; w < draft->stages * draft->replicas; w++) {
        ck_assert_str_eq(draft->sha256[w], whole->sha256[0]);
        ck_assert_double_eq(draft->result[w].loss, whole->result[0].loss);
        ck_assert_double_eq(draft->result[w].accuracy, whole->result[0].accuracy);
        ck_assert_int_eq(draft->result[w].steps, whole->result[0].steps);
        if (draft->validates) ck_assert_double_eq_tol(draft->result[w].val_loss, whole->result[0].val_loss, 1e-4);
        ck_assert_uint_gt(draft->trained[w], 0);
        ck_assert_uint_eq(draft->trained[w], draft->trained[w % draft->stages]);
        trained += draft->trained[w];
    }
    ck_assert_uint_gt(trained, 0);
}

TEST(stages_give_the_bits_of_accumulation) {
    uint64_t seed = first_seed();
    static struct draft draft, whole;
    for (int i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, (uint64_t)i);
        draw_draft(&draw, &draft);
        (void)printf("# %s, optimizer %d, %d stages, %d replicas, %d batches of %d, %s\n",
                     draft.transformer ? draft.transformer : "layers", (int)draft.optimizer.kind, draft.stages,
                     draft.replicas, draft.optimizer.gradient_accumulation_steps, draft.batch,
                     draft.gpipe ? "GPipe" : "1F1B");
        whole = draft;
        run_draft(&whole, 1);
        run_draft(&draft, draft.stages);
        compare(&draft, &whole);
    }
}

/* ---- between the ends of epochs ---- */

static ls_status try_copy(void *context, const ls_callback_call *call) {
    char sha256[65];
    int *tries = context;
    ls_status status = ls_model_weights_sha256(call->model, sha256);
    tries[status == LS_OK]++;
    if (status) assert_fails(status, LS_FAILED_PRECONDITION, "are on the workers of their stages");
    return LS_OK;
}

static ls_status train_and_look(struct worker *worker) {
    struct draft *draft = worker->context;
    struct toy toy;
    int tries[2] = {0};
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    ls_callback callback = LS_CALLBACK(.name = "copies", .context = tries, .on_train_batch_end = try_copy);
    fill_toy(&toy);
    ls_status status = open_model(draft, worker->strategy, &model);
    if (!status) status = open_data(draft, &toy, &data);
    if (!status)
        status = ls_model_fit(model, data,
                              LS_FIT(.epochs = EPOCHS, .verbose = -1, .callbacks = (ls_callback *[]){&callback, NULL}),
                              NULL);
    if (!status) ck_assert_int_eq(tries[0], EPOCHS * (EXAMPLES / draft->batch - 1));
    if (!status) ck_assert_int_eq(tries[1], EPOCHS);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

TEST(a_copy_of_all_variables_is_there_at_the_end_of_an_epoch) {
    static struct draft draft;
    draft = (struct draft){.layers = {ls_dense(7, LS_RELU), ls_dense(3)},
                           .count = 2,
                           .optimizer = ls_adam(0.01F),
                           .batch = 8,
                           .stages = 2,
                           .replicas = 1};
    struct worker_cluster cluster = {
        .count = 2, .devices = {1, 1}, .options.stages = 2, .fn = train_and_look, .context = &draft};
    run_workers_ok(&cluster);
}

/* ---- the schedule ---- */

/* Stages that send without waiting, and wait for what they receive, come to the end; each holds as few as it says. */
static void run_order(int stages, int batches, enum ls_pipeline_kind kind) {
    int at[8] = {0}, forward[8] = {0}, backward[8] = {0}, moved = 1, left = stages * 2 * batches;
    while (left && moved) {
        moved = 0;
        for (int s = 0; s < stages; s++) {
            const struct ls_pipeline_order order = {stages, s, batches, kind};
            if (at[s] == 2 * batches) continue;
            struct ls_pipeline_action action = ls_pipeline_order_at(&order, at[s]);
            bool ready = action.backward ? s + 1 == stages || backward[s + 1] > action.batch
                                         : !s || forward[s - 1] > action.batch;
            if (!ready) continue;
            ck_assert_int_eq(action.batch, action.backward ? backward[s] : forward[s]);
            ++*(action.backward ? &backward[s] : &forward[s]);
            ck_assert_int_le(backward[s], forward[s]);
            ck_assert_int_le(forward[s] - backward[s], ls_pipeline_order_depth(&order));
            at[s]++;
            moved++;
            left--;
        }
    }
    ck_assert_int_eq(left, 0);
}

TEST(each_schedule_comes_to_its_end) {
    for (int stages = 1; stages <= 8; stages++)
        for (int batches = 1; batches <= 10; batches++) {
            run_order(stages, batches, LS_PIPELINE_1F1B);
            run_order(stages, batches, LS_PIPELINE_GPIPE);
            for (int s = 0; s < stages; s++) {
                const struct ls_pipeline_order order = {stages, s, batches, LS_PIPELINE_1F1B};
                ck_assert_int_eq(ls_pipeline_order_depth(&order), batches < stages - s ? batches : stages - s);
            }
        }
}

/* ---- what cannot be ---- */

struct refusal {
    ls_layer layers[6];
    size_t count;
    int stages;
    const char *words;
};

static ls_status try_layers(struct worker *worker) {
    const struct refusal *refusal = worker->context;
    struct toy toy;
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    fill_toy(&toy);
    ls_status status = ls_model_new(worker->strategy, refusal->layers, refusal->count, &model);
    if (!status) status = ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!status) status = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3, NULL, &data);
    if (!status) status = ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static const struct refusal refusals[] = {
    {{ls_dense(3)}, 1, 2, "stages 2: the model can be cut into 1 at most"},
    {{ls_dense(3, .name = "a"), ls_dense(3), ls_dense(3), ls_add("a")},
     4,
     3,
     "stages 3: the model can be cut into 2 at most"},
    {{ls_dense(4), ls_batch_normalization(.synchronized = true), ls_dense(3)}, 3, 2, "layer 1 is a synchronized batch"},
    {{ls_dense(4, .kernel_l2 = 0.1F), ls_dense(3)}, 2, 2, "a layer has a regularizer"},
};

TEST_EACH(what_cannot_be_cut_is_named, COUNT_OF(refusals)) {
    static struct refusal refusal;
    refusal = refusals[_i];
    struct worker_cluster cluster = {.count = refusal.stages,
                                     .devices = {1, 1, 1},
                                     .options.stages = refusal.stages,
                                     .fn = try_layers,
                                     .context = &refusal};
    run_workers(&cluster);
    for (int w = 0; w < refusal.stages; w++) {
        ck_assert_int_ne(cluster.workers[w].status, LS_OK);
        ck_assert_msg(strstr(cluster.workers[w].error, refusal.words) != NULL, "%s", cluster.workers[w].error);
    }
}

TESTS("sync/stages")
