/* Settings that must be equal between workers: every worker gets one error, which names field, values and ranks. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/difference.h"
#include "cluster/message.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/stranger.h"
#include "cluster/worker.h"
#include "harness.h"
#include "resolver/tf_config.h"

enum { LONG_CLUSTER = 1000 /* tasks */ };

static int64_t begun; /* when this test's process did */

static void begin(void) {
    begun = ls_now();
}

/* All of this test is a process of its own, which waits for most of its time: however slow the machine makes its start,
 * a thread that turns without a pause takes a processor. */
static void expect_idle(void) {
    double computed = (double)clock() / CLOCKS_PER_SEC, passed = ls_seconds_since(begun);
    ck_assert_msg(computed < (SANITIZED ? 4 : 1) * (1 + passed / 2), "it has computed for %g of %g s", computed,
                  passed);
}

static void expect_all(const struct test_worker *workers, int count, const char *text) {
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workers[i].joined == LS_INVALID_ARGUMENT, "worker %d: %d %s", i, (int)workers[i].joined,
                      workers[i].join_error);
        ck_assert_msg(strstr(workers[i].join_error, text) != NULL, "worker %d: no '%s' in: %s", i, text,
                      workers[i].join_error);
        ck_assert_double_lt(workers[i].join_seconds, limit_of(8));
    }
}

TEST(other_version) {
    struct test_worker workers[2];
    int ports[2];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    workers[1].version = "9.9.9";
    test_workers_run(workers, 2);
    expect_all(workers, 2,
               "the library version differs: '" LS_VERSION "' on worker:0 (rank 0), '9.9.9' on worker:1 (rank 1)");
}

/* Three workers connect first; the odd one comes later, and all of them hear of it. */
TEST(other_version_told_to_all) {
    struct test_worker workers[4];
    int ports[4];
    test_ports(ports, 4);
    test_workers(workers, 4, ports);
    workers[2].version = "9.9.9";
    workers[2].delay = 1;
    test_workers_run(workers, 4);
    expect_all(workers, 4, "the library version differs: ");
    expect_all(workers, 4, "'9.9.9' on worker:2 (rank 2)");
    expect_idle();
}

TEST(other_transport) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    workers[1].transport = LS_TRANSPORT_SHM;
    workers[2].transport = LS_TRANSPORT_TCP;
    test_workers_run(workers, 3);
    expect_all(workers, 3,
               "LOCKSTEP_TRANSPORT differs: 'shm' on worker:1 (rank 1), 'tcp' on worker:2 (rank 2); start all ");
}

/* Workers find out about shared memory later, when they make a group. */
TEST(transports_that_agree_join) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    workers[1].transport = LS_TRANSPORT_AUTO;
    workers[2].transport = LS_TRANSPORT_TCP;
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
}

TEST(other_cluster) {
    struct test_worker workers[3], others[3];
    int ports[4];
    test_ports(ports, 4);
    test_workers(workers, 3, ports);
    test_workers(others, 3, (const int[]){ports[0], ports[3], ports[2]});
    memcpy(workers[2].tf_config, others[2].tf_config, sizeof(workers[2].tf_config));
    test_workers_run(workers, 3);
    expect_idle();
    expect_all(workers, 3, "cluster.worker[1] differs");
    expect_all(workers, 3, "(rank 2)");
}

TEST(other_size) {
    struct test_worker workers[2];
    int ports[3];
    char list[256];
    test_ports(ports, 3);
    test_workers(workers, 2, ports);
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[1],
                   ports[2]);
    test_config(workers[1].tf_config, sizeof(workers[1].tf_config), list, 1);
    test_workers_run(workers, 2);
    expect_all(workers, 2, "cluster.worker differs: '2 tasks' on worker:0 (rank 0), '3 tasks' on worker:1 (rank 1)");
}

/* TF_CONFIG with as many other tasks, which never start, as make it too long for a Hello. */
static void lengthen(struct test_worker *worker, const int ports[2], int last) {
    static char texts[2][40000];
    char *text = texts[worker->rank];
    size_t used = (size_t)snprintf(
        text, sizeof(texts[0]), "{\"cluster\": {\"worker\": [\"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[1]);
    for (int i = 2; i < LONG_CLUSTER; i++)
        used += (size_t)snprintf(text + used, sizeof(texts[0]) - used, ", \"127.1.%d.%d:%d\"", i / 250, i % 250,
                                 i < LONG_CLUSTER - 1 ? 2222 : last);
    (void)snprintf(text + used, sizeof(texts[0]) - used, "]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
                   worker->rank);
    worker->long_config = text;
}

static void digest_of(const struct test_worker *worker, char hex[65]) {
    struct ls_cluster_view *tf_config;
    assert_ok(ls_tf_config_parse(worker->long_config, &tf_config));
    assert_ok(ls_digest_sha256(tf_config->canonical, strlen(tf_config->canonical), hex));
    ls_cluster_view_free(tf_config);
}

/* In the last of 1,000 tasks: the digests differ, and are named. */
TEST(other_long_cluster) {
    struct test_worker workers[2];
    int ports[2];
    char digests[2][65], text[512];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    for (int i = 0; i < 2; i++) {
        lengthen(&workers[i], ports, 2222 + i);
        digest_of(&workers[i], digests[i]);
    }
    ck_assert_str_ne(digests[0], digests[1]);
    test_workers_run(workers, 2);
    (void)snprintf(text, sizeof(text), "cluster.sha256 differs: '%s' on worker:0 (rank 0), '%s' on worker:1 (rank 1)",
                   digests[0], digests[1]);
    expect_all(workers, 2, text);
    expect_idle();
}

/* A worker of another cluster that has the address of this one's first by mistake: it alone is refused, whether others
 * are there yet (_i) or not. */
TEST_EACH(stranger_is_refused_alone, 2) {
    struct test_worker workers[4];
    int ports[4];
    char list[256];
    test_ports(ports, 4);
    test_workers(workers, 3, ports);
    workers[3] = (struct test_worker){.rank = 1, .size = 2, .delay = 0.4};
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[3]);
    test_config(workers[3].tf_config, sizeof(workers[3].tf_config), list, 1);
    workers[1].delay = _i ? 0 : 1.5;
    workers[2].delay = 1.5;
    test_workers_run(workers, 4);
    for (int i = 0; i < 3; i++) ck_assert_msg(workers[i].joined == LS_OK, "worker %d: %s", i, workers[i].join_error);
    expect_all(workers + 3, 1,
               "cluster.worker differs: '3 tasks' on worker:0 (rank 0), '2 tasks' on worker:1 (rank 1)");
    ck_assert_msg(strstr(workers[0].log, "cluster.worker differs: '3 tasks'") != NULL, "%s", workers[0].log);
    expect_idle();
}

/* The same where it says that it is the only other worker, which comes later. */
TEST(stranger_is_refused_alone_by_one_of_two) {
    struct test_worker workers[3], others[2];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 2, ports);
    test_workers(others, 2, (const int[]){ports[0], ports[2]});
    workers[1].delay = 1.5;
    workers[2] = others[1];
    workers[2].delay = 0.4;
    test_workers_run(workers, 3);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "worker %d: %s", i, workers[i].join_error);
    expect_all(workers + 2, 1, "cluster.worker[1] differs");
    ck_assert_msg(strstr(workers[0].log, "cluster.worker[1] differs") != NULL, "%s", workers[0].log);
    expect_idle();
}

/* worker:1's address leads to worker:0 itself: the index is wrong for the host. */
TEST(reaches_itself) {
    struct test_worker worker = {.rank = 0, .size = 2};
    int ports[2];
    char list[256];
    test_ports(ports, 1);
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"localhost:%d\"", ports[0], ports[0]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_run(&worker);
    expect_all(&worker, 1, "leads to this process, which is worker:0");
}

static void encode_hello(const struct test_worker *worker, int rank, uint64_t incarnation, uint64_t generation,
                         uint32_t protocol, void **data, size_t *size) {
    struct ls_cluster_view *tf_config;
    assert_ok(ls_tf_config_parse(worker->tf_config, &tf_config));
    struct ls_message message = {.kind = LS_MESSAGE_HELLO, .incarnation = incarnation, .generation = generation};
    message.hello =
        (struct ls_hello){protocol, LS_VERSION, "worker", rank, rank, 2, tf_config->canonical, "elsewhere", "auto", ""};
    assert_ok(ls_message_encode(&message, data, size));
    ls_cluster_view_free(tf_config);
}

/* Says Hello as a process of rank that has entered this generation, and waits for the answer. */
static struct ls_rpc_stream *say_hello_of(struct stranger *impostor, const struct test_worker *worker, int port,
                                          int rank, uint64_t incarnation, uint64_t generation, uint32_t protocol) {
    struct ls_rpc_stream *stream;
    void *data;
    size_t size;
    encode_hello(worker, rank, incarnation, generation, protocol, &data, &size);
    int fd = stranger_dial(port);
    ls_monitor_lock(&impostor->monitor);
    assert_ok(ls_rpc_stream_open(impostor->rpc, fd, "target", &stream));
    stranger_say(impostor, stream, data, size);
    ls_monitor_unlock(&impostor->monitor);
    ls_free(data);
    return stream;
}

/* The same for one that is new. */
static struct ls_rpc_stream *say_hello(struct stranger *impostor, const struct test_worker *worker, int port, int rank,
                                       uint64_t incarnation, uint32_t protocol) {
    return say_hello_of(impostor, worker, port, rank, incarnation, 0, protocol);
}

/* Starts worker 0 of two, and an impostor: he says what a second process of a task would say from another host, and
 * gives no signs of life. */
static void start(struct stranger *impostor, struct test_worker *workers, int *ports) {
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    workers[0].heartbeat_limit = 60;
    test_worker_start(&workers[0]);
    stranger_start(impostor, NULL);
}

TEST(same_task_twice) {
    struct test_worker workers[2];
    struct stranger impostor;
    int ports[2];
    start(&impostor, workers, ports);
    (void)say_hello(&impostor, &workers[0], ports[0], 0, 99, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_REFUSED);
    ck_assert_ptr_nonnull(strstr(impostor.text, "two processes say that they are worker:0 (rank 0)"));
    stranger_stop(&impostor);
    test_worker_wait(&workers[0]);
    expect_all(workers, 1, impostor.text);
}

/* A second process of worker:1 says hello while the first one is connected: it is put off. */
static void start_rival(struct stranger *impostor, struct test_worker *workers, int *ports) {
    start(impostor, workers, ports);
    (void)say_hello(impostor, &workers[1], ports[0], 1, 98, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor->verdict, LS_VERDICT_ACCEPTED);
    (void)say_hello(impostor, &workers[1], ports[0], 1, 99, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor->verdict, LS_VERDICT_RETRY);
}

/* While the first process of worker:1 is connected, a second one is put off, and refused when it insists. */
TEST(rival_of_a_peer) {
    struct test_worker workers[2];
    struct stranger impostor;
    int ports[2];
    start_rival(&impostor, workers, ports);
    (void)usleep(2200000);
    (void)say_hello(&impostor, &workers[1], ports[0], 1, 99, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_REFUSED);
    stranger_stop(&impostor);
    test_worker_wait(&workers[0]);
    expect_all(workers, 1, "two processes say that they are worker:1 (rank 1)");
}

TEST(other_protocol) {
    struct test_worker workers[2];
    struct stranger impostor;
    int ports[2];
    char text[128];
    start(&impostor, workers, ports);
    (void)say_hello(&impostor, &workers[1], ports[0], 1, 98, LS_PROTOCOL_VERSION + 2);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_REFUSED);
    stranger_stop(&impostor);
    test_worker_wait(&workers[0]);
    (void)snprintf(text, sizeof(text),
                   "the protocol version differs: '%u' on worker:0 (rank 0), '%u' on worker:1 (rank 1)",
                   LS_PROTOCOL_VERSION, LS_PROTOCOL_VERSION + 2);
    expect_all(workers, 1, text);
}

/* A connected worker that says nonsense is cut off, and its place is free for the real one. */
struct stay {
    atomic_int inside;
    atomic_bool told;
};

static void stay_until_told(struct test_worker *worker) {
    struct stay *stay = worker->context;
    atomic_fetch_add(&stay->inside, 1);
    while (!atomic_load(&stay->told)) (void)usleep(1000);
}

/* A process of an earlier generation that the group has gone on without hears so; a new one is put off while it runs.
 */
TEST(left_out_of_a_later_generation) {
    struct test_worker workers[2];
    struct stranger impostor;
    struct stay stay = {0, false};
    int ports[2];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    for (int i = 0; i < 2; i++) {
        workers[i].body = stay_until_told;
        workers[i].context = &stay;
        test_worker_start(&workers[i]);
    }
    stranger_start(&impostor, NULL);
    for (int turns = 0; atomic_load(&stay.inside) < 2 && turns < 20000; turns++) (void)usleep(1000);
    ck_assert_int_eq(atomic_load(&stay.inside), 2);
    (void)say_hello_of(&impostor, &workers[1], ports[0], 1, 99, 1, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_FENCED);
    ck_assert_ptr_nonnull(strstr(impostor.text, "gone on without this process (to generation 2, and this is of 1)"));
    (void)say_hello(&impostor, &workers[1], ports[0], 1, 99, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_RETRY);
    stranger_stop(&impostor);
    atomic_store(&stay.told, true);
    for (int i = 0; i < 2; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
}

/* A refused worker closes its stream when it has read the reason. A worker that does not is cut off. */
TEST(refused_and_stays) {
    struct test_worker workers[2];
    struct stranger impostor;
    int ports[2];
    start_rival(&impostor, workers, ports);
    double seconds = stranger_wait_end(&impostor, 8), limit = (double)LS_REFUSED_TIMEOUT / (double)LS_SECOND;
    ck_assert_msg(seconds > limit - 0.3 && seconds < limit + 4, "%g s", seconds);
    (void)say_hello(&impostor, &workers[1], ports[0], 1, 100, LS_PROTOCOL_VERSION); /* it does not pay for that one */
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_RETRY);
    stranger_stop(&impostor);
    test_worker_run(&workers[1]);
    test_worker_wait(&workers[0]);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
}

TEST(nonsense_from_a_peer) {
    struct test_worker workers[2];
    struct stranger impostor;
    int ports[2];
    start(&impostor, workers, ports);
    struct ls_rpc_stream *stream = say_hello(&impostor, &workers[1], ports[0], 1, 98, LS_PROTOCOL_VERSION);
    ck_assert_int_eq(impostor.verdict, LS_VERDICT_ACCEPTED);
    ls_monitor_lock(&impostor.monitor);
    stranger_say(&impostor, stream, "nonsense", 8);
    ls_monitor_unlock(&impostor.monitor);
    test_worker_run(&workers[1]);
    test_worker_wait(&workers[0]);
    stranger_stop(&impostor);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
}

TEST(finds_the_first_difference) {
    struct ls_difference difference;
    ck_assert(!ls_line_difference_find("", "", &difference));
    ck_assert(!ls_line_difference_find("a=1\nb=2\n", "a=1\nb=2\n", &difference));
    ck_assert(!ls_line_difference_find("a=1\nb=2\n", "b=2\na=1\n", &difference));
    ck_assert(ls_line_difference_find("a=1\nb=2\n", "a=1\nb=3\n", &difference));
    ck_assert_str_eq(difference.field, "b");
    ck_assert_str_eq(difference.first, "2");
    ck_assert_str_eq(difference.second, "3");
    ck_assert(ls_line_difference_find("a=1\nb=2\n", "a=1\n", &difference));
    ck_assert_str_eq(difference.second, "(absent)");
    ck_assert(ls_line_difference_find("a=1\n", "a=1\nc", &difference));
    ck_assert_str_eq(difference.field, "c");
    ck_assert_str_eq(difference.first, "(absent)");
    ck_assert(ls_line_difference_find("ab=1", "a=1", &difference));
    ck_assert_str_eq(difference.field, "ab");
    /* of several lines with one name the first is compared with the first, and so on */
    ck_assert(!ls_line_difference_find("c=x\na=1\nc=y\n", "c=x\nc=y\na=1\n", &difference));
    ck_assert(ls_line_difference_find("c=x\nc=y\n", "c=x\nc=z\n", &difference));
    ck_assert_str_eq(difference.first, "y");
    ck_assert_str_eq(difference.second, "z");
    ck_assert(ls_line_difference_find("c=x\nc=y\n", "c=y\nc=x\n", &difference));
    ck_assert_str_eq(difference.first, "x");
    ck_assert(ls_line_difference_find("c=x\n", "c=x\nc=x\n", &difference));
    ck_assert_str_eq(difference.first, "(absent)");
    ck_assert_str_eq(difference.second, "x");
}

TESTS("cluster/refusal", .seconds = 60, .before = begin)
