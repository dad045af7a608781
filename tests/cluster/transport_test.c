/* Data connections in a cluster: a group works over TCP, strangers get none, and memory is used where it may be. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/net/address.h"
#include "cluster/net/preface.h"
#include "cluster/stranger.h"
#include "cluster/worker.h"
#include "collective/collectives.h"
#include "collective/group.h"
#include "harness.h"

#define WORKERS 3
#define COUNT   300007 /* elements: several messages each way */

static void start_group(struct test_worker *worker, struct ls_group **group) {
    struct ls_group_config config = {.rank = worker->rank,
                                     .size = worker->size,
                                     .source = NULL,
                                     .abort = worker->abort,
                                     .generation = 1,
                                     .timeout = 20,
                                     .transport = LS_TRANSPORT_TCP};
    assert_ok(ls_cluster_links(worker->cluster, 0, NULL, ls_cluster_group(worker->cluster)->size, &config.source));
    assert_ok(ls_group_new(&config, group));
    ck_assert_str_eq(ls_group_links(*group), "tcp");
}

static void add(struct ls_group *group, int rank, int round) {
    static _Thread_local int32_t values[COUNT];
    const void *input = values;
    void *output = values;
    struct ls_all_reduce call = {.name = "sum",
                                 .op = LS_SUM,
                                 .dtype = LS_INT32,
                                 .communication = round % 2 ? LS_RING : LS_AUTO,
                                 .count = COUNT,
                                 .inputs = &input,
                                 .outputs = &output};
    for (int i = 0; i < COUNT; i++) values[i] = (i + round) * (rank + 1);
    assert_ok(ls_group_all_reduce(group, &call));
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += values[i] != (i + round) * (WORKERS * (WORKERS + 1) / 2);
    ck_assert_int_eq(wrong, 0);
}

static void work(struct test_worker *worker) {
    struct ls_group *group;
    start_group(worker, &group);
    for (int round = 0; round < 6; round++) {
        add(group, worker->rank, round);
        assert_ok(ls_group_barrier(group, "pause"));
        (void)usleep(round == 3 ? 20000 : 0); /* long enough for the poller to take over */
    }
    ls_group_free(group);
}

TEST(a_group_over_tcp) {
    struct test_worker workers[WORKERS];
    int ports[WORKERS];
    test_ports(ports, WORKERS);
    test_workers(workers, WORKERS, ports);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].transport = LS_TRANSPORT_TCP;
        workers[i].body = work;
    }
    test_workers_run(workers, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
    }
}

/* One worker goes with an error in the middle of a collective: nobody waits for it. */
static void fail_or_wait(struct test_worker *worker) {
    struct ls_group *group;
    start_group(worker, &group);
    worker->leave_with = ls_group_barrier(group, "begin"); /* rank 1 may be through it and gone before others are */
    if (worker->rank == 1)
        worker->leave_with = ls_fail(LS_DATA_LOSS, "the disk is gone");
    else if (!worker->leave_with)
        worker->leave_with = ls_group_barrier(group, "never");
    ls_group_free(group);
}

TEST(a_failure_ends_all) {
    struct test_worker workers[WORKERS];
    int ports[WORKERS];
    test_ports(ports, WORKERS);
    test_workers(workers, WORKERS, ports);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].transport = LS_TRANSPORT_TCP;
        workers[i].body = fail_or_wait;
    }
    int64_t start = ls_now();
    test_workers_run(workers, WORKERS);
    assert_within(start, 8);
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_int_eq(workers[i].left, i == 1 ? LS_DATA_LOSS : LS_ABORTED);
        ck_assert_msg(strstr(workers[i].leave_error, "the disk is gone") != NULL, "%s", workers[i].leave_error);
    }
}

/* ---- memory of one host ---- */

static const struct link_case {
    enum ls_transport transports[2];
    uint32_t channel;
    bool server; /* rank 1 is one */
    const char *expected;
} link_cases[] = {
    {{LS_TRANSPORT_AUTO, LS_TRANSPORT_AUTO}, 2, false, "tcp"}, /* the calls of workers have a segment of their own */
    {{LS_TRANSPORT_AUTO, LS_TRANSPORT_AUTO}, 1, false, "shm"}, {{LS_TRANSPORT_AUTO, LS_TRANSPORT_AUTO}, 2, true, "shm"},
    {{LS_TRANSPORT_SHM, LS_TRANSPORT_AUTO}, 1, true, "shm"},   {{LS_TRANSPORT_TCP, LS_TRANSPORT_AUTO}, 1, true, "tcp"},
    {{LS_TRANSPORT_AUTO, LS_TRANSPORT_TCP}, 1, true, "tcp"},
};

static void await_end(struct ls_link *link) {
    int64_t until = ls_now() + 5 * LS_SECOND;
    char byte;
    while (!link->ops->receive(link, &byte, 1) && ls_now() < until) (void)usleep(1000);
    ck_assert_int_lt(ls_now(), until);
}

/* Rank 1 sends, and rank 0 reads, and closes. */
static void look_at_link(struct test_worker *worker) {
    const struct link_case *link_case = worker->context;
    struct ls_link_source *source;
    assert_ok(ls_cluster_links(worker->cluster, link_case->channel, NULL, 2, &source));
    bool inbound = link_case->channel == 1 && !worker->rank;
    struct ls_link *link = test_take_link(source, inbound ? 3 : 1 - worker->rank);
    ck_assert_str_eq(link->ops->name, link_case->expected);
    if (worker->rank) test_send_rank(link, 1);
    if (worker->rank) await_end(link);
    if (!worker->rank) ck_assert_int_eq(test_receive_rank(link), 1);
    link->ops->close(link);
    source->ops->close(source);
}

TEST_EACH(one_host_uses_memory, COUNT_OF(link_cases)) {
    struct test_worker workers[2];
    int ports[2];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    for (int i = 0; i < 2; i++) {
        workers[i].transport = link_cases[_i].transports[i];
        workers[i].body = look_at_link;
        workers[i].context = (void *)(uintptr_t)&link_cases[_i];
        if (link_cases[_i].server)
            (void)snprintf(workers[i].tf_config, sizeof(workers[i].tf_config),
                           "{\"cluster\":{\"worker\":[\"127.0.0.1:%d\"],\"ps\":[\"127.0.0.1:%d\"]},"
                           "\"task\":{\"type\":\"%s\",\"index\":0}}",
                           ports[0], ports[1], i ? "ps" : "worker");
    }
    test_workers_run(workers, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
    }
}

/* Debian gives a host's own name 127.0.1.1, and a socket of both families sees that as a mapped address. */
TEST_EACH(loopback_is_one_host, 2) {
    static const char *const dialled[] = {"127.0.0.1", "127.0.1.1"};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t size = sizeof(any);
    int off = 0, listener = socket(AF_INET6, SOCK_STREAM, 0), dials = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&any, sizeof(any)) | listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&any, &size), 0);
    to.sin_port = any.sin6_port;
    ck_assert_int_eq(inet_pton(AF_INET, dialled[_i], &to.sin_addr), 1);
    ck_assert_int_eq(connect(dials, (struct sockaddr *)&to, sizeof(to)), 0);
    int accepted = accept(listener, NULL, NULL);
    ck_assert(ls_address_is_within_host(dials));
    ck_assert(ls_address_is_within_host(accepted));
    ck_assert_int_eq(close(accepted) | close(dials) | close(listener), 0);
}

/* ---- strangers ---- */

static void try_strangers(int port) {
    struct stranger stranger;
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION, .rank = 1, .incarnation = 1}; /* of no generation */
    uint8_t bytes[LS_PREFACE_SIZE + 1] = {0};
    stranger_start(&stranger, NULL);
    ls_preface_encode(&preface, bytes);
    stranger_is_refused(&stranger, port, "target", bytes, LS_PREFACE_SIZE); /* the key of nobody */
    preface.generation = 1000;                                              /* not heard of */
    ls_preface_encode(&preface, bytes);
    stranger_is_refused(&stranger, port, "target", bytes, LS_PREFACE_SIZE);
    preface.rank = 65535;
    ls_preface_encode(&preface, bytes);
    stranger_is_refused(&stranger, port, "target", bytes, LS_PREFACE_SIZE);
    bytes[0] = 'X';
    stranger_is_refused(&stranger, port, "target", bytes, LS_PREFACE_SIZE);
    stranger_stop(&stranger);
}

TEST(strangers_get_no_link) {
    struct test_worker workers[2];
    int ports[2];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    test_worker_start(&workers[0]);
    try_strangers(ports[0]);
    test_worker_start(&workers[1]);
    for (int i = 0; i < 2; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
    ck_assert_msg(strstr(workers[0].log, "it says it is rank 1's, for data") != NULL, "%s", workers[0].log);
}

TESTS("cluster/transport", .seconds = 120)
