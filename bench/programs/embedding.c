/* Trains an embedding, the mean of its rows and a dense layer with SGD, for bench/embedding: one process a task of
 * TF_CONFIG. Rank 0 prints one line of JSON. No id of the dataset comes twice, so a step touches all its ids' rows.
 *
 * usage: embedding dense|sparse ROWS WIDTH BATCH IDS STEPS (BATCH: of each worker) */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 7919 }; /* a prime: ids lie far apart */

struct plan {
    bool sparse;
    int rows, width, batch, ids, steps;
};

static ls_status open_data(const struct plan *plan, int batch, float *ids, int32_t *labels, ls_dataset **data) {
    int64_t examples = (int64_t)batch * plan->steps;
    for (int64_t i = 0; i < examples * plan->ids; i++) ids[i] = (float)(i * STRIDE % plan->rows);
    for (int64_t i = 0; i < examples; i++) labels[i] = (int32_t)(i % 2);
    return ls_dataset_arrays(ids, LS_SHAPE(plan->ids), labels, examples, 2, LS_DATASET(.batch_size = batch), data);
}

static ls_status train(const struct plan *plan, ls_strategy *strategy) {
    int batch = plan->batch * ls_num_replicas_in_sync(strategy);
    size_t examples = (size_t)batch * (size_t)plan->steps;
    float *ids = calloc(examples * (size_t)plan->ids, sizeof(*ids));
    int32_t *labels = calloc(examples, sizeof(*labels));
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    ls_status st = ids && labels ? open_data(plan, batch, ids, labels, &data) : LS_RESOURCE_EXHAUSTED;
    if (!st)
        st = ls_model_new(strategy,
                          LS_LAYERS(ls_embedding(plan->rows, plan->width, .sparse = true),
                                    ls_global_average_pooling1d(), ls_dense(2)),
                          &model);
    if (!st) st = ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), &result);
    if (!st && ls_is_chief(strategy))
        (void)printf("{\"examples_per_second\": %.9g, \"steps\": %lld}\n", result.samples_per_second,
                     (long long)result.steps);
    ls_model_free(model);
    ls_dataset_free(data);
    free(ids);
    free(labels);
    return st;
}

int main(int argc, char **argv) {
    ls_strategy *strategy = NULL;
    if (argc != 7) return 2;
    const struct plan plan = {
        !strcmp(argv[1], "sparse"), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6])};
    const ls_parameter_server_options *servers =
        LS_PARAMETER_SERVER(.sparse = plan.sparse ? LS_SPARSE_ALWAYS : LS_SPARSE_NEVER);
    ls_status st = ls_parameter_server_strategy_new(NULL, servers, &strategy);
    if (st) return ls_exit(st);
    return ls_exit(ls_strategy_close(strategy, train(&plan, strategy)));
}
