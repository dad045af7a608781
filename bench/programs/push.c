/* Trains 1,024 parameters, one example a step, with SGD, for bench/push: a step has next to nothing to compute. Rank 0
 * prints one line of JSON. With ps tasks in TF_CONFIG a step pushes 4 KB to them and pulls 4 KB.
 *
 * usage: push alone|servers STEPS */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 255, CLASSES = 4, EXAMPLES = 64 };

static float features[EXAMPLES][FEATURES];
static int32_t labels[EXAMPLES];

static ls_status train(ls_strategy *strategy, int steps) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    ls_status st = ls_dataset_arrays(&features[0][0], LS_SHAPE(FEATURES), labels, EXAMPLES, CLASSES,
                                     LS_DATASET(.batch_size = 1, .repeat = steps / EXAMPLES), &data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(CLASSES)), &model);
    if (!st) st = ls_model_compile(model, ls_sgd(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), &result);
    if (!st && ls_is_chief(strategy))
        (void)printf("{\"microseconds\": %.9g, \"steps\": %lld}\n", 1e6 / result.samples_per_second,
                     (long long)result.steps);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

int main(int argc, char **argv) {
    ls_strategy *strategy = NULL;
    if (argc != 3) return 2;
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i] = i % CLASSES;
        for (int j = 0; j < FEATURES; j++) features[i][j] = (float)(i * 31 + j * 17) / 1000 - (float)((i + j) % 5);
    }
    ls_status st = strcmp(argv[1], "alone") ? ls_parameter_server_strategy_new(NULL, NULL, &strategy)
                                            : ls_mirrored_strategy_new(NULL, &strategy);
    return ls_exit(st ? st : ls_strategy_close(strategy, train(strategy, atoi(argv[2]))));
}
