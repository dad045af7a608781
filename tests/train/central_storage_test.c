/* CentralStorageStrategy against MirroredStrategy: random models, optimizers and numbers of replicas give the same
 * bits, while moments are there once. Checkpoints of one go on under the other. */
#define _GNU_SOURCE /* nftw */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "harness.h"
#include "model/optimizer.h"
#include "property/draw.h"
#include "train/model.h"
#include "train/toy.h"

enum { CASES = 12, EPOCHS = 2 };

struct outcome {
    char sha256[65];
    double loss, accuracy, val_loss, evaluated;
    size_t moments, parameters; /* blobs of the worker */
};
struct draft {
    ls_layer layers[8];
    size_t count;
    ls_optimizer optimizer;
    int replicas, batch;
    uint64_t seed;
};

static ls_optimizer draw_optimizer(struct draw *draw) {
    const ls_optimizer rules[] = {
        ls_sgd(0.1F),    ls_sgd(0.1F, .momentum = 0.9F, .nesterov = true),
        ls_adam(0.01F),  ls_adam(0.01F, .epsilon = 0.1F, .weight_decay = 0.1F),
        ls_adamw(0.01F), ls_rmsprop(0.01F, .momentum = 0.5F, .centered = true),
        ls_lamb(0.01F),
    };
    ls_optimizer rule = rules[draw_below(draw, sizeof(rules) / sizeof(rules[0]))];
    if (draw_once_in(draw, 3)) rule.global_clipnorm = 0.5F;
    if (draw_once_in(draw, 3)) rule.gradient_accumulation_steps = 2;
    return rule;
}

static void draw_draft(struct draw *draw, struct draft *draft) {
    *draft = (struct draft){.seed = draw->seed};
    for (size_t hidden = draw_below(draw, 3); hidden > 0; hidden--) {
        draft->layers[draft->count++] =
            (ls_layer)ls_dense(1 + (int)draw_below(draw, 9), LS_TANH, .kernel_l2 = draw_once_in(draw, 2) ? 0.01F : 0,
                               .frozen = draw_once_in(draw, 4));
        if (draw_once_in(draw, 2))
            draft->layers[draft->count++] = (ls_layer)ls_batch_normalization(.synchronized = draw_once_in(draw, 2),
                                                                             .frozen = draw_once_in(draw, 4));
        if (draw_once_in(draw, 3)) draft->layers[draft->count++] = (ls_layer)ls_dropout(0.3F);
    }
    draft->layers[draft->count++] = (ls_layer)ls_dense(3, .rate_multiplier = draw_once_in(draw, 2) ? 0.5F : 0);
    draft->optimizer = draw_optimizer(draw);
    draft->replicas = 1 + (int)draw_below(draw, 5);
    draft->batch = 1 + (int)draw_below(draw, EXAMPLES);
}

static ls_strategy *open_strategy(bool central, int replicas) {
    ls_strategy *strategy = NULL;
    char devices[16];
    (void)snprintf(devices, sizeof(devices), "%d", replicas);
    if (central)
        assert_ok(ls_central_storage_strategy_new(LS_STRATEGY(.devices = devices),
                                                  LS_CENTRAL_STORAGE(.parameter_device = "CPU:0"), &strategy));
    else
        assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices), &strategy));
    return strategy;
}

static void count_blobs(const ls_model *model, struct outcome *outcome) {
    outcome->moments = outcome->parameters = 0;
    for (int i = 0; i < model->built.replica_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        outcome->parameters += !replica->shares;
        for (int m = 0; m < LS_MAX_MOMENTS; m++) outcome->moments += replica->moments[m] != NULL;
    }
}

/* epochs: so many; folder: with a checkpoint there, which stays. */
static void train(const struct draft *draft, bool central, int epochs, const char *folder, struct outcome *outcome) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    fill_toy(&toy);
    ls_strategy *strategy = open_strategy(central, draft->replicas);
    assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                LS_DATASET(.batch_size = draft->batch, .seed = draft->seed), &data));
    assert_ok(ls_model_new(strategy, draft->layers, draft->count, &model));
    assert_ok(ls_model_seed(model, draft->seed));
    assert_ok(ls_model_compile(model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    const ls_checkpoint_options *checkpoint = folder ? LS_CHECKPOINT(.folder = folder, .keep_on_success = true) : NULL;
    assert_ok(ls_model_fit(model, data,
                           LS_FIT(.epochs = epochs, .verbose = -1, .validation_data = data, .checkpoint = checkpoint),
                           &result));
    *outcome = (struct outcome){.loss = result.loss, .accuracy = result.accuracy, .val_loss = result.val_loss};
    assert_ok(ls_model_evaluate(model, data, &result));
    outcome->evaluated = result.loss;
    assert_ok(ls_model_weights_sha256(model, outcome->sha256));
    count_blobs(model, outcome);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

static void expect_equal(const struct outcome *one, const struct outcome *other) {
    ck_assert_str_eq(one->sha256, other->sha256);
    ck_assert(!memcmp(&one->loss, &other->loss, sizeof(one->loss)));
    ck_assert(!memcmp(&one->accuracy, &other->accuracy, sizeof(one->accuracy)));
    ck_assert(!memcmp(&one->val_loss, &other->val_loss, sizeof(one->val_loss)));
    ck_assert(!memcmp(&one->evaluated, &other->evaluated, sizeof(one->evaluated)));
}

TEST(central_storage_gives_the_bits_of_mirrored) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, i);
        struct draft draft;
        struct outcome central, mirrored;
        draw_draft(&draw, &draft);
        train(&draft, true, EPOCHS, NULL, &central);
        train(&draft, false, EPOCHS, NULL, &mirrored);
        expect_equal(&central, &mirrored);
        ck_assert_uint_eq(central.parameters, 1);
        ck_assert_uint_eq(mirrored.parameters, (size_t)draft.replicas);
        ck_assert_uint_eq(mirrored.moments, central.moments * (size_t)draft.replicas);
    }
}

TEST(a_checkpoint_goes_on_under_the_other) {
    const struct draft draft = {.layers = {ls_dense(5, LS_TANH), ls_batch_normalization(), ls_dense(3)},
                                .count = 3,
                                .optimizer = ls_adam(0.01F),
                                .replicas = 3,
                                .batch = 7};
    struct outcome whole, half, gone_on;
    train(&draft, false, 4, NULL, &whole);
    for (int central = 0; central < 2; central++) {
        char folder[] = "/tmp/lockstep-central-XXXXXX";
        ck_assert_ptr_nonnull(mkdtemp(folder));
        train(&draft, central, 2, folder, &half);
        ck_assert_str_ne(half.sha256, whole.sha256);
        train(&draft, !central, 4, folder, &gone_on);
        expect_equal(&gone_on, &whole);
        ck_assert_int_eq(folder_remove(folder), 0);
    }
}

static ls_status add_ids(ls_replica *replica, void *context) {
    ls_variable *variable = context;
    const float one = (float)(1 + ls_replica_id(replica));
    return ls_variable_assign_add(variable, replica, &one);
}

TEST(a_custom_loop_has_its_variables) {
    ls_variable *variable = NULL;
    float sum = 0;
    ls_strategy *strategy = open_strategy(true, 3);
    assert_ok(
        ls_variable_new(strategy, "v", LS_VARIABLE(.shape = LS_SHAPE(1), .aggregation = LS_AGGREGATE_SUM), &variable));
    assert_ok(ls_strategy_run(strategy, add_ids, variable));
    assert_ok(ls_variable_read(variable, &sum));
    ck_assert(sum == 6);
    ls_strategy_free(strategy);
}

TEST(another_parameter_device_is_refused) {
    ls_strategy *strategy = NULL;
    assert_refused(ls_central_storage_strategy_new(LS_STRATEGY(.devices = "2"),
                                                   LS_CENTRAL_STORAGE(.parameter_device = "GPU:0"), &strategy),
                   "parameter_device 'GPU:0' is not CPU:0");
    ck_assert_ptr_null(strategy);
    assert_ok(ls_central_storage_strategy_new(LS_STRATEGY(.devices = "2"), NULL, &strategy));
    ls_strategy_free(strategy);
}

TESTS("train/central_storage", .seconds = 120)
