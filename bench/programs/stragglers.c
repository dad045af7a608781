/* A worker, or a server, of a training whose steps are mostly sleep: it says when each of its batches was done, as
 * nanoseconds of the monotonic clock, and the chief the examples a second at the end.
 *
 * usage: stragglers CONSISTENCY BATCHES MILLISECONDS, with CONSISTENCY sync or async */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static ls_status sleep_a_while(void *context, const ls_callback_call *call) {
    (void)call;
    (void)usleep((useconds_t) * (int *)context * 1000);
    return LS_OK;
}

static ls_status tell_batch(void *context, const ls_callback_call *call) {
    (void)context;
    (void)printf("batch %lld %lld\n", (long long)call->step, (long long)now());
    (void)fflush(stdout);
    return LS_OK;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int pause = atoi(arguments[3]);
    int64_t batches = atoll(arguments[2]);
    ls_consistency consistency = !strcmp(arguments[1], "async") ? LS_ASYNC : LS_SYNC;
    ls_strategy *strategy = NULL;
    ls_dataset *digits = NULL;
    ls_model *model = NULL;
    ls_result result;
    ls_callback callback = LS_CALLBACK(.name = "stragglers", .context = &pause, .on_train_batch_begin = sleep_a_while,
                                       .on_train_batch_end = tell_batch);
    ls_status st = ls_parameter_server_strategy_new(NULL, LS_PARAMETER_SERVER(.consistency = consistency), &strategy);
    int64_t batch = consistency == LS_ASYNC || st ? 16 : 16 * (int64_t)ls_num_replicas_in_sync(strategy);
    if (!st) st = ls_dataset_digits(LS_DATASET(.batch_size = batch, .limit = 16 * batches), &digits);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(32, LS_RELU), ls_dense(10)), &model);
    if (!st) st = ls_model_compile(model, ls_sgd(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    int64_t begun = now();
    if (!st)
        st = ls_model_fit(model, digits, LS_FIT(.epochs = 1, .verbose = -1, .callbacks = LS_CALLBACKS(&callback)),
                          &result);
    if (!st && !ls_is_parameter_server(strategy) && ls_is_chief(strategy))
        (void)printf("{\"examples_per_second\": %g}\n", 16.0 * (double)batches * 1e9 / (double)(now() - begun));
    ls_model_free(model);
    ls_dataset_free(digits);
    return ls_exit(ls_strategy_close(strategy, st));
}
