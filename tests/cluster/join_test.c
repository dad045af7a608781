/* Joining: any number, any order, late ones, links that work, 16 in time. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/cluster_private.h"
#include "cluster/peer.h"
#include "cluster/worker.h"
#include "harness.h"

/* Every pair's link leads to the right worker. */
static void use_links(struct test_worker *worker) {
    struct ls_link *links[MAX_TEST_WORKERS] = {NULL};
    struct ls_link_source *source;
    assert_ok(ls_cluster_links(worker->cluster, 0, NULL, ls_cluster_group(worker->cluster)->size, &source));
    ck_assert_int_eq(source == NULL, worker->size == 1);
    for (int rank = 0; rank < worker->size; rank++)
        if (rank != worker->rank) links[rank] = test_take_link(source, rank);
    for (int rank = 0; rank < worker->size; rank++)
        if (rank != worker->rank) test_send_rank(links[rank], worker->rank);
    for (int rank = 0; rank < worker->size; rank++)
        if (rank != worker->rank) ck_assert_int_eq(test_receive_rank(links[rank]), rank);
    for (int rank = 0; rank < worker->size; rank++)
        if (links[rank]) links[rank]->ops->close(links[rank]);
    ck_assert_int_eq(ls_cluster_group(worker->cluster)->rank, worker->rank);
    ck_assert_int_eq(ls_cluster_group(worker->cluster)->size, worker->size);
    ck_assert_int_eq(ls_cluster_local_rank(worker->cluster), worker->rank);
    ck_assert_int_eq(ls_cluster_local_size(worker->cluster), worker->size);
    char name[32];
    (void)snprintf(name, sizeof(name), "worker:%d", worker->rank);
    ck_assert_str_eq(ls_cluster_task_name(worker->cluster, worker->rank), name);
    if (source) source->ops->close(source);
}

static void join_all(struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++) workers[i].body = use_links;
    test_workers_run(workers, count);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "worker %d: %s", i, workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "worker %d: %s", i, workers[i].leave_error);
    }
}

static void run_three(void (*body)(struct test_worker *worker)) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    for (int i = 0; i < 3; i++) workers[i].body = body;
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].left == LS_OK, "worker %d: %s", i, workers[i].leave_error);
}

/* Only the link that is asked for is made, whoever of the two asks first; the one who does not want it serves it. */
static void use_one_link(struct test_worker *worker) {
    struct ls_link_source *source;
    struct ls_link *link, *other = NULL;
    assert_ok(ls_cluster_links(worker->cluster, 0, NULL, ls_cluster_group(worker->cluster)->size, &source));
    if (worker->rank == 0) (void)usleep(200000); /* it dials nobody, and its port answers meanwhile */
    if (worker->rank < 2) {
        link = test_take_link(source, 1 - worker->rank);
        test_send_rank(link, worker->rank);
        ck_assert_int_eq(test_receive_rank(link), 1 - worker->rank);
        link->ops->close(link);
    }
    if (worker->rank < 2) assert_ok(source->ops->take(source, 2, &other));
    ck_assert_ptr_null(other);
    source->ops->close(source);
}

TEST(a_link_is_made_when_it_is_asked_for) {
    run_three(use_one_link);
}

static bool tells(struct ls_link_source *source, int rank, int timeout) {
    struct pollfd slot;
    (void)source->ops->poll(source, rank, &slot);
    return poll(&slot, 1, timeout) == 1;
}

/* Both others dial rank 0, which takes one link and sleeps for the other one: that one came before, and ends the sleep.
 */
static void sleep_for_links(struct test_worker *worker) {
    struct ls_link_source *source;
    assert_ok(ls_cluster_links(worker->cluster, 0, NULL, 3, &source));
    if (worker->rank) {
        struct ls_link *link = test_take_link(source, 0);
        ck_assert_int_eq(test_receive_rank(link), 0);
        link->ops->close(link);
    } else {
        struct ls_link *links[3] = {NULL};
        ck_assert(tells(source, 1, 5000));
        (void)usleep(500000);
        assert_ok(source->ops->take(source, 1, &links[1]));
        ck_assert(tells(source, 2, 0));
        source->ops->clear(source);
        ck_assert(!tells(source, 2, 0));
        for (int rank = 1; rank < 3; rank++) {
            if (!links[rank]) links[rank] = test_take_link(source, rank);
            test_send_rank(links[rank], 0);
            links[rank]->ops->close(links[rank]);
        }
    }
    source->ops->close(source);
}

TEST(a_link_that_has_come_ends_a_sleep_until_all_are_looked_for) {
    run_three(sleep_for_links);
}

/* Shows a preface at the port of worker 0; true: it was admitted. */
static bool is_admitted(const struct ls_cluster *cluster, struct ls_preface preface, const uint8_t *key) {
    uint8_t bytes[LS_PREFACE_SIZE], answer = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)cluster->peers[0]->task->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(ls_preface_sign(&preface, key));
    ls_preface_encode(&preface, bytes);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    ssize_t size = recv(fd, &answer, 1, 0);
    (void)close(fd);
    return size == 1 && answer == LS_PREFACE_ACK;
}

/* Worker 1 knows the key, and shows worker 0 what is not quite right. */
static void show_prefaces(struct test_worker *worker) {
    const struct ls_cluster *cluster = worker->cluster;
    if (worker->rank != 1) return;
    const struct ls_preface good = {.protocol = LS_PROTOCOL_VERSION,
                                    .rank = 1,
                                    .to = 0,
                                    .generation = cluster->generation,
                                    .incarnation = cluster->incarnation,
                                    .attempt = 5};
    const uint8_t *key = cluster->proposal.key;
    struct ls_preface other = good;
    uint8_t wrong[LS_PROOF_SIZE];
    memcpy(wrong, key, sizeof(wrong));
    wrong[31] ^= 1;
    ck_assert(!is_admitted(cluster, good, wrong));
    other.to = 2;
    ck_assert(!is_admitted(cluster, other, key)); /* meant for another worker */
    other = good;
    other.rank = 2;
    ck_assert(!is_admitted(cluster, other, key)); /* another one's incarnation */
    other = good;
    other.channel = 2;
    ck_assert(!is_admitted(cluster, other, key)); /* one that nobody has opened */
    other = good;
    other.incarnation++;
    ck_assert(!is_admitted(cluster, other, key));
    other = good;
    other.generation++;
    ck_assert(!is_admitted(cluster, other, key));
    ck_assert(is_admitted(cluster, good, key));
    ck_assert(!is_admitted(cluster, good, key)); /* replayed */
    other = good;
    other.attempt--;
    ck_assert(!is_admitted(cluster, other, key));
    other.attempt += 2;
    ck_assert(is_admitted(cluster, other, key));
}

TEST(a_preface_is_good_once_and_for_one_pair) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    for (int i = 0; i < 3; i++) workers[i].body = show_prefaces;
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].left == LS_OK, "worker %d: %s", i, workers[i].leave_error);
    ck_assert_ptr_nonnull(strstr(workers[0].log, "for data, and is not from a process of this group"));
}

/* The lower one's port is closed, as where something between the two lets no new connection through. */
static void dial_in_vain(struct test_worker *worker) {
    struct ls_link_source *source;
    assert_ok(ls_cluster_links(worker->cluster, 0, NULL, ls_cluster_group(worker->cluster)->size, &source));
    if (worker->rank == 0) {
        ls_monitor_lock(&worker->cluster->monitor);
        struct ls_listener *listener = ls_steal(worker->cluster->net.listener);
        ls_monitor_unlock(&worker->cluster->monitor);
        ls_listener_free(listener);
    }
    (void)usleep(100000);
    if (worker->rank == 1) {
        struct ls_link *link;
        struct pollfd slot;
        int64_t start = ls_now();
        ls_status status;
        while (!(status = source->ops->take(source, 0, &link)))
            (void)poll(&slot, 1, ls_poll_timeout(source->ops->poll(source, 0, &slot), 100));
        ck_assert_int_eq(status, LS_UNAVAILABLE);
        ck_assert_double_gt(ls_seconds_since(start), 9);
        ck_assert_msg(strstr(ls_error(), "worker:1 (127.0.0.1:") && strstr(ls_error(), "are cut off from each other") &&
                          strstr(ls_error(), "connection refused"),
                      "%s", ls_error());
    }
    source->ops->close(source);
}

TEST(a_pair_that_is_cut_off_is_named) {
    struct test_worker workers[2];
    int ports[2];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    for (int i = 0; i < 2; i++) workers[i].body = dial_in_vain;
    for (int i = 0; i < 2; i++) workers[i].exit_timeout = 20;
    test_workers_run(workers, 2);
}

static const int sizes[] = {1, 2, 3, 4, 8};

TEST_EACH(joins, COUNT_OF(sizes)) {
    struct test_worker workers[MAX_TEST_WORKERS];
    int ports[MAX_TEST_WORKERS], count = sizes[_i];
    test_ports(ports, count);
    test_workers(workers, count, ports);
    join_all(workers, count);
    for (int i = 0; i < count; i++) ck_assert_double_lt(workers[i].join_seconds, limit_of(5));
}

/* Delays in tenths of a second: each order of three, and one that comes much later. */
static const int delays[][4] = {{0, 3, 6, 9}, {9, 6, 3, 0}, {6, 0, 9, 3}, {0, 0, 0, 25}, {25, 0, 0, 0}};

TEST_EACH(joins_in_any_order, COUNT_OF(delays)) {
    struct test_worker workers[4];
    int ports[4];
    test_ports(ports, 4);
    test_workers(workers, 4, ports);
    for (int i = 0; i < 4; i++) workers[i].delay = delays[_i][i] / 10.0;
    join_all(workers, 4);
}

/* 16 workers in one process on few cores; the last one starts two seconds later. */
TEST(sixteen_join_within_ten_seconds) {
    static struct test_worker workers[16];
    int ports[16];
    test_ports(ports, 16);
    test_workers(workers, 16, ports);
    workers[7].delay = 2;
    join_all(workers, 16);
    ck_assert_double_lt(workers[7].join_seconds, limit_of(10));
}

/* Names are looked up; here one that means loopback, with both address families. */
TEST(joins_by_name) {
    struct test_worker workers[2];
    int ports[2];
    char list[128];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    (void)snprintf(list, sizeof(list), "\"localhost:%d\", \"localhost:%d\"", ports[0], ports[1]);
    for (int i = 0; i < 2; i++) test_config(workers[i].tf_config, sizeof(workers[i].tf_config), list, i);
    join_all(workers, 2);
}

/* The proxy of the environment is not asked: there is nothing at its address. */
TEST(ignores_proxies) {
    struct test_worker workers[2];
    int ports[2];
    ck_assert_int_eq(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    ck_assert_int_eq(setenv("grpc_proxy", "http://127.0.0.1:1", 1), 0);
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    join_all(workers, 2);
}

TESTS("cluster/join", .seconds = 60)
