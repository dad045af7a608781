/* A model of words: however replicas are laid out it learns the same, and an id that is none changes no variable of any
 * worker. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 48, COUNT = 5, WORDS = 30, WIDTH = 4 };

struct text {
    float ids[EXAMPLES][COUNT];
    int32_t labels[EXAMPLES];
};
struct training {
    bool broken; /* id 30 in the third step */
    char sha256[MAX_WORKERS][65], before[MAX_WORKERS][65];
    double accuracy;
};

/* The class is that of the words, which it has a third of. */
static void fill_text(struct text *text) {
    for (int i = 0; i < EXAMPLES; i++) {
        text->labels[i] = i % 3;
        for (int j = 0; j < COUNT; j++) text->ids[i][j] = (float)(10 * (i % 3) + (i * 7 + j * 3) % 10);
    }
}

static ls_status open_text(struct text *text, ls_dataset **data) {
    return ls_dataset_arrays(&text->ids[0][0], LS_SHAPE(COUNT), text->labels, EXAMPLES, 3,
                             LS_DATASET(.batch_size = 12, .shuffle = LS_SHUFFLE_NEVER), data);
}

static ls_status train(struct worker *worker) {
    struct training *training = worker->context;
    struct text text, broken;
    ls_dataset *data = NULL, *bad = NULL;
    ls_model *model = NULL;
    ls_result result = {0};
    fill_text(&text);
    fill_text(&broken);
    broken.ids[30][2] = 30;
    ls_status status = open_text(&text, &data);
    if (!status) status = open_text(&broken, &bad);
    if (!status)
        status =
            ls_model_new(worker->strategy,
                         LS_LAYERS(ls_embedding(WORDS, WIDTH), ls_global_average_pooling1d(), ls_dense(3)), &model);
    if (!status) status = ls_model_compile(model, ls_adam(0.05F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!status) status = ls_model_fit(model, data, LS_FIT(.epochs = 15, .verbose = -1), &result);
    if (!status) status = ls_model_weights_sha256(model, training->before[worker->rank]);
    if (!status && training->broken) {
        ls_status failed = ls_model_fit(model, bad, LS_FIT(.steps_per_epoch = 3, .verbose = -1), NULL);
        (void)snprintf(training->sha256[worker->rank], 65, "%s", failed ? "refused" : "taken");
        status = failed ? failed : LS_INTERNAL;
    } else if (!status) {
        status = ls_model_weights_sha256(model, training->sha256[worker->rank]);
    }
    if (!worker->rank) training->accuracy = result.accuracy;
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(bad);
    return status;
}

TEST(layouts_learn_the_same) {
    static const int layouts[][3] = {{1, 0, 0}, {4, 0, 0}, {2, 2, 0}, {1, 2, 1}};
    static struct training trainings[4];
    for (int i = 0; i < 4; i++) {
        struct worker_cluster cluster = {.fn = train, .context = &trainings[i]};
        for (int w = 0; w < 3 && layouts[i][w]; w++) cluster.devices[cluster.count++] = layouts[i][w];
        run_workers_ok(&cluster);
        ck_assert_double_eq(trainings[i].accuracy, 1);
        for (int w = 0; w < cluster.count; w++) ck_assert_str_eq(trainings[i].sha256[w], trainings[i].sha256[0]);
        if (i > 1) ck_assert_str_eq(trainings[i].sha256[0], trainings[1].sha256[0]); /* as many replicas */
    }
}

TEST(an_id_that_is_none_ends_all_workers) {
    static struct training training;
    training.broken = true;
    struct worker_cluster cluster = {.count = 2, .devices = {1, 2}, .fn = train, .context = &training};
    run_workers(&cluster);
    for (int w = 0; w < 2; w++) {
        const struct worker *worker = &cluster.workers[w];
        ck_assert_str_eq(training.sha256[w], "refused");
        ck_assert_msg(worker->status == LS_INVALID_ARGUMENT || worker->status == LS_ABORTED, "%s", worker->error);
        ck_assert_msg(strstr(worker->error, "epoch 1, step 3"), "%s", worker->error);
        ck_assert_msg(
            strstr(worker->error, "replica 1: layer 'embedding': row 2 has id 30 at place 2, but the table has 30"),
            "%s", worker->error);
    }
}

/* In one process, which goes on after the failure. */
TEST(an_id_that_is_none_changes_nothing) {
    struct text text, broken;
    char before[65], after[65];
    ls_strategy *strategy = NULL;
    ls_dataset *bad = NULL;
    ls_model *model = NULL;
    ls_result result;
    fill_text(&text);
    fill_text(&broken);
    broken.ids[3][4] = -1;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "3"), &strategy));
    assert_ok(open_text(&broken, &bad));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_embedding(WORDS, WIDTH), ls_flatten(), ls_dense(3)), &model));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    ck_assert_int_eq(ls_model_evaluate(model, bad, &result), LS_INVALID_ARGUMENT);
    assert_ok(ls_model_weights_sha256(model, before));
    assert_refused(ls_model_fit(model, bad, LS_FIT(.verbose = -1), NULL), "has id -1 at place 4");
    assert_ok(ls_model_weights_sha256(model, after));
    ck_assert_str_eq(before, after);
    ls_model_free(model);
    ls_dataset_free(bad);
    ls_strategy_free(strategy);
}

TESTS("train/embedding", .seconds = 60)
