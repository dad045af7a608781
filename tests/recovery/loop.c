/* One worker of a custom loop that a test hurts (watch.h): a linear model fitted by hand, committed step by step. With
 * --collectives the ranks have no strategy, only a communicator, and share by themselves how far they are. At its end
 * it prints one JSON object: rank, pid, steps, weights_sha256 (here the values themselves), val_accuracy and told: 0.
 *
 * usage: loop [--collectives] */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

enum { WIDTH = 5, EXAMPLES = 48, STEPS = 24 };

struct loop {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
    ls_strategy *strategy;
    ls_dataset *data;
    ls_iterator *iterator;
    ls_variable *weights;
    int64_t step;
};

static void print_end(int rank, int64_t steps, const float *values, int count) {
    (void)printf("{\"rank\": %d, \"pid\": %d, \"steps\": %lld, \"weights_sha256\": \"", rank, (int)getpid(),
                 (long long)steps);
    for (int i = 0; i < count; i++) (void)printf("%a ", (double)values[i]);
    (void)printf("\", \"val_accuracy\": 0, \"told\": 0}\n");
}

/* ---- With a strategy -------------------------------------------------------------------------------------------- */

static ls_status open_loop(struct loop *loop) {
    for (int i = 0; i < EXAMPLES; i++) {
        loop->labels[i] = i % 2;
        for (int j = 0; j < WIDTH; j++) loop->features[i][j] = (float)((i * 7 + j * 3) % 11) / 11.0F;
    }
    ls_status status = ls_multi_worker_mirrored_strategy_new(NULL, &loop->strategy);
    if (!status)
        status = ls_dataset_arrays(&loop->features[0][0], LS_SHAPE(WIDTH), loop->labels, EXAMPLES, 2,
                                   LS_DATASET(.batch_size = 8, .seed = 3), &loop->data);
    if (!status) status = ls_iterator_new(loop->strategy, loop->data, &loop->iterator);
    if (!status)
        status = ls_variable_new(loop->strategy, "weights", LS_VARIABLE(.shape = LS_SHAPE(WIDTH)), &loop->weights);
    return status ? status : ls_strategy_register(loop->strategy, "step", &loop->step, sizeof(loop->step));
}

static ls_status train_replica(ls_replica *replica, void *context) {
    struct loop *loop = context;
    float *weights = ls_variable_data(loop->weights, replica), gradient[WIDTH] = {0};
    ls_batch batch;
    ls_status status = ls_iterator_batch(loop->iterator, replica, &batch);
    for (int64_t i = 0; !status && i < batch.rows; i++) {
        const float *row = batch.features + i * WIDTH;
        float error = -(float)batch.labels[i];
        for (int j = 0; j < WIDTH; j++) error += row[j] * weights[j];
        for (int j = 0; j < WIDTH; j++) gradient[j] += 2 * error * row[j] / (float)batch.global_rows;
    }
    ls_reached("gradient");
    if (!status) status = ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, gradient, WIDTH);
    ls_reached("reduced");
    for (int j = 0; !status && j < WIDTH; j++) weights[j] -= 0.1F * gradient[j];
    return status;
}

static ls_status train_step(struct loop *loop) {
    bool end = false;
    ls_status status = ls_iterator_next(loop->iterator, &end);
    if (!status && end) status = ls_iterator_next(loop->iterator, &end);
    if (!status) status = ls_strategy_run(loop->strategy, train_replica, loop);
    if (status) return status;
    loop->step++;
    status = ls_strategy_commit(loop->strategy);
    ls_reached("step");
    return status;
}

static ls_status train(struct loop *loop) {
    ls_status status;
    do {
        status = ls_strategy_restore(loop->strategy);
        while (!status && loop->step < STEPS) status = train_step(loop);
    } while (status && ls_strategy_recover(loop->strategy, &status));
    return status;
}

static int run_strategy(void) {
    static struct loop loop;
    float weights[WIDTH];
    ls_status status = open_loop(&loop);
    if (!status) status = train(&loop);
    if (!status) status = ls_variable_read(loop.weights, weights);
    int rank = loop.strategy ? ls_worker_rank(loop.strategy) : -1;
    ls_iterator_free(loop.iterator);
    ls_dataset_free(loop.data);
    status = ls_strategy_close(loop.strategy, status);
    if (!status) print_end(rank, loop.step, weights, WIDTH);
    return ls_exit(status);
}

/* ---- With a communicator alone ---------------------------------------------------------------------------------- */

/* step and sum of whoever is furthest, the lowest of them. */
static ls_status share(ls_communicator *communicator, int64_t *step, double *sum) {
    int64_t furthest;
    ls_status status = ls_all_reduce(communicator, "furthest", LS_MAX, LS_INT64, step, &furthest, 1);
    int64_t own = *step == furthest ? ls_rank(communicator) : ls_size(communicator), lowest = 0;
    if (!status) status = ls_all_reduce(communicator, "lowest", LS_MIN, LS_INT64, &own, &lowest, 1);
    double given = *sum;
    if (!status) status = ls_broadcast(communicator, "sum", (int)lowest, LS_FLOAT64, &given, 1);
    if (status) return status;
    *step = furthest;
    *sum = given;
    return LS_OK;
}

static ls_status add(ls_communicator *communicator, int64_t *step, double *sum) {
    double value = (double)((ls_rank(communicator) + 1) * (*step + 1)), all;
    ls_reached("gradient");
    ls_status status = ls_all_reduce(communicator, "value", LS_SUM, LS_FLOAT64, &value, &all, 1);
    if (status) return status;
    *sum += all;
    (*step)++;
    ls_reached("step");
    return LS_OK;
}

static int run_collectives(void) {
    ls_communicator *communicator = NULL;
    int64_t step = 0;
    double sum = 0;
    ls_status status = ls_communicator_new(NULL, &communicator);
    if (!status) {
        do {
            status = share(communicator, &step, &sum);
            while (!status && step < STEPS) status = add(communicator, &step, &sum);
            if (!status) status = ls_barrier(communicator, "end");
        } while (status && ls_communicator_recover(communicator, &status));
    }
    int rank = communicator ? ls_rank(communicator) : -1;
    status = ls_communicator_close(communicator, status);
    float end = (float)sum;
    if (!status) print_end(rank, step, &end, 1);
    return ls_exit(status);
}

int main(int count, char **arguments) {
    bool collectives = count == 2 && strcmp(arguments[1], "--collectives") == 0;
    if (count > 1 + collectives || watch_read()) return 2;
    return collectives ? run_collectives() : run_strategy();
}
