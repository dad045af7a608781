/* A worker whose rank 1 reads an example that never comes: its map function pauses for ever. With "replica" it is a
 * custom loop instead, whose second replica takes three seconds.
 *
 * usage: stuck DATA_THREADS|replica */
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXAMPLES = 64, STUCK = 40 };

static ls_status map(void *context, const ls_map_call *call) {
    const ls_strategy *strategy = context;
    for (int i = 0; i < 4; i++) call->output[i] = call->input[i];
    while (ls_worker_rank(strategy) == 1 && call->example >= STUCK) (void)pause();
    return LS_OK;
}

static ls_status take_long(ls_replica *replica, void *context) {
    float one = 1;
    (void)context;
    if (ls_replica_local_id(replica)) (void)sleep(3);
    return ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, &one, 1);
}

static int run_loop(void) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy);
    if (!st) st = ls_strategy_run(strategy, take_long, NULL);
    return ls_exit(ls_strategy_close(strategy, st));
}

int main(int argc, char **argv) {
    static float features[EXAMPLES][4];
    static int32_t labels[EXAMPLES];
    if (argc > 1 && !strcmp(argv[1], "replica")) return run_loop();
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status st = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy);
    if (st) return ls_exit(st);
    st = ls_dataset_arrays(&features[0][0], LS_SHAPE(4), labels, EXAMPLES, 1,
                           LS_DATASET(.batch_size = 8, .shuffle = LS_SHUFFLE_NEVER,
                                      .workers = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0,
                                      .maps = LS_MAPS(ls_map_function(map, strategy))),
                           &data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(2)), &model);
    if (!st) st = ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return ls_exit(ls_strategy_close(strategy, st));
}
