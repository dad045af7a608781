/* Leaving: in order whoever is first, by failure with its root, in vain; and nothing is left behind. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/exchange.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "cluster/worker.h"
#include "harness.h"

static void prepare(struct test_worker *workers, int count, test_body *body) {
    int ports[MAX_TEST_WORKERS];
    test_ports(ports, count);
    test_workers(workers, count, ports);
    for (int i = 0; i < count; i++) workers[i].body = body;
}

static void work_for_a_while(struct test_worker *worker) {
    (void)usleep((useconds_t)(worker->rank * 300000));
    ck_assert(!ls_abort_raised(worker->abort));
}

TEST(first_to_finish_is_no_failure) {
    struct test_worker workers[4];
    prepare(workers, 4, work_for_a_while);
    test_workers_run(workers, 4);
    for (int i = 0; i < 4; i++) ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
}

static void one_sleeps_long(struct test_worker *worker) {
    if (worker->rank == 1) worker->left = test_wait_abort(worker->abort, 10) < 0 ? LS_INTERNAL : LS_OK;
    if (worker->rank == 1) worker->leave_with = ls_abort_status(worker->abort);
}

TEST(exit_barrier_has_a_limit) {
    struct test_worker workers[3];
    prepare(workers, 3, one_sleeps_long);
    for (int i = 0; i < 3; i++) workers[i].exit_timeout = 0.6;
    test_workers_run(workers, 3);
    int late = 0;
    for (int i = 0; i < 3; i += 2)
        late += workers[i].left == LS_DEADLINE_EXCEEDED && strstr(workers[i].leave_error, "worker:1");
    ck_assert_int_ge(late, 1); /* the second one may hear of the first one's end */
    ck_assert_int_eq(workers[1].left, LS_ABORTED);
    ck_assert_ptr_nonnull(strstr(workers[1].leave_error, "LOCKSTEP_EXIT_TIMEOUT"));
}

/* From here on everybody's join is over, not only this worker's. */
static ls_status all_in(struct test_worker *worker) {
    struct ls_bytes received[MAX_TEST_WORKERS];
    ls_status status = ls_cluster_exchange(worker->cluster, "all in", (struct ls_bytes){NULL, 0}, 10, received);
    for (int rank = 0; !status && rank < worker->size; rank++) ls_free(received[rank].data);
    return status;
}

static void one_fails(struct test_worker *worker) {
    ls_status status = all_in(worker); /* may end with the failure already */
    if (worker->rank == 1) assert_ok(status);
    if (worker->rank == 1) {
        worker->leave_with = ls_fail(LS_NOT_FOUND, "no file '/data/train'");
        return;
    }
    double seconds = test_wait_abort(worker->abort, 5);
    ck_assert_double_ge(seconds, 0);
    ck_assert_double_lt(seconds, 2);
    worker->leave_with = ls_abort_status(worker->abort);
}

TEST(failure_names_its_root) {
    struct test_worker workers[4];
    prepare(workers, 4, one_fails);
    test_workers_run(workers, 4);
    ck_assert_int_eq(workers[1].left, LS_NOT_FOUND);
    ck_assert_str_eq(workers[1].leave_error, "no file '/data/train'");
    for (int i = 0; i < 4; i++) {
        if (i == 1) continue;
        ck_assert_int_eq(workers[i].left, LS_ABORTED);
        ck_assert_ptr_nonnull(
            strstr(workers[i].leave_error, "worker:1 (rank 1) failed: NOT_FOUND: no file '/data/train'"));
    }
}

/* A leave in order gives no reason, whatever has failed before. */
static void one_gives_up_in_order(struct test_worker *worker) {
    int64_t start = ls_now();
    assert_ok(all_in(worker));
    if (worker->rank == 0) {
        (void)ls_fail(LS_UNAVAILABLE, "a loss that changes nothing any more");
        ls_join_give_up(ls_steal(worker->cluster), LS_OK);
        return;
    }
    while (!ls_leave_is_over(worker->cluster) && ls_seconds_since(start) < 10) (void)usleep(1000);
    ck_assert(ls_leave_is_over(worker->cluster));
    assert_ok(ls_leave_outcome(worker->cluster));
}

TEST(giving_up_in_order_gives_no_reason) {
    struct test_worker workers[3];
    prepare(workers, 3, one_gives_up_in_order);
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
}

/* A program's own number, which is no status, ends as UNKNOWN on the others. */
static void one_ends_oddly(struct test_worker *worker) {
    ls_status status = all_in(worker);
    worker->leave_with = worker->rank == 1 ? (ls_status)99 : status;
    if (worker->rank == 1) return;
    ck_assert_double_ge(test_wait_abort(worker->abort, 5), 0);
    worker->leave_with = ls_abort_status(worker->abort);
}

TEST(an_unknown_status_is_told) {
    struct test_worker workers[3];
    prepare(workers, 3, one_ends_oddly);
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(workers[i].left, LS_ABORTED);
        ck_assert_msg(strstr(workers[i].leave_error, "worker:1 (rank 1) failed: UNKNOWN"), "%s",
                      workers[i].leave_error);
    }
}

static void fail_sometimes(struct test_worker *worker) {
    worker->leave_with = all_in(worker);
    if (worker->context && worker->rank == 0) worker->leave_with = ls_fail(LS_CANCELLED, "enough");
}

TEST(leaves_nothing_behind) {
    struct test_worker workers[3];
    int descriptors = 0, threads = 0;
    for (int round = 0; round < 21; round++) {
        prepare(workers, 3, fail_sometimes);
        for (int i = 0; i < 3; i++) workers[i].context = round % 3 == 2 ? workers : NULL;
        test_workers_run(workers, 3);
        for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        if (round == 0) {
            threads = test_settled("/proc/self/task", 3);
            descriptors = test_count_entries("/proc/self/fd");
        }
    }
    ck_assert_int_le(test_settled("/proc/self/task", threads), threads);
    ck_assert_int_le(test_settled("/proc/self/fd", descriptors), descriptors);
}

TESTS("cluster/leave", .seconds = 90)
