/* A training's state as bytes: two models of one strategy come back with their counters and variables, and bytes that
 * are none of this version are DATA_LOSS. */
#include "train/training_state.h"

#include <string.h>

#include "base/memory.h"
#include "harness.h"
#include "strategy/iterator.h"
#include "train/model_state.h"

#define EXAMPLES 12
#define WORDS    7 /* before the first part */
#define INSIDE   2 /* of these: the one whose lowest bit no other one contradicts */

/* Two models that have trained, and the state then. */
struct trained {
    ls_strategy *strategy;
    ls_dataset *data;
    struct ls_pipeline *pipeline;
    ls_model *models[2];
    char sha256[2][65];
    struct ls_bytes state;
    void *made; /* owns the state */
};

static void train_both(struct trained *trained) {
    static float features[EXAMPLES][2];
    static int32_t labels[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) labels[i] = i % 3, features[i][i % 2] = (float)i;
    assert_ok(ls_one_device_strategy_new("cpu:0", &trained->strategy));
    assert_ok(ls_dataset_arrays(&features[0][0], LS_SHAPE(2), labels, EXAMPLES, 3, LS_DATASET(.batch_size = 4),
                                &trained->data));
    assert_ok(ls_iterator_open_pipeline(trained->strategy, trained->data, NULL, &trained->pipeline));
    for (int i = 0; i < 2; i++) {
        ls_model **model = &trained->models[i];
        assert_ok(ls_model_new(trained->strategy, LS_LAYERS(ls_dense(3)), model));
        assert_ok(ls_model_compile(*model, ls_sgd(0.1F, .momentum = 0.9F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
        assert_ok(ls_model_fit(*model, trained->data, LS_FIT(.epochs = 1 + i, .verbose = -1), NULL));
        assert_ok(ls_model_weights_sha256(*model, trained->sha256[i]));
    }
    assert_ok(ls_training_state_encode(trained->strategy->training, &trained->state, &trained->made));
}

static void free_trained(struct trained *trained) {
    for (int i = 0; i < 2; i++) ls_model_free(trained->models[i]);
    ls_pipeline_free(trained->pipeline);
    ls_dataset_free(trained->data);
    ls_strategy_free(trained->strategy);
    ls_free(trained->made);
}

/* As a process that has come anew and has had these bytes. */
static ls_status resume(const struct trained *trained, int model, struct ls_bytes bytes) {
    const struct ls_training_call call = {
        .model = trained->models[model], .data = trained->data, .pipeline = trained->pipeline, .index = 2};
    struct ls_bytes *inherited = &trained->strategy->runtime->inherited[LS_STATE_TRAINING];
    struct ls_fit_state state = {0};
    enum ls_call_stand stand;
    *inherited = (struct ls_bytes){ls_alloc_aligned(bytes.size), bytes.size};
    ck_assert_ptr_nonnull(inherited->data);
    memcpy(inherited->data, bytes.data, bytes.size);
    ls_status status = ls_training_state_resume(&call, &state, &stand);
    ck_assert(status || stand == LS_CALL_NEW);
    ls_free(ls_steal(inherited->data));
    return status;
}

TEST(both_models_come_back) {
    struct trained trained = {0};
    train_both(&trained);
    struct ls_training *training = trained.strategy->training;
    for (int i = 0; i < 2; i++) {
        ls_model *model = trained.models[i];
        char sha256[65];
        const struct ls_training_progress none = {.step = 1000, .learning_rate = 7};
        float zeros[64] = {0};
        ck_assert_uint_le(ls_model_state_count(model, LS_PARTS_HERE), 64);
        assert_ok(ls_model_state_set(model, LS_PARTS_HERE, LS_FROM_PROGRAM, zeros));
        ls_model_state_set_progress(model, &none);
        training->done = 0;
        assert_ok(resume(&trained, i, trained.state));
        ck_assert_int_eq(training->done, 2);
        ck_assert_int_eq(training->results[i].steps, 3 * (i + 1));
        ck_assert_int_eq(model->progress.step.iteration, 3 * (i + 1));
        ck_assert_float_eq(model->progress.step.rule.learning_rate, 0.1F);
        assert_ok(ls_model_weights_sha256(model, sha256));
        ck_assert_str_eq(sha256, trained.sha256[i]);
    }
    free_trained(&trained);
}

TEST(bytes_of_another_length_are_none) {
    struct trained trained = {0};
    train_both(&trained);
    struct ls_bytes cut = trained.state;
    for (cut.size = 0; cut.size < trained.state.size; cut.size++)
        ck_assert_int_eq(resume(&trained, 0, cut), LS_DATA_LOSS);
    char *longer = ls_alloc(trained.state.size + 8);
    memcpy(longer, trained.state.data, trained.state.size);
    ck_assert_int_eq(resume(&trained, 0, (struct ls_bytes){longer, trained.state.size + 8}), LS_DATA_LOSS);
    ls_free(longer);
    free_trained(&trained);
}

TEST(changed_headings_are_none) {
    struct trained trained = {0};
    train_both(&trained);
    char *bytes = trained.state.data;
    size_t end = WORDS * sizeof(int64_t) + ls_training_progress_size(LS_PROGRESS_FIT | LS_PROGRESS_RESULT) +
                 2 * ls_training_progress_size(LS_PROGRESS_RESULT);
    for (size_t bit = 0; bit < 8 * end; bit++) {
        if (bit == INSIDE * sizeof(int64_t) * 8) continue;
        trained.strategy->training->done = 0;
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        ck_assert_msg(resume(&trained, 0, trained.state) == LS_DATA_LOSS, "bit %zu", bit);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    assert_ok(resume(&trained, 0, trained.state));
    free_trained(&trained);
}

TESTS("training_state")
