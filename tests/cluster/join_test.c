/* Joining: any number, any order, late ones, links that work, 16 in time. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/worker.h"
#include "harness.h"

static void send_rank(struct ls_link *link, int rank) {
    uint8_t byte = (uint8_t)rank;
    struct iovec piece = {&byte, 1};
    ck_assert_int_eq(link->ops->send(link, &piece, 1), 1);
}

static int receive_rank(struct ls_link *link) {
    uint8_t byte = 255;
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    while (ls_now() < deadline) {
        ssize_t size = link->ops->receive(link, &byte, 1);
        if (size == 1) return byte;
        ck_assert_int_eq(size, 0);
        (void)usleep(1000);
    }
    return -1;
}

/* Every pair's link leads to the right worker. */
static void use_links(struct test_worker *worker) {
    struct ls_link *links[MAX_TEST_WORKERS];
    ck_assert_int_eq(ls_cluster_take_links(worker->cluster, links), LS_OK);
    ck_assert_ptr_null(links[worker->rank]);
    for (int rank = 0; rank < worker->size; rank++)
        if (rank != worker->rank) send_rank(links[rank], worker->rank);
    for (int rank = 0; rank < worker->size; rank++)
        if (rank != worker->rank) ck_assert_int_eq(receive_rank(links[rank]), rank);
    for (int rank = 0; rank < worker->size; rank++)
        if (links[rank]) links[rank]->ops->close(links[rank]);
    ck_assert_int_eq(ls_cluster_rank(worker->cluster), worker->rank);
    ck_assert_int_eq(ls_cluster_size(worker->cluster), worker->size);
    ck_assert_int_eq(ls_cluster_local_rank(worker->cluster), worker->rank);
    ck_assert_int_eq(ls_cluster_local_size(worker->cluster), worker->size);
    char name[32];
    (void)snprintf(name, sizeof(name), "worker:%d", worker->rank);
    ck_assert_str_eq(ls_cluster_task_name(worker->cluster, worker->rank), name);
    if (worker->size > 1) ck_assert_int_eq(ls_cluster_take_links(worker->cluster, links), LS_FAILED_PRECONDITION);
}

static void join_all(struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++) workers[i].body = use_links;
    test_workers_run(workers, count);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "worker %d: %s", i, workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "worker %d: %s", i, workers[i].leave_error);
    }
}

static const int sizes[] = {1, 2, 3, 4, 8};

START_TEST(joins) {
    struct test_worker workers[MAX_TEST_WORKERS];
    int ports[MAX_TEST_WORKERS], count = sizes[_i];
    test_ports(ports, count);
    test_workers(workers, count, ports);
    join_all(workers, count);
    for (int i = 0; i < count; i++) ck_assert_double_lt(workers[i].join_seconds, 5);
}
END_TEST

/* Delays in tenths of a second: each order of three, and one that comes much later. */
static const int delays[][4] = {{0, 3, 6, 9}, {9, 6, 3, 0}, {6, 0, 9, 3}, {0, 0, 0, 25}, {25, 0, 0, 0}};

START_TEST(joins_in_any_order) {
    struct test_worker workers[4];
    int ports[4];
    test_ports(ports, 4);
    test_workers(workers, 4, ports);
    for (int i = 0; i < 4; i++) workers[i].delay = delays[_i][i] / 10.0;
    join_all(workers, 4);
}
END_TEST

/* 16 workers in one process on few cores; the last one starts two seconds later. */
START_TEST(sixteen_join_within_ten_seconds) {
    static struct test_worker workers[16];
    int ports[16];
    test_ports(ports, 16);
    test_workers(workers, 16, ports);
    workers[7].delay = 2;
    join_all(workers, 16);
    ck_assert_double_lt(workers[7].join_seconds, 10);
}
END_TEST

/* Names are looked up; here one that means loopback, with both address families. */
START_TEST(joins_by_name) {
    struct test_worker workers[2];
    int ports[2];
    char list[128];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    (void)snprintf(list, sizeof(list), "\"localhost:%d\", \"localhost:%d\"", ports[0], ports[1]);
    for (int i = 0; i < 2; i++) test_config(workers[i].tf_config, sizeof(workers[i].tf_config), list, i);
    join_all(workers, 2);
}
END_TEST

/* The proxy of the environment is not asked: there is nothing at its address. */
START_TEST(ignores_proxies) {
    struct test_worker workers[2];
    int ports[2];
    ck_assert_int_eq(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    ck_assert_int_eq(setenv("grpc_proxy", "http://127.0.0.1:1", 1), 0);
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    join_all(workers, 2);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cluster/join");
    TCase *tests = tcase_create("join");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, joins, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
    tcase_add_loop_test(tests, joins_in_any_order, 0, (int)(sizeof(delays) / sizeof(delays[0])));
    tcase_add_test(tests, sixteen_join_within_ten_seconds);
    tcase_add_test(tests, joins_by_name);
    tcase_add_test(tests, ignores_proxies);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
