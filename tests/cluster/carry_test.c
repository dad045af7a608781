/* Carry from a worker that has been let in and then says anything: streams that nobody knows, for workers that there
 * are not, in any order, with messages that are none. Nothing of it keeps the others from joining. Each round draws
 * from a seed, which is printed; CARRY_SEED in the environment sets the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/message_encode.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/stranger.h"
#include "cluster/worker.h"
#include "harness.h"
#include "resolver/tf_config.h"

#define COUNT    4
#define ROUNDS   (SANITIZED ? 10 : 30)
#define MESSAGES 60

struct drawn {
    uint64_t state;
};

static unsigned below(struct drawn *drawn, unsigned limit) {
    drawn->state = drawn->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(drawn->state >> 33) % limit;
}

static void encode_hello(const struct test_worker *worker, int rank, uint64_t incarnation, void **data, size_t *size) {
    struct ls_cluster_view *config;
    assert_ok(ls_tf_config_parse(worker->tf_config, &config));
    struct ls_message message = {.kind = LS_MESSAGE_HELLO, .incarnation = incarnation};
    message.hello = (struct ls_hello){.protocol = LS_PROTOCOL_VERSION,
                                      .version = LS_VERSION,
                                      .task_type = "worker",
                                      .task_index = rank,
                                      .rank = rank,
                                      .size = COUNT,
                                      .cluster = config->canonical,
                                      .host = "elsewhere",
                                      .transport = "auto",
                                      .elastic = "",
                                      .options = ""};
    assert_ok(ls_message_encode(&message, data, size));
    ls_cluster_view_free(config);
}

/* A carried stream holds a Hello, another Carry, or bytes. */
static void draw_content(struct drawn *drawn, const struct test_worker *worker, void **data, size_t *size) {
    struct ls_message inner = {.kind = LS_MESSAGE_CARRY, .incarnation = 7};
    unsigned what = below(drawn, 4);
    inner.carry =
        (struct ls_carry){.kind = LS_CARRY_DATA, .from = 1, .to = 0, .number = 1, .data = "x", .size = 1, .reason = ""};
    if (what < 2) {
        encode_hello(worker, (int)below(drawn, COUNT), 1 + below(drawn, 3), data, size);
    } else if (what == 2) {
        assert_ok(ls_message_encode(&inner, data, size));
    } else {
        *size = 1 + below(drawn, 100);
        *data = ls_alloc(*size);
        for (size_t i = 0; i < *size; i++) ((uint8_t *)*data)[i] = (uint8_t)below(drawn, 256);
    }
}

static void say_carry(struct drawn *drawn, struct ls_rpc_stream *stream, const struct test_worker *worker, int rank) {
    LS_CLEANUP(ls_free_pointer) void *content = NULL;
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size, content_size;
    struct ls_message message = {.kind = LS_MESSAGE_CARRY, .incarnation = 98};
    bool sound = below(drawn, 40) != 0; /* one that fits the sender: the others end the stream at once */
    unsigned kind = 1 + below(drawn, 4);
    draw_content(drawn, worker, &content, &content_size);
    int to = (int)below(drawn, COUNT), from = sound ? rank == 1 ? 1 : 2 + (int)below(drawn, 2) : (int)below(drawn, 9);
    if (sound && rank != 1) to = 0;
    if (to == from) to = (to + 1) % COUNT;
    message.carry =
        (struct ls_carry){.kind = (enum ls_carry_kind)kind, .from = from, .to = to, .number = 1 + below(drawn, 16)};
    message.carry.reason = "no reason";
    if (kind == LS_CARRY_OPEN || kind == LS_CARRY_DATA) message.carry.data = content;
    if (message.carry.data) message.carry.size = content_size;
    assert_ok(ls_message_encode(&message, &data, &size));
    assert_ok(ls_rpc_stream_send(stream, data, size));
}

/* As the worker beside the one that runs (1), or as one of another host. */
static void play(struct stranger *stranger, struct drawn *drawn, const struct test_worker *worker, int port) {
    LS_CLEANUP(ls_free_pointer) void *hello = NULL;
    struct ls_rpc_stream *stream;
    size_t size;
    int rank = 1 + (int)below(drawn, 2), count = 1 + (int)below(drawn, MESSAGES);
    encode_hello(worker, rank, 98, &hello, &size);
    int fd = stranger_dial(port);
    ls_monitor_lock(&stranger->monitor);
    int ended = stranger->ended;
    assert_ok(ls_rpc_stream_open(stranger->rpc, fd, "target", &stream));
    stranger_say(stranger, stream, hello, size);
    bool in = stranger->verdict == LS_VERDICT_ACCEPTED;
    for (int i = 0; i < count && in && stranger->ended == ended; i++) {
        say_carry(drawn, stream, worker, rank);
        (void)ls_monitor_wait(&stranger->monitor, ls_now() + LS_MILLISECOND);
    }
    if (stranger->ended == ended) ls_rpc_stream_drop(stream);
    ls_monitor_unlock(&stranger->monitor);
}

START_TEST(anything_in_a_carry) {
    static struct test_worker workers[COUNT];
    struct stranger stranger;
    const char *given = getenv("CARRY_SEED");
    struct drawn drawn = {given ? strtoull(given, NULL, 10) : (uint64_t)ls_now()};
    int ports[COUNT];
    test_ports(ports, COUNT);
    (void)printf("# CARRY_SEED=%llu\n", (unsigned long long)drawn.state);
    (void)fflush(stdout);
    ck_assert_int_eq(setenv("LOCKSTEP_HOST_STREAMS", "on", 1), 0);
    test_host_workers(workers, COUNT, ports, 2);
    for (int i = 0; i < COUNT; i++) workers[i].join_timeout = 60;
    test_worker_start(&workers[0]);
    stranger_start(&stranger, NULL);
    for (int i = 0; i < ROUNDS; i++) play(&stranger, &drawn, &workers[0], ports[0]);
    stranger_stop(&stranger);
    for (int i = 1; i < COUNT; i++) test_worker_start(&workers[i]);
    for (int i = 0; i < COUNT; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(workers[i].left == LS_OK && !workers[i].joined, "%s", workers[i].join_error);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cluster/carry");
    TCase *tests = tcase_create("carry");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, anything_in_a_carry);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
