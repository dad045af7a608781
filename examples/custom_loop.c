/* A custom loop with own compute: softmax regression written by hand on a distributed dataset. Mirrored variables hold
 * the weights, an ON_READ variable counts examples, every replica computes its gradients in ls_strategy_run, and a
 * mirrored assignment with SUM applies them everywhere at once. */
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS  784
#define CLASSES 10

struct loop {
    ls_iterator *batches;
    ls_variable *weights; /* (INPUTS + 1, CLASSES), the last row is the bias */
    ls_variable *seen;    /* examples, one count a replica */
    float learning_rate;
    double loss[64]; /* one sum a local replica */
};

/* Softmax of one example's logits in place; returns the cross-entropy. */
static double softmax(float logits[CLASSES], int label) {
    float top = logits[0], sum = 0;
    for (int c = 1; c < CLASSES; c++) top = fmaxf(top, logits[c]);
    for (int c = 0; c < CLASSES; c++) sum += logits[c] = expf(logits[c] - top);
    for (int c = 0; c < CLASSES; c++) logits[c] /= sum;
    return -log((double)logits[label] + 1e-30);
}

static double example_gradient(const float *weights, const float *x, int label, float scale, float *update) {
    float p[CLASSES];
    memcpy(p, weights + (size_t)INPUTS * CLASSES, sizeof(p));
    for (int i = 0; i < INPUTS; i++)
        for (int c = 0; x[i] != 0 && c < CLASSES; c++) p[c] += x[i] * weights[i * CLASSES + c];
    double loss = softmax(p, label);
    p[label] -= 1;
    for (int i = 0; i < INPUTS; i++)
        for (int c = 0; x[i] != 0 && c < CLASSES; c++) update[i * CLASSES + c] += scale * x[i] * p[c];
    for (int c = 0; c < CLASSES; c++) update[INPUTS * CLASSES + c] += scale * p[c];
    return loss;
}

static ls_status step(ls_replica *replica, void *context) {
    struct loop *loop = context;
    ls_batch batch;
    ls_status st = ls_iterator_batch(loop->batches, replica, &batch);
    if (st) return st;
    const float *weights = ls_variable_data(loop->weights, replica);
    float *update = calloc((INPUTS + 1) * CLASSES, sizeof(*update));
    if (!update) return LS_RESOURCE_EXHAUSTED;
    double *loss = &loop->loss[ls_replica_local_id(replica)];
    float scale = loop->learning_rate / (float)batch.global_rows; /* the global mean, whatever this replica's share */
    for (int64_t row = 0; row < batch.rows; row++)
        *loss += example_gradient(weights, batch.features + row * INPUTS, batch.labels[row], scale, update);
    st = ls_variable_assign_sub(loop->weights, replica, update); /* aggregation SUM: all replicas' updates at once */
    if (!st) st = ls_variable_assign_add(loop->seen, replica, &batch.rows);
    free(update);
    return st;
}

static ls_status run_epoch(ls_strategy *strategy, struct loop *loop, int epoch) {
    bool end = false;
    ls_status st = LS_OK;
    memset(loop->loss, 0, sizeof(loop->loss));
    while (!(st = ls_iterator_next(loop->batches, &end)) && !end)
        if ((st = ls_strategy_run(strategy, step, loop))) return st;
    if (st) return st;
    double total = 0;
    int64_t seen = 0;
    const void *values[64];
    for (int i = 0; i < ls_num_local_replicas(strategy); i++) values[i] = &loop->loss[i];
    st = ls_reduce(strategy, LS_SUM, LS_FLOAT64, values, 1, &total);
    if (!st) st = ls_variable_read(loop->seen, &seen);
    if (!st && ls_is_chief(strategy))
        (void)printf("epoch %d: loss %.4f, %lld examples seen\n", epoch + 1, total * (epoch + 1) / (double)seen,
                     (long long)seen);
    return st;
}

static ls_status train(ls_strategy *strategy) {
    struct loop loop = {.learning_rate = 0.2F};
    ls_dataset *digits = NULL;
    ls_status st = ls_dataset_digits(LS_DATASET(.batch_size = 100, .limit = 5000), &digits);
    if (!st)
        st = ls_variable_new(strategy, "weights",
                             LS_VARIABLE(.shape = LS_SHAPE(INPUTS + 1, CLASSES), .aggregation = LS_AGGREGATE_SUM),
                             &loop.weights);
    if (!st)
        st = ls_variable_new(
            strategy, "seen",
            LS_VARIABLE(.dtype = LS_INT64, .synchronization = LS_ON_READ, .aggregation = LS_AGGREGATE_SUM), &loop.seen);
    if (!st) st = ls_iterator_new(strategy, digits, &loop.batches);
    for (int epoch = 0; !st && epoch < 3; epoch++) st = run_epoch(strategy, &loop, epoch);
    ls_iterator_free(loop.batches);
    ls_dataset_free(digits);
    return st;
}

int main(void) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_multi_worker_mirrored_strategy_new(NULL, &strategy);
    if (st) return ls_exit(st);
    return ls_exit(ls_strategy_close(strategy, train(strategy)));
}
