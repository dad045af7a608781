/* A few examples at a time have the bits that predict gives them in a dataset: of any layout of the worker, between
 * trainings, within one, and beside workers that do something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

enum { EXAMPLES = 37, SIDE = 6, WIDTH = SIDE * SIDE, WORDS = 50, CLASSES = 3 };

static float features[EXAMPLES][WIDTH];
static int32_t ids[EXAMPLES][WIDTH], labels[EXAMPLES];

static void fill(void) {
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i] = i % CLASSES;
        for (int j = 0; j < WIDTH; j++) {
            features[i][j] = (float)((i * 7 + j * 5) % 13) / 13.0F - 0.5F + (float)labels[i];
            ids[i][j] = (i * 3 + j * j) % WORDS;
        }
    }
}

/* A kind of network, from example first on. */
static ls_arrays examples_of(int kind, int first, int64_t count) {
    ls_arrays arrays = {.size = sizeof(arrays), .count = count, .shape = LS_SHAPE(WIDTH)};
    if (kind % 2) arrays.shape = LS_SHAPE(SIDE, SIDE, 1);
    arrays.features = kind == 2 ? NULL : features[first];
    arrays.ids = kind == 2 ? ids[first] : NULL;
    return arrays;
}

static ls_status new_model(ls_strategy *strategy, int kind, ls_model **model) {
    if (kind == 2)
        return ls_model_new(strategy,
                            LS_LAYERS(ls_embedding(WORDS, 4), ls_global_average_pooling1d(), ls_dense(CLASSES)), model);
    if (kind == 1)
        return ls_model_new(strategy,
                            LS_LAYERS(ls_conv2d(4, 3, 1, LS_SAME), ls_batch_normalization(), ls_relu(),
                                      ls_dropout(0.5F), ls_max_pooling2d(2), ls_flatten(), ls_dense(CLASSES)),
                            model);
    if (kind == 3) /* no activation behind what is computed in parts */
        return ls_model_new(
            strategy,
            LS_LAYERS(ls_conv2d(256, 3, 1, LS_SAME), ls_depthwise_conv2d(SIDE), ls_conv2d(CLASSES, 1), ls_flatten()),
            model);
    return ls_model_new(strategy, LS_LAYERS(ls_dense(17, LS_RELU), ls_dense(CLASSES)), model);
}

struct part {
    ls_model *model;
    ls_dataset *data;
    int kind;
    const float *expected; /* NULL: predict is asked */
};

/* Any rows, one and several, in any order. */
static void compare(const struct part *part) {
    float *all = NULL;
    ls_shape shape;
    if (!part->expected) assert_ok(ls_model_predict(part->model, part->data, &all, &shape));
    for (int i = 0; i < 12; i++) {
        int first = (i * 11) % EXAMPLES, count = i % 3 ? 1 + (i * 5) % (EXAMPLES - first) : 1;
        const ls_arrays examples = examples_of(part->kind, first, count);
        float *some = NULL;
        assert_ok(ls_model_predict_on_batch(part->model, &examples, &some, &shape));
        ck_assert(shape.rank == 2 && shape.dims[0] == count && shape.dims[1] == CLASSES);
        const float *expected = (part->expected ? part->expected : all) + first * CLASSES;
        ck_assert_mem_eq(some, expected, sizeof(float) * (size_t)(count * CLASSES));
        ls_memory_free(some);
    }
    ls_memory_free(all);
}

static ls_status compare_within(void *context, int epoch, const ls_result *result) {
    const struct part *part = context;
    const ls_arrays one = examples_of(part->kind, epoch, 1);
    (void)result;
    float *outputs = NULL;
    ls_shape shape;
    ls_status status = ls_model_predict_on_batch(part->model, &one, &outputs, &shape);
    ls_memory_free(outputs);
    return status;
}

static void open_both(ls_strategy *strategy, struct part *part) {
    ls_arrays examples = examples_of(part->kind, 0, EXAMPLES);
    examples.labels = labels;
    examples.classes = CLASSES;
    assert_ok(
        ls_dataset_from_arrays(&examples, LS_DATASET(.batch_size = 10, .shuffle = LS_SHUFFLE_NEVER), &part->data));
    assert_ok(new_model(strategy, part->kind, &part->model));
}

static void train(const struct part *part, bool looks, char digest[65]) {
    assert_ok(ls_model_fit(
        part->model, part->data,
        LS_FIT(.epochs = 3, .verbose = -1, .on_epoch = looks ? compare_within : NULL, .context = (void *)part), NULL));
    assert_ok(ls_model_weights_sha256(part->model, digest));
}

/* Looking changes nothing. */
TEST_EACH(bits_are_those_of_predict, 8) {
    static const char *const devices[] = {"1", "3"};
    char seen[2][65];
    fill();
    for (int looks = 0; looks < 2; looks++) {
        struct part part = {.kind = _i % 4};
        ls_strategy *strategy = NULL;
        assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices[_i / 4]), &strategy));
        open_both(strategy, &part);
        assert_ok(ls_model_compile(part.model, (ls_optimizer)ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
        if (looks) compare(&part);
        train(&part, looks, seen[looks]);
        compare(&part);
        ls_model_free(part.model);
        ls_dataset_free(part.data);
        ls_strategy_free(strategy);
    }
    ck_assert_str_eq(seen[0], seen[1]);
}

/* Neither compile nor a dataset; and other weights count from the call behind them on. */
TEST(weights_from_a_file_are_served) {
    char path[] = "/tmp/lockstep-serve-XXXXXX.npz";
    struct part part = {.kind = 1}, fresh = {.kind = 1};
    float *all = NULL;
    ls_strategy *strategy = NULL;
    ls_shape shape;
    char digest[65];
    fill();
    ck_assert_int_ge(mkstemps(path, 4), 0);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    open_both(strategy, &part);
    open_both(strategy, &fresh);
    assert_ok(ls_model_compile(part.model, (ls_optimizer)ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    train(&part, false, digest);
    assert_ok(ls_model_save_weights(part.model, path));
    assert_ok(ls_model_predict(part.model, part.data, &all, &shape));
    for (int built = 0; built < 2; built++) {
        if (built) train(&part, false, digest); /* away from what the file has */
        struct part served = built ? part : fresh;
        assert_ok(ls_model_load_weights(served.model, path, NULL));
        served.expected = all;
        compare(&served);
    }
    ls_memory_free(all);
    ls_model_free(part.model);
    ls_model_free(fresh.model);
    ls_dataset_free(part.data);
    ls_dataset_free(fresh.data);
    ls_strategy_free(strategy);
    ck_assert_int_eq(remove(path), 0);
}

/* The first call is that of both workers. */
static ls_status ask_alone(struct worker *worker) {
    ls_model *model = NULL;
    ls_shape shape;
    ls_status status = new_model(worker->strategy, 0, &model);
    for (int i = 0; !status && i < (worker->rank ? 1 : 20); i++) {
        const ls_arrays examples = examples_of(0, i, 1);
        float *outputs = NULL;
        status = ls_model_predict_on_batch(model, &examples, &outputs, &shape);
        ls_memory_free(outputs);
    }
    ls_model_free(model);
    return status;
}

TEST(other_workers_are_not_waited_for) {
    struct worker_cluster cluster = {.count = 2, .fn = ask_alone, .devices = {1, 1}};
    fill();
    run_workers_ok(&cluster);
}

TEST(what_does_not_fit_is_named) {
    struct part part = {.kind = 2};
    ls_strategy *strategy = NULL;
    ls_shape shape;
    float *outputs = NULL;
    fill();
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1"), &strategy));
    open_both(strategy, &part);
    compare(&part);
    int32_t wrong[WIDTH] = {WORDS};
    const struct {
        ls_arrays examples;
        const char *part;
    } cases[] = {
        {{.size = sizeof(ls_arrays), .count = 1, .ids = wrong, .shape = LS_SHAPE(WIDTH)}, "50"},
        {{.size = sizeof(ls_arrays), .count = 1, .ids = wrong, .shape = LS_SHAPE(WIDTH - 1)},
         "the model was built for"},
        {{.size = sizeof(ls_arrays), .count = 1, .features = features[0], .shape = LS_SHAPE(WIDTH)},
         "are floats, the model was built for integers"},
        {{.size = sizeof(ls_arrays), .count = 0, .ids = wrong, .shape = LS_SHAPE(WIDTH)}, "count 0"},
        {{.size = sizeof(ls_arrays), .count = 1, .shape = LS_SHAPE(WIDTH)}, "features is NULL"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused(ls_model_predict_on_batch(part.model, &cases[i].examples, &outputs, &shape), cases[i].part);
    }
    compare(&part);
    ls_model_free(part.model);
    ls_dataset_free(part.data);
    ls_strategy_free(strategy);
}

TESTS("predict_on_batch", .seconds = 120)
