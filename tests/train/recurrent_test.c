/* Layers over sequences in a training: they learn an order, however replicas are laid out; their weights go to a file
 * and back, and come from Keras' files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/shape.h"
#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 64, LENGTH = 8, WORDS = 6 };

struct training {
    char sha256[MAX_WORKERS][65];
    double accuracy;
};

static int32_t text_ids[EXAMPLES][LENGTH], text_labels[EXAMPLES];

/* Before any worker starts. Two words stand in one order or in the other one, which is the class; the rest are words of
 * no meaning. */
static void fill_text(void) {
    for (int i = 0; i < EXAMPLES; i++) {
        int first = i / 2 % 4, last = 4 + i / 8 % 4;
        text_labels[i] = i % 2;
        for (int j = 0; j < LENGTH; j++) text_ids[i][j] = 2 + (i * 5 + j * 3) % 4;
        text_ids[i][first] = text_labels[i], text_ids[i][last] = !text_labels[i];
    }
}

static ls_status open_text(ls_dataset **data) {
    return ls_dataset_from_arrays(LS_ARRAYS(.count = EXAMPLES, .ids = &text_ids[0][0], .shape = LS_SHAPE(LENGTH),
                                            .labels = text_labels, .classes = 2),
                                  LS_DATASET(.batch_size = 16, .shuffle = LS_SHUFFLE_NEVER), data);
}

static ls_status new_model(ls_strategy *strategy, ls_model **model) {
    ls_status status =
        ls_model_new(strategy,
                     LS_LAYERS(ls_embedding(WORDS, 4), ls_conv1d(6, 2, .padding = LS_CAUSAL),
                               ls_lstm(8, .return_sequences = true), ls_average_pooling1d(2), ls_gru(8), ls_dense(2)),
                     model);
    return status ? status : ls_model_compile(*model, ls_adam(0.03F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_status train(struct worker *worker) {
    struct training *training = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result = {0};
    ls_status status = open_text(&data);
    if (!status) status = new_model(worker->strategy, &model);
    if (!status) status = ls_model_fit(model, data, LS_FIT(.epochs = 25, .verbose = -1), &result);
    if (!status) status = ls_model_weights_sha256(model, training->sha256[worker->rank]);
    if (!worker->rank) training->accuracy = result.accuracy;
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

/* The mean of the words is the same for both classes. */
TEST(layouts_learn_the_same_order_of_words) {
    fill_text();
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

TEST_EACH(weights_go_to_a_file_and_back, 2) {
    fill_text();
    char path[64], digests[2][65];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    (void)snprintf(path, sizeof(path), "/tmp/lockstep-recurrent-%d.%s", (int)getpid(), _i ? "npz" : "safetensors");
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(open_text(&data));
    for (int i = 0; i < 2; i++) {
        ls_model *model = NULL;
        assert_ok(new_model(strategy, &model));
        assert_ok(ls_model_seed(model, (uint64_t)i));
        if (i) assert_ok(ls_model_load_weights(model, path, NULL));
        if (!i) assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), NULL));
        assert_ok(ls_model_evaluate(model, data, NULL));
        assert_ok(ls_model_weights_sha256(model, digests[i]));
        if (!i) assert_ok(ls_model_save_weights(model, path));
        ls_model_free(model);
    }
    ck_assert_str_eq(digests[0], digests[1]);
    ck_assert_int_eq(unlink(path), 0);
    ls_dataset_free(data);
    assert_ok(ls_strategy_close(strategy, LS_OK));
}

/* As tests/golden/weights.py makes it: element i of variable k is k + i / 16. */
TEST_EACH(weights_come_from_files_of_keras, 2) {
    static const int32_t ids[2][7] = {{0, 1, 2, 3, 4, 0, 1}, {4, 3, 2, 1, 0, 4, 3}}, labels[2] = {0, 1};
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    assert_ok(ls_dataset_from_arrays(
        LS_ARRAYS(.count = 2, .ids = &ids[0][0], .shape = LS_SHAPE(7), .labels = labels, .classes = 2), NULL, &data));
    assert_ok(ls_model_new(strategy,
                           LS_LAYERS(ls_embedding(5, 4), ls_conv1d(4, 2), ls_lstm(3, .return_sequences = true),
                                     ls_gru(2, .return_sequences = true, .name = "mine"), ls_lstm(2, .no_bias = true)),
                           &model));
    assert_ok(ls_model_load_weights(model, _i ? WEIGHTS_GOLDEN "/sequences.h5" : WEIGHTS_GOLDEN "/sequences.weights.h5",
                                    NULL));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(ls_model_evaluate(model, data, NULL));
    ck_assert_int_eq(ls_model_num_variables(model), 11);
    for (int k = 0; k < 11; k++) {
        const char *name;
        const float *values;
        ls_shape shape;
        assert_ok(ls_model_variable(model, k, &name, &shape, &values));
        for (int64_t i = 0; i < ls_shape_count(&shape); i++) ck_assert(values[i] == (float)k + (float)i / 16);
    }
    ls_model_free(model);
    ls_dataset_free(data);
    assert_ok(ls_strategy_close(strategy, LS_OK));
}

TESTS("recurrent", .seconds = 60)
