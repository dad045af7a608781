/* Trains a small model with two sparse tables, and prints its loss and a digest of what it predicts. Arguments are
 * words NAME=VALUE: strategy (mirrored, workers, servers, hybrid), sparse and copies of the servers, devices,
 * optimizer, epochs, ids (integers), checkpoint (a folder), every (its steps), load and save (files of weights), repeat
 * (evaluations), bad (a batch that has an id that is none). */
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 97, COUNT = 5, WORDS = 500, BATCH = 24 };

static float ids[EXAMPLES][COUNT];
static int32_t integers[EXAMPLES][COUNT], labels[EXAMPLES];
static int argument_count;
static char **arguments;

static const char *argument(const char *name, const char *otherwise) {
    for (int i = 1; i < argument_count; i++)
        if (!strncmp(arguments[i], name, strlen(name)) && arguments[i][strlen(name)] == '=')
            return arguments[i] + strlen(name) + 1;
    return otherwise;
}

static int number(const char *name, const char *otherwise) {
    return atoi(argument(name, otherwise));
}

/* Few words are frequent. */
static void fill(void) {
    uint32_t state = 1;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int j = 0; j < COUNT; j++) {
            state = state * 1664525 + 1013904223;
            ids[i][j] = (float)(state >> 8 & 1 ? state >> 9 & 15 : (state >> 9) % WORDS);
        }
        labels[i] = (int32_t)ids[i][0] % 3;
    }
    if (number("bad", "0")) ids[BATCH * (number("bad", "0") - 1) + BATCH - 1][3] = 700;
    for (int i = 0; i < EXAMPLES * COUNT; i++) integers[i / COUNT][i % COUNT] = (int32_t)ids[i / COUNT][i % COUNT];
}

static ls_optimizer optimizer(void) {
    const char *name = argument("optimizer", "sgd");
    if (!strcmp(name, "momentum")) return ls_sgd(0.1F, .momentum = 0.9F);
    if (!strcmp(name, "adam")) return ls_adam(0.01F);
    if (!strcmp(name, "adamw")) return ls_adamw(0.01F);
    if (!strcmp(name, "rmsprop")) return ls_rmsprop(0.01F, .centered = true, .momentum = 0.5F);
    if (!strcmp(name, "lamb")) return ls_lamb(0.01F);
    if (!strcmp(name, "batches")) return ls_sgd(0.1F, .gradient_accumulation_steps = 2);
    if (!strcmp(name, "clipnorm")) return ls_sgd(0.1F, .clipnorm = 1);
    return ls_sgd(0.5F);
}

static ls_status open_data(const ls_dataset_options *options, ls_dataset **data) {
    bool whole = argument("ids", NULL) != NULL;
    const ls_arrays *arrays =
        LS_ARRAYS(.count = EXAMPLES, .features = whole ? NULL : &ids[0][0], .ids = whole ? &integers[0][0] : NULL,
                  .shape = LS_SHAPE(COUNT), .labels = labels, .classes = 3);
    return ls_dataset_from_arrays(arrays, options, data);
}

static ls_status make_strategy(ls_strategy **strategy) {
    const char *name = argument("strategy", "mirrored"), *rule = argument("sparse", "always");
    const ls_strategy_options *options = LS_STRATEGY(.devices = argument("devices", "1"));
    if (!strcmp(name, "mirrored")) return ls_mirrored_strategy_new(options, strategy);
    if (!strcmp(name, "workers")) return ls_multi_worker_mirrored_strategy_new(options, strategy);
    const ls_parameter_server_options *servers =
        LS_PARAMETER_SERVER(.replicas = number("copies", "1"), .hybrid = !strcmp(name, "hybrid"),
                            .sparse = !strcmp(rule, "always")  ? LS_SPARSE_ALWAYS
                                      : !strcmp(rule, "never") ? LS_SPARSE_NEVER
                                                               : LS_SPARSE_BY_RULE);
    return ls_parameter_server_strategy_new(options, servers, strategy);
}

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    ls_status st = ls_model_new(strategy,
                                LS_LAYERS(ls_embedding(WORDS, 6, .name = "words", .sparse = true),
                                          ls_embedding(600, 4, .name = "others", .input = "input", .sparse = true),
                                          ls_concatenate("words"), ls_flatten(), ls_dense(8, LS_RELU), ls_dense(3)),
                                model);
    if (!st) st = ls_model_compile(*model, optimizer(), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    return st || !argument("load", NULL) ? st : ls_model_load_weights(*model, argument("load", NULL), NULL);
}

static void print(const ls_result *fitted, const ls_result *measured, const float *outputs, const ls_shape *shape) {
    uint64_t digest = UINT64_C(0xCBF29CE484222325);
    const unsigned char *bytes = (const unsigned char *)outputs;
    for (size_t i = 0; i < (size_t)(shape->dims[0] * shape->dims[1]) * sizeof(*outputs); i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001B3);
    (void)printf(
        "{\"steps\": %lld, \"loss\": %.9g, \"val_loss\": %.9g, \"evaluated\": %.9g, \"predictions\": \"%016llx\"}\n",
        (long long)fitted->steps, fitted->loss, fitted->val_loss, measured->loss, (unsigned long long)digest);
}

static ls_status train(ls_strategy *strategy, ls_model *model, ls_dataset *data, ls_dataset *whole) {
    ls_result fitted, measured;
    float *outputs = NULL;
    ls_shape shape;
    ls_checkpoint_options checkpoint = {sizeof(checkpoint), .folder = argument("checkpoint", NULL),
                                        .every_steps = number("every", "3"), .keep_on_success = true};
    ls_status st = ls_model_fit(model, data,
                                LS_FIT(.epochs = number("epochs", "3"), .validation_data = whole, .verbose = -1,
                                       .checkpoint = checkpoint.folder ? &checkpoint : NULL),
                                &fitted);
    if (!st && ls_is_chief(strategy)) (void)fprintf(stderr, "evaluates\n");
    for (int i = 0; i < number("repeat", "1") && !st; i++) {
        ls_memory_free(outputs);
        outputs = NULL;
        st = ls_model_evaluate(model, whole, &measured);
        if (!st) st = ls_model_predict(model, whole, &outputs, &shape);
    }
    if (!st && argument("save", NULL)) st = ls_model_save_weights(model, argument("save", NULL));
    if (!st && ls_is_chief(strategy)) print(&fitted, &measured, outputs, &shape);
    ls_memory_free(outputs);
    return st;
}

int main(int argc, char **argv) {
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    ls_dataset *data = NULL, *whole = NULL;
    argument_count = argc;
    arguments = argv;
    fill();
    ls_status st = make_strategy(&strategy);
    if (st) return ls_exit(st);
    st = open_data(LS_DATASET(.batch_size = BATCH), &data);
    if (!st) st = open_data(LS_DATASET(.batch_size = 32, .shuffle = LS_SHUFFLE_NEVER), &whole);
    if (!st) st = make_model(strategy, &model);
    if (!st) st = train(strategy, model, data, whole);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(whole);
    return ls_exit(ls_strategy_close(strategy, st));
}
