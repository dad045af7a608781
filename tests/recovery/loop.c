/* One worker of a custom loop that a test hurts (watch.h): a linear model fitted by hand, committed step by step. With
 * --collectives the ranks have no strategy, only a communicator, and share by themselves how far they are. At its end
 * it prints one JSON object: rank, pid, steps, weights_sha256 (here the values themselves), val_accuracy and told: 0.
 *
 * With --evaluate it makes an iterator for an evaluation first, and makes that anew at the end of each epoch, between
 * two commits; what the evaluations gave belongs to the state. --other-batch is the batch of that iterator. With
 * --fits it fits a model before the loop and after it, whose weights it prints too.
 *
 * With --sets the ranks, three of them, add in process sets too, and hand on what they have. With --begun calls are
 * matched by their names: each rank begins three in an order of its own, and waits for them later.
 *
 * usage: loop [--collectives [--sets | --begun]] [--steps N] [--refuse RANK] [--evaluate] [--other-batch N] [--fits] */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

enum { WIDTH = 5, EXAMPLES = 48, STEPS = 24 /* by default */ };

struct loop {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
    ls_strategy *strategy;
    bool evaluates, fits;
    int64_t other_batch;
    double score;
    ls_dataset *data, *shown;
    ls_iterator *iterator, *evaluation;
    ls_variable *weights;
    ls_model *model;
    char model_sha256[65]; /* "" without a model */
    int64_t step, steps;   /* done, wanted */
    int refuses;           /* the rank whose function returns UNAVAILABLE at step 5; -1: none */
};

static void print_end(int rank, int64_t steps, const float *values, int count, const char *more) {
    (void)printf("{\"rank\": %d, \"pid\": %d, \"steps\": %lld, \"weights_sha256\": \"", rank, (int)getpid(),
                 (long long)steps);
    for (int i = 0; i < count; i++) (void)printf("%a ", (double)values[i]);
    (void)printf("%s\", \"val_accuracy\": 0, \"told\": 0}\n", more);
}

/* ---- With a strategy -------------------------------------------------------------------------------------------- */

/* Other examples than those of the training, two batches of them. */
static ls_status open_evaluation(struct loop *loop) {
    ls_status status = ls_dataset_arrays(&loop->features[EXAMPLES / 2][0], LS_SHAPE(WIDTH), loop->labels, EXAMPLES / 3,
                                         2, LS_DATASET(.batch_size = loop->other_batch, .seed = 4), &loop->shown);
    if (!status) status = ls_strategy_register(loop->strategy, "score", &loop->score, sizeof(loop->score));
    return status ? status : ls_iterator_new(loop->strategy, loop->shown, &loop->evaluation);
}

static ls_status open_loop(struct loop *loop) {
    for (int i = 0; i < EXAMPLES; i++) {
        loop->labels[i] = i % 2;
        for (int j = 0; j < WIDTH; j++) loop->features[i][j] = (float)((i * 7 + j * 3) % 11) / 11.0F;
    }
    ls_status status = ls_multi_worker_mirrored_strategy_new(NULL, &loop->strategy);
    ls_reached("opening");
    if (!status)
        status = ls_dataset_arrays(&loop->features[0][0], LS_SHAPE(WIDTH), loop->labels, EXAMPLES, 2,
                                   LS_DATASET(.batch_size = 8, .seed = 3), &loop->data);
    if (!status && loop->evaluates) status = open_evaluation(loop);
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
    if (loop->step == 5 && ls_worker_rank(loop->strategy) == loop->refuses) return LS_UNAVAILABLE;
    if (!status) status = ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, gradient, WIDTH);
    ls_reached("reduced");
    for (int j = 0; !status && j < WIDTH; j++) weights[j] -= 0.1F * gradient[j];
    return status;
}

/* Of each batch, how wrong the model is. */
static ls_status evaluate_replica(ls_replica *replica, void *context) {
    struct loop *loop = context;
    const float *weights = ls_variable_data(loop->weights, replica);
    float wrong = 0;
    ls_batch batch;
    ls_status status = ls_iterator_batch(loop->evaluation, replica, &batch);
    for (int64_t i = 0; !status && i < batch.rows; i++) {
        float error = -(float)batch.labels[i];
        for (int j = 0; j < WIDTH; j++) error += batch.features[i * WIDTH + j] * weights[j];
        wrong += error * error;
    }
    ls_reached("evaluating");
    if (!status) status = ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, &wrong, 1);
    if (!status && !ls_replica_local_id(replica)) loop->score += (double)wrong;
    return status;
}

static ls_status evaluate(struct loop *loop) {
    bool end = false;
    ls_iterator_free(loop->evaluation);
    loop->evaluation = NULL;
    ls_status status = ls_iterator_new(loop->strategy, loop->shown, &loop->evaluation);
    while (!status && !(status = ls_iterator_next(loop->evaluation, &end)) && !end)
        status = ls_strategy_run(loop->strategy, evaluate_replica, loop);
    return status;
}

static ls_status train_step(struct loop *loop) {
    bool end = false;
    ls_status status = ls_iterator_next(loop->iterator, &end);
    if (!status && end && loop->evaluates) status = evaluate(loop);
    if (!status && end) status = ls_iterator_next(loop->iterator, &end);
    if (!status) status = ls_strategy_run(loop->strategy, train_replica, loop);
    if (status) return status;
    loop->step++;
    status = ls_strategy_commit(loop->strategy);
    ls_reached("step");
    return status;
}

static ls_status fit(struct loop *loop) {
    ls_status status = ls_model_fit(loop->model, loop->data, LS_FIT(.epochs = 2, .verbose = -1), NULL);
    return status ? status : ls_model_weights_sha256(loop->model, loop->model_sha256);
}

static ls_status open_model(struct loop *loop) {
    ls_status status = ls_model_new(loop->strategy, LS_LAYERS(ls_dense(2)), &loop->model);
    if (!status)
        status = ls_model_compile(loop->model, ls_sgd(0.1F, .momentum = 0.9F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    return status ? status : fit(loop);
}

static ls_status train(struct loop *loop) {
    ls_status status = loop->fits ? open_model(loop) : LS_OK;
    if (status) return status;
    do {
        status = ls_strategy_restore(loop->strategy);
        while (!status && loop->step < loop->steps) status = train_step(loop);
    } while (status && ls_strategy_recover(loop->strategy, &status));
    return status || !loop->fits ? status : fit(loop);
}

static int run_strategy(struct loop *loop) {
    float values[WIDTH + 1];
    ls_status status = open_loop(loop);
    if (!status) status = train(loop);
    if (!status) status = ls_variable_read(loop->weights, values);
    int rank = loop->strategy ? ls_worker_rank(loop->strategy) : -1;
    ls_model_free(loop->model);
    ls_iterator_free(loop->iterator);
    ls_iterator_free(loop->evaluation);
    ls_dataset_free(loop->data);
    ls_dataset_free(loop->shown);
    status = ls_strategy_close(loop->strategy, status);
    values[WIDTH] = (float)loop->score;
    if (!status) print_end(rank, loop->step, values, WIDTH + loop->evaluates, loop->model_sha256);
    return ls_exit(status);
}

/* ---- With a communicator alone ---------------------------------------------------------------------------------- */

/* step and sum of whoever is furthest, the lowest of them. */
static ls_status share(ls_communicator *communicator, int64_t *step, double *sum) {
    int64_t furthest;
    ls_status status = ls_all_reduce(communicator, LS_ALL_REDUCE("furthest", step, &furthest, 1, LS_INT64, LS_MAX));
    int64_t own = *step == furthest ? ls_rank(communicator) : ls_size(communicator), lowest = 0;
    if (!status) status = ls_all_reduce(communicator, LS_ALL_REDUCE("lowest", &own, &lowest, 1, LS_INT64, LS_MIN));
    double given = *sum;
    if (!status) status = ls_broadcast(communicator, LS_BROADCAST("sum", &given, 1, LS_FLOAT64, (int)lowest));
    if (status) return status;
    *step = furthest;
    *sum = given;
    return LS_OK;
}

/* Process sets of three ranks; each is made once by a process. */
enum { SETS = 3, BEGUN = 3 };
struct sets {
    bool wanted;
    int made;
    ls_communicator *set[SETS];
};

static ls_status make_sets(ls_communicator *communicator, struct sets *sets) {
    static const struct { int count, ranks[3]; } lists[SETS] = {{2, {0, 1}}, {2, {2, 1}}, {3, {2, 0, 1}}};
    ls_status status = LS_OK;
    for (; sets->wanted && sets->made < SETS && !status; sets->made += !status)
        status = ls_communicator_subset(communicator, lists[sets->made].ranks, lists[sets->made].count,
                                        &sets->set[sets->made]);
    return status;
}

/* The sums of value in this rank's sets, as the rank before this one has them. */
static ls_status add_in_sets(ls_communicator *communicator, const struct sets *sets, double *value) {
    double parts[SETS] = {0}, sum = 0;
    int rank = ls_rank(communicator), size = ls_size(communicator);
    ls_status status = LS_OK;
    for (int i = 0; i < SETS && !status; i++)
        if (sets->set[i]) status = ls_all_reduce(sets->set[i], LS_ALL_REDUCE("part", value, &parts[i], 1, LS_FLOAT64));
    ls_reached("reduced");
    for (int i = 0; i < SETS; i++) sum += parts[i];
    if (!status) status = ls_send(communicator, LS_SEND("parts", &sum, 1, LS_FLOAT64, (rank + 1) % size));
    return status ? status
                  : ls_receive(communicator, LS_RECEIVE("parts", value, 1, LS_FLOAT64, (rank + size - 1) % size));
}

/* The sum of value over the ranks, from the sums of its multiples. */
static ls_status add_begun(ls_communicator *communicator, double value, double *all) {
    static const char *const names[BEGUN] = {"once", "twice", "thrice"};
    ls_pending *pending[BEGUN] = {NULL};
    double given[BEGUN], sums[BEGUN] = {0};
    ls_status status = LS_OK;
    for (int i = 0; i < BEGUN && !status; i++) {
        int which = (i + ls_rank(communicator)) % BEGUN;
        given[which] = value * (which + 1);
        status = ls_all_reduce_begin(
            communicator, LS_ALL_REDUCE(names[which], &given[which], &sums[which], 1, LS_FLOAT64), &pending[which]);
        ls_reached("begun");
    }
    for (int i = 0; i < BEGUN; i++) {
        if (!status) status = ls_pending_wait(pending[i], 0);
        ls_reached("reduced");
    }
    for (int i = 0; i < BEGUN; i++) ls_pending_free(pending[i]);
    *all = (sums[0] + sums[1] + sums[2]) / 6;
    return status;
}

static ls_status add(ls_communicator *communicator, const struct sets *sets, bool begun, int64_t *step, double *sum) {
    double value = (double)((ls_rank(communicator) + 1) * (*step + 1)), all;
    ls_reached("gradient");
    ls_status status = sets->wanted ? add_in_sets(communicator, sets, &value) : LS_OK;
    if (!status && begun)
        status = add_begun(communicator, value, &all);
    else if (!status)
        status = ls_all_reduce(communicator, LS_ALL_REDUCE("value", &value, &all, 1, LS_FLOAT64));
    if (status) return status;
    *sum += all;
    (*step)++;
    ls_reached("step");
    return LS_OK;
}

static int run_collectives(int64_t steps, bool in_sets, bool begun) {
    struct sets sets = {.wanted = in_sets};
    ls_communicator *communicator = NULL;
    int64_t step = 0;
    double sum = 0;
    ls_status status = ls_communicator_new(NULL, &communicator);
    if (!status && begun) status = ls_communicator_negotiate(communicator);
    if (!status) {
        do {
            status = make_sets(communicator, &sets);
            if (!status) status = share(communicator, &step, &sum);
            while (!status && step < steps) status = add(communicator, &sets, begun, &step, &sum);
            if (!status) status = ls_barrier(communicator, "end");
        } while (status && ls_communicator_recover(communicator, &status));
    }
    int rank = communicator ? ls_rank(communicator) : -1;
    status = ls_communicator_close(communicator, status);
    float end = (float)sum;
    if (!status) print_end(rank, step, &end, 1, "");
    return ls_exit(status);
}

int main(int count, char **arguments) {
    static struct loop loop = {.steps = STEPS, .refuses = -1, .other_batch = 8};
    bool collectives = false, sets = false, begun = false;
    for (int i = 1; i < count; i++)
        if (strcmp(arguments[i], "--collectives") == 0)
            collectives = true;
        else if (strcmp(arguments[i], "--sets") == 0)
            sets = true;
        else if (strcmp(arguments[i], "--begun") == 0)
            begun = true;
        else if (strcmp(arguments[i], "--evaluate") == 0)
            loop.evaluates = true;
        else if (strcmp(arguments[i], "--fits") == 0)
            loop.fits = true;
        else if (strcmp(arguments[i], "--steps") == 0 && i + 1 < count)
            loop.steps = atoll(arguments[++i]);
        else if (strcmp(arguments[i], "--refuse") == 0 && i + 1 < count)
            loop.refuses = atoi(arguments[++i]);
        else if (strcmp(arguments[i], "--other-batch") == 0 && i + 1 < count)
            loop.other_batch = atoll(arguments[++i]);
        else
            return 2;
    if (watch_read()) return 2;
    return collectives ? run_collectives(loop.steps, sets, begun) : run_strategy(&loop);
}
