/* Exchange and agreement over the control streams. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cluster/join.h"
#include "cluster/exchange.h"
#include "cluster/message.h"
#include "cluster/worker.h"
#include "harness.h"

static void run(struct test_worker *workers, int count, test_body *body) {
    int ports[MAX_TEST_WORKERS];
    test_ports(ports, count);
    test_workers(workers, count, ports);
    for (int i = 0; i < count; i++) workers[i].body = body;
    test_workers_run(workers, count);
    for (int i = 0; i < count; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
}

static void expect_orderly(const struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++) ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
}

/* Round r, rank k: k + r bytes of value k. */
static void exchange_often(struct test_worker *worker) {
    for (int round = 0; round < 50; round++) {
        uint8_t own[128];
        struct ls_bytes received[MAX_TEST_WORKERS];
        memset(own, worker->rank, sizeof(own));
        assert_ok(ls_cluster_exchange(worker->cluster, "round", (struct ls_bytes){own, (size_t)(worker->rank + round)},
                                      10, received));
        for (int rank = 0; rank < worker->size; rank++) {
            ck_assert_uint_eq(received[rank].size, (size_t)(rank + round));
            for (size_t i = 0; i < received[rank].size; i++)
                ck_assert_int_eq(((uint8_t *)received[rank].data)[i], rank);
            ls_free(received[rank].data);
        }
    }
}

TEST(exchanges) {
    struct test_worker workers[4];
    run(workers, 4, exchange_often);
    expect_orderly(workers, 4);
}

static void exchange_large(struct test_worker *worker) {
    size_t size = 3 << 20;
    struct ls_bytes own = {ls_alloc(size), size}, received[MAX_TEST_WORKERS], huge = {own.data, LS_PAYLOAD_MAX + 1};
    memset(own.data, 'a' + worker->rank, size);
    ck_assert_int_eq(ls_cluster_exchange(worker->cluster, "huge", huge, 10, received), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_cluster_exchange(worker->cluster, "", own, 10, received), LS_INVALID_ARGUMENT);
    assert_ok(ls_cluster_exchange(worker->cluster, "large", own, 20, received));
    for (int rank = 0; rank < worker->size; rank++) {
        ck_assert_uint_eq(received[rank].size, size);
        ck_assert_int_eq(((char *)received[rank].data)[size - 1], 'a' + rank);
        ls_free(received[rank].data);
    }
    ls_free(own.data);
}

TEST(exchanges_megabytes) {
    struct test_worker workers[3];
    run(workers, 3, exchange_large);
    expect_orderly(workers, 3);
}

static void exchange_unless_two(struct test_worker *worker) {
    struct ls_bytes received[MAX_TEST_WORKERS];
    if (worker->rank == 2) {
        (void)usleep(1500000);
        worker->leave_with = LS_CANCELLED;
        return;
    }
    worker->leave_with = ls_cluster_exchange(worker->cluster, "weights", (struct ls_bytes){NULL, 0}, 0.7, received);
}

TEST(names_who_does_not_come) {
    struct test_worker workers[3];
    run(workers, 3, exchange_unless_two);
    for (int i = 0; i < 2; i++) {
        /* the slower of the two may hear of the other's end first */
        ck_assert(workers[i].left == LS_DEADLINE_EXCEEDED || workers[i].left == LS_ABORTED);
        ck_assert_ptr_nonnull(
            strstr(workers[i].leave_error, "'weights': 1 of 3 workers did not come within 0.7 s: worker:2"));
        if (workers[i].left == LS_DEADLINE_EXCEEDED) /* it has waited long enough to say so */
            ck_assert_ptr_nonnull(strstr(workers[i].log, "waiting in 'weights' for worker:2 since "));
    }
}

static void exchange_other_names(struct test_worker *worker) {
    struct ls_bytes received[MAX_TEST_WORKERS];
    worker->leave_with =
        ls_cluster_exchange(worker->cluster, worker->rank ? "b" : "a", (struct ls_bytes){NULL, 0}, 5, received);
    if (!worker->leave_with) return;
    (void)snprintf(worker->join_error, sizeof(worker->join_error), "%s", ls_error());
}

TEST(names_must_be_the_same) {
    struct test_worker workers[2];
    run(workers, 2, exchange_other_names);
    int told = 0;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(workers[i].left, LS_OK);
        told += strstr(workers[i].join_error, "workers do different things: '") != NULL;
    }
    ck_assert_int_ge(told, 1); /* the other may hear of the first one's end instead */
}

/* Rank 1 leaves when the others do not; those go on after their error as if it had not been. */
static void go_on_after_an_error(struct test_worker *worker) {
    struct ls_bytes received[3];
    if (ls_cluster_exchange(worker->cluster, "begin", (struct ls_bytes){NULL, 0}, 5, received)) return; /* all joined */
    for (int i = 0; i < 3; i++) ls_free(received[i].data);
    if (worker->rank == 1) return;
    worker->leave_with = ls_cluster_exchange(worker->cluster, "a", (struct ls_bytes){NULL, 0}, 5, received);
    ck_assert_int_ne(worker->leave_with, LS_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_ne(ls_cluster_exchange(worker->cluster, "b", (struct ls_bytes){NULL, 0}, 5, received), LS_OK);
    (void)usleep(100000);
}

TEST(a_failed_exchange_is_the_last) {
    struct test_worker workers[3];
    run(workers, 3, go_on_after_an_error);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(strstr(workers[i].leave_error, "workers do different things: '"), "%s", workers[i].leave_error);
        ck_assert_ptr_null(strstr(workers[i].leave_error, "was lost"));
    }
}

/* Rank 1 gives its share and fails; rank 0 comes to the exchange only after it has heard of that. */
static void exchange_after_a_failure(struct test_worker *worker) {
    char byte = 'x';
    struct ls_bytes received[2], own = {&byte, 1};
    if (!worker->rank) ck_assert_double_ge(test_wait_abort(worker->abort, 10), 0);
    worker->leave_with = ls_cluster_exchange(worker->cluster, "last", own, worker->rank ? 0.3 : 10, received);
    for (int rank = 0; !worker->leave_with && rank < 2; rank++) ls_free(received[rank].data);
    ck_assert_int_eq(worker->leave_with, worker->rank ? LS_DEADLINE_EXCEEDED : LS_OK);
}

TEST(what_is_complete_succeeds) {
    struct test_worker workers[2];
    run(workers, 2, exchange_after_a_failure);
    ck_assert_int_eq(workers[0].left, LS_ABORTED); /* at the exit barrier */
    ck_assert_ptr_nonnull(strstr(workers[0].leave_error, "worker:1 (rank 1) failed"));
}

static const char *const fingerprints[][3] = {
    {"batch=64\noptimizer=sgd\n", "batch=64\noptimizer=sgd\n", "batch=64\noptimizer=sgd\n"},
    {"batch=64\noptimizer=sgd\n", "batch=64\noptimizer=sgd\n", "batch=64\noptimizer=adam\n"},
    {"batch=64\noptimizer=sgd\n", "batch=64\n", "batch=32\noptimizer=sgd\n"},
};
static const char *const verdicts[] = {
    NULL,
    "optimizer differs: 'sgd' on worker:0 (rank 0), 'adam' on worker:2 (rank 2)",
    "optimizer differs: 'sgd' on worker:0 (rank 0), '(absent)' on worker:1 (rank 1)",
};

static void agree(struct test_worker *worker) {
    const char *const *texts = worker->context;
    worker->leave_with = ls_agree_lines(worker->cluster, "fingerprint", texts[worker->rank], 10);
    (void)snprintf(worker->join_error, sizeof(worker->join_error), "%s", worker->leave_with ? ls_error() : "");
}

TEST_EACH(agrees, 3) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    for (int i = 0; i < 3; i++) {
        union {
            const void *in;
            void *out;
        } cast = {fingerprints[_i]};
        workers[i].body = agree;
        workers[i].context = cast.out;
    }
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) {
        assert_ok(workers[i].joined);
        ck_assert_int_eq(workers[i].left, verdicts[_i] ? LS_INVALID_ARGUMENT : LS_OK);
        if (!verdicts[_i]) continue;
        ck_assert_str_eq(workers[i].join_error, workers[0].join_error);
        ck_assert_str_eq(workers[i].leave_error, workers[0].join_error);
        ck_assert_ptr_nonnull(strstr(workers[i].join_error, verdicts[_i]));
    }
}

TESTS("cluster/exchange", .seconds = 60)
