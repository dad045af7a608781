/* The MLP of the Horovod tutorials, 784-128-64-10: SGD with the learning rate scaled by the number of replicas, a batch
 * of 64 on each, validation after each epoch, metrics printed by the chief.
 *
 *     mlp [digits | a folder of MNIST's IDX files] [epochs] */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

static ls_status train(ls_strategy *strategy, const char *name, int epochs) {
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    ls_result result;
    char digest[65];
    int replicas = ls_num_replicas_in_sync(strategy);
    ls_status st = ls_dataset_open(name, LS_DATASET(.batch_size = 64 * replicas, .seed = 1), &data);
    if (!st) st = ls_dataset_open(name, LS_DATASET(.batch_size = 64 * replicas, .split = LS_TEST), &validation);
    if (!st)
        st = ls_model_new(strategy,
                          LS_LAYERS(ls_dense(128, LS_RELU, .kernel_initializer = LS_HE_UNIFORM, .name = "hidden_1"),
                                    ls_dense(64, LS_RELU, .kernel_initializer = LS_HE_UNIFORM, .name = "hidden_2"),
                                    ls_dense(10, .name = "logits")),
                          &model);
    if (!st)
        st = ls_model_compile(model, ls_sgd(0.01F * (float)replicas, .momentum = 0.9F),
                              LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = epochs, .validation_data = validation), &result);
    if (!st) st = ls_model_weights_sha256(model, digest);
    if (!st && ls_is_chief(strategy))
        (void)printf("%d replicas: validation accuracy %.4f after %lld steps, %.0f examples/s, weights %.12s\n",
                     replicas, result.val_accuracy, (long long)result.steps, result.samples_per_second, digest);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return st;
}

int main(int argc, char **argv) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_multi_worker_mirrored_strategy_new(NULL, &strategy);
    if (st) return ls_exit(st);
    st = train(strategy, argc > 1 ? argv[1] : "digits", argc > 2 ? atoi(argv[2]) : 3);
    return ls_exit(ls_strategy_close(strategy, st));
}
