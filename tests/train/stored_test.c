/* A checkpoint has all that parameter servers keep, or there is no checkpoint of the step. */
#define _GNU_SOURCE
#include "train/stored.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/memory.h"
#include "folder.h"
#include "harness.h"
#include "strategy/workers.h"
#include "train/model_state.h"
#include "train/toy.h"

struct training {
    ls_parameter_server_options stored;
    ls_checkpoint_options checkpoint;
    bool tables;
    void (*look)(ls_model *model); /* on rank 0, after its fit */
};

static ls_status make(const struct training *training, ls_strategy *strategy, ls_model **model) {
    ls_status status =
        training->tables
            ? ls_model_new(strategy,
                           LS_LAYERS(ls_embedding(8, 4, .sparse = true), ls_global_average_pooling1d(), ls_dense(3)),
                           model)
            : ls_model_new(
                  strategy,
                  LS_LAYERS(ls_dense(5, LS_TANH, .rate_multiplier = 0.1F), ls_dense(4, .frozen = true), ls_dense(3)),
                  model);
    return status ? status : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status train(struct worker *worker) {
    struct training *training = worker->context;
    struct toy toy;
    ls_model *model = NULL;
    ls_dataset *data = NULL;
    fill_toy(&toy);
    for (int i = 0; training->tables && i < EXAMPLES * WIDTH; i++) toy.features[i / WIDTH][i % WIDTH] = (float)(i % 8);
    ls_status status = make(training, worker->strategy, &model);
    if (!status)
        status = ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                   LS_DATASET(.batch_size = 10), &data);
    if (!status)
        status = ls_model_fit(
            model, data,
            LS_FIT(.verbose = -1, .checkpoint = training->checkpoint.folder ? &training->checkpoint : NULL), NULL);
    if (!status && !worker->rank) training->look(model);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void run_training(bool tables, bool keeps, void (*look)(ls_model *model)) {
    char folder[] = "/tmp/lockstep-stored-XXXXXX";
    struct training training = {
        .stored = {.size = sizeof(training.stored), .hybrid = tables, .sparse = tables ? LS_SPARSE_ALWAYS : 0},
        .checkpoint = {.size = sizeof(training.checkpoint), .folder = keeps ? folder : NULL, .every_steps = 1},
        .tables = tables,
        .look = look};
    struct worker_cluster cluster = {
        .count = 1, .devices = {1}, .servers = 1, .stored = &training.stored, .fn = train, .context = &training};
    if (keeps) ck_assert_ptr_nonnull(mkdtemp(folder));
    run_workers_ok(&cluster);
    if (keeps) ck_assert_int_eq(folder_remove(folder), 0);
}

static void expect_state(const ls_model *model, ls_status expected) {
    float *state = ls_alloc_array(ls_model_state_count(model, LS_PARTS_ALL), sizeof(*state));
    ck_assert_ptr_nonnull(state);
    ls_status status = ls_model_state_get(model, LS_PARTS_ALL, state);
    ck_assert_msg(status == expected, "%s", ls_error());
    ls_free(state);
}

static void look_at_a_fetch(ls_model *model) {
    ck_assert(ls_model_state_is_here(model));
    expect_state(model, LS_OK);
    assert_ok(ls_parts_expect(model->built.state, model->built.state_count)); /* a step begins to bring others */
    ck_assert(!ls_model_state_is_here(model));
    expect_state(model, LS_FAILED_PRECONDITION);
}

TEST(moments_on_their_way_are_those_of_no_step) {
    run_training(false, true, look_at_a_fetch);
    run_training(true, true, look_at_a_fetch);
}

static void look_without_a_fetch(ls_model *model) {
    ck_assert(!ls_model_state_is_here(model));
    expect_state(model, LS_FAILED_PRECONDITION);
}

TEST(what_was_not_brought_is_not_here) {
    run_training(false, false, look_without_a_fetch);
    run_training(true, false, look_without_a_fetch);
}

TESTS("train/stored", .seconds = 60)
