/* ls_strategy_abort, by a thread that is in no call: who waits, here and on the other workers, ends at once with the
 * reason, over every transport. And ls_communicator_abort alone. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "strategy/workers.h"

static const char *const transports[] = {"shm", "tcp", "auto"};
enum { TRANSPORTS = 3, WORKERS = 3, ABORTER = 1 };
#define REASON "worker:1 (rank 1) aborted: the sensor is gone"

static void *abort_soon(void *strategy) {
    (void)usleep(200000);
    assert_ok(ls_strategy_abort(strategy, "the sensor is gone"));
    return NULL;
}

/* Rank 2 never comes: all others wait, the aborting worker too. */
static ls_status wait_for_nobody(struct worker *worker) {
    pthread_t thread;
    float one = 1, sum;
    const void *values[1] = {&one};
    ls_status status = ls_reduce(worker->strategy, LS_SUM, LS_FLOAT32, values, 1, &sum);
    if (status || worker->rank == 2) return usleep(600000) ? LS_INTERNAL : status;
    if (worker->rank == ABORTER) ck_assert_int_eq(pthread_create(&thread, NULL, abort_soon, worker->strategy), 0);
    int64_t begun = ls_now();
    status = ls_reduce(worker->strategy, LS_SUM, LS_FLOAT32, values, 1, &sum);
    ck_assert_msg(ls_seconds_since(begun) < 2, "it took %g s", ls_seconds_since(begun));
    if (worker->rank == ABORTER) (void)pthread_join(thread, NULL);
    ck_assert(!ls_strategy_recover(worker->strategy, &status));
    return status;
}

TEST_EACH(all_waits_end_with_the_reason, TRANSPORTS) {
    ck_assert_int_eq(setenv("LOCKSTEP_TRANSPORT", transports[_i], 1), 0);
    struct worker_cluster cluster = {.count = WORKERS, .devices = {1, 1, 1}, .fn = wait_for_nobody};
    run_workers(&cluster);
    for (int i = 0; i < WORKERS; i++)
        ck_assert_msg(cluster.workers[i].status == LS_ABORTED && strstr(cluster.workers[i].error, REASON),
                      "rank %d over %s: %d %s", i, transports[_i], cluster.workers[i].status, cluster.workers[i].error);
}

/* Within a run the replicas that wait for each other end as well. */
static ls_status add(ls_replica *replica, void *context) {
    float value = 1;
    (void)context;
    return ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, &value, 1);
}

static ls_status run_alone(struct worker *worker) {
    pthread_t thread;
    if (worker->rank != ABORTER) return usleep(600000) ? LS_INTERNAL : ls_strategy_run(worker->strategy, add, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, abort_soon, worker->strategy), 0);
    ls_status status = ls_strategy_run(worker->strategy, add, NULL);
    (void)pthread_join(thread, NULL);
    return status;
}

TEST(a_run_ends_on_all_replicas) {
    ck_assert_int_eq(unsetenv("LOCKSTEP_TRANSPORT"), 0);
    struct worker_cluster cluster = {.count = 2, .devices = {2, 2}, .fn = run_alone};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(cluster.workers[i].status == LS_ABORTED && strstr(cluster.workers[i].error, REASON),
                      "rank %d: %d %s", i, cluster.workers[i].status, cluster.workers[i].error);
}

TEST(a_communicator_alone) {
    ls_communicator *communicator = NULL;
    assert_ok(ls_communicator_new(LS_STRATEGY(.tf_config = "{}"), &communicator));
    ck_assert_int_eq(ls_communicator_abort(communicator, NULL), LS_INVALID_ARGUMENT);
    assert_ok(ls_barrier(communicator, "before"));
    assert_ok(ls_communicator_abort(communicator, "enough"));
    assert_ok(ls_communicator_abort(communicator, "the first counts"));
    ck_assert_int_eq(ls_barrier(communicator, "after"), LS_ABORTED);
    ck_assert_str_eq(ls_error(), "aborted: enough");
    ck_assert_int_eq(ls_communicator_close(communicator, LS_ABORTED), LS_ABORTED);
}

TESTS("strategy/abort_call", .seconds = 120)
