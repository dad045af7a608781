/* TLS: who shows which certificate. A process that speaks the protocol by hand shows bad ones, to see that the worker
 * refuses it and tells it why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/message.h"
#include "cluster/security/certificate.h"
#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "cluster/net/preface.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/stranger.h"
#include "cluster/worker.h"
#include "base/thread.h"
#include "harness.h"

static struct ls_certificate_pair authority, other;
static char folder[] = "/tmp/tls-test-XXXXXX";
static int threads; /* of a test's process: its own, and those of a sanitizer */

static void write_text(const char *name, const char *ending, const char *text, char path[LS_SETTING_TEXT]) {
    (void)snprintf(path, LS_SETTING_TEXT, "%s/%s.%s", folder, name, ending);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_authorities(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
    assert_ok(ls_certificate_make_authority("a cluster", 10, &authority));
    assert_ok(ls_certificate_make_authority("a cluster", 10, &other));
}

static void release_authorities(void) {
    char command[64];
    ls_certificate_release(&authority);
    ls_certificate_release(&other);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Workers with certificates of the authority. */
static void make(struct test_worker *workers, int count, int *ports) {
    test_ports(ports, count);
    test_workers(workers, count, ports);
    for (int i = 0; i < count; i++) {
        struct ls_certificate_pair pair;
        char name[64];
        (void)snprintf(name, sizeof(name), "worker-%d.lockstep", i);
        assert_ok(ls_certificate_issue(&authority, name, 10, &pair));
        write_text(name, "pem", pair.certificate, workers[i].tls_certificate);
        write_text(name, "key", pair.key, workers[i].tls_key);
        write_text("ca", "pem", authority.certificate, workers[i].tls_ca);
        ls_certificate_release(&pair);
    }
}

/* _i: bit 0: data over TCP alone rather than what fits; bit 1: a token as well. */
TEST_EACH(all_join, 4) {
    struct test_worker workers[3];
    int ports[3];
    make_authorities();
    make(workers, 3, ports);
    for (int i = 0; i < 3; i++) {
        workers[i].transport = _i & 1 ? LS_TRANSPORT_TCP : LS_TRANSPORT_AUTO;
        if (_i & 2) workers[i].token = "a-token-of-some-length";
    }
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
        ck_assert_msg(!strstr(workers[i].log, "refused a"), "%s", workers[i].log);
    }
    release_authorities();
}

static void start_stranger(struct stranger *stranger, const struct ls_certificate_pair *shown) {
    struct ls_tls_identity *identity;
    assert_ok(ls_tls_identity_new(shown->certificate, shown->key, authority.certificate, &identity));
    stranger_start(stranger, identity);
}

/* Says Hello as worker:1 with that certificate and waits for the answer, or is refused before. */
static void say_hello(struct stranger *stranger, int port) {
    struct ls_rpc_stream *stream;
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    struct ls_message message = {.kind = LS_MESSAGE_HELLO, .incarnation = 77, .generation = 0};
    message.hello = (struct ls_hello){LS_PROTOCOL_VERSION, LS_VERSION, "worker", 1, 1, 2, "", "", "tcp", NULL};
    assert_ok(ls_message_encode(&message, &data, &size));
    int fd = stranger_dial_tls(stranger, port, "worker-0.lockstep");
    stranger->code = LS_UNAUTHENTICATED;
    if (fd < 0) return;
    ls_monitor_lock(&stranger->monitor);
    assert_ok(ls_rpc_stream_open(stranger->rpc, fd, "worker-0.lockstep", &stream));
    stranger_say(stranger, stream, data, size);
    ls_monitor_unlock(&stranger->monitor);
}

/* Opens a data link as rank 1, which must be refused. */
static void open_link(struct stranger *stranger, int port) {
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION, .rank = 1, .generation = 1, .incarnation = 77};
    uint8_t bytes[LS_PREFACE_SIZE];
    ls_preface_encode(&preface, bytes);
    stranger_is_refused(stranger, port, "worker-0.lockstep", bytes, sizeof(bytes));
}

static const struct {
    bool good_authority;
    const char *name;
    int days;
    const char *why; /* NULL if let in */
} shown[] = {
    {true, "worker-1.lockstep", 10, NULL},
    {false, "worker-1.lockstep", 10, "is not signed by the authority"},
    {true, "worker-1.lockstep", -1, "has expired"},
    {true, "worker-2.lockstep", 10, "is for 'worker-2.lockstep', not for 'worker-1.lockstep'"},
    {true, "worker-0.lockstep", 10, "is for 'worker-0.lockstep', not for 'worker-1.lockstep'"},
    {true, NULL, 10, "is missing"},
};

TEST_EACH(strangers_are_told_why, COUNT_OF(shown)) {
    struct test_worker workers[2];
    struct ls_certificate_pair pair = {NULL, NULL};
    struct stranger stranger;
    int ports[2];
    make_authorities();
    make(workers, 2, ports);
    if (shown[_i].name)
        assert_ok(ls_certificate_issue(shown[_i].good_authority ? &authority : &other, shown[_i].name, shown[_i].days,
                                       &pair));
    test_worker_start(&workers[0]);
    start_stranger(&stranger, &pair);
    say_hello(&stranger, ports[0]);
    ck_assert_int_eq(stranger.code, shown[_i].why ? LS_UNAUTHENTICATED : LS_INVALID_ARGUMENT); /* its cluster differs */
    if (shown[_i].why) {
        ck_assert_msg(strstr(stranger.text, shown[_i].why) != NULL, "%s", stranger.text);
        open_link(&stranger, ports[0]);
    }
    test_worker_start(&workers[1]);
    test_worker_wait(&workers[1]);
    test_worker_wait(&workers[0]);
    stranger_stop(&stranger);
    assert_ok(workers[0].joined);
    if (shown[_i].why) ck_assert_msg(strstr(workers[0].log, shown[_i].why) != NULL, "%s", workers[0].log);
    ls_certificate_release(&pair);
    release_authorities();
}

/* A stream on a good connection, on which nothing comes that proves a worker. */
TEST(silent_stream_is_closed) {
    struct test_worker workers[2];
    struct ls_certificate_pair pair = {NULL, NULL};
    struct stranger stranger;
    struct ls_rpc_stream *stream;
    int ports[2];
    make_authorities();
    make(workers, 2, ports);
    assert_ok(ls_certificate_issue(&authority, "worker-1.lockstep", 10, &pair));
    test_worker_start(&workers[0]);
    start_stranger(&stranger, &pair);
    int64_t begun = ls_now();
    int fd = stranger_dial_tls(&stranger, ports[0], "worker-0.lockstep");
    ls_monitor_lock(&stranger.monitor);
    assert_ok(ls_rpc_stream_open(stranger.rpc, fd, "worker-0.lockstep", &stream));
    ls_monitor_unlock(&stranger.monitor);
    (void)stranger_wait_end(&stranger, 15);
    double seconds = ls_seconds_since(begun), limit = (double)LS_FIRST_HELLO_TIMEOUT / (double)LS_SECOND;
    ck_assert_msg(seconds > limit - 0.5 && seconds < limit + 4, "%g s", seconds);
    test_worker_run(&workers[1]);
    test_worker_wait(&workers[0]);
    stranger_stop(&stranger);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
    ls_certificate_release(&pair);
    release_authorities();
}

/* _i: bit 0: which of the two has TLS; bit 1: which one starts first. */
TEST_EACH(one_lacks_tls, 4) {
    struct test_worker workers[2];
    struct test_worker *has = &workers[_i & 1], *lacks = &workers[!(_i & 1)];
    int ports[2];
    char words[256];
    make_authorities();
    make(workers, 2, ports);
    *lacks->tls_certificate = *lacks->tls_key = *lacks->tls_ca = 0;
    workers[!(_i & 2)].delay = 0.3;
    test_workers_run(workers, 2);
    (void)snprintf(words, sizeof(words), "worker:%d (127.0.0.1:%d) has TLS and worker:%d (127.0.0.1:%d) has none",
                   has->rank, ports[has->rank], lacks->rank, ports[lacks->rank]);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(workers[i].joined, LS_UNAUTHENTICATED);
        ck_assert_msg(strncmp(workers[i].join_error, words, strlen(words)) == 0, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].join_seconds < (double)LS_TELL_TIMEOUT / (double)LS_SECOND, "%d: %g s", i,
                      workers[i].join_seconds);
    }
    release_authorities();
}

static void say_hello_in_the_clear(struct stranger *stranger, int port) {
    struct ls_rpc_stream *stream;
    ls_monitor_lock(&stranger->monitor);
    assert_ok(ls_rpc_stream_open(stranger->rpc, stranger_dial(port), "worker-0.lockstep", &stream));
    stranger_say(stranger, stream, "hello", 5);
    ls_monitor_unlock(&stranger->monitor);
    ck_assert_int_eq(stranger->verdict, 0);
}

/* A worker waits alone; strangers that have TLS where it has none, or none where it has it, do not end it. _i: it has.
 */
TEST_EACH(strangers_end_nobody, 2) {
    struct test_worker workers[2];
    struct ls_certificate_pair none = {NULL, NULL};
    struct stranger stranger;
    int ports[2];
    make_authorities();
    make(workers, 2, ports);
    for (int i = 0; i < 2 && !_i; i++) *workers[i].tls_certificate = *workers[i].tls_key = *workers[i].tls_ca = 0;
    test_worker_start(&workers[0]);
    if (_i)
        stranger_start(&stranger, NULL);
    else
        start_stranger(&stranger, &none);
    for (int i = 0; i < 3; i++) {
        if (_i)
            say_hello_in_the_clear(&stranger, ports[0]);
        else
            ck_assert_int_lt(stranger_dial_tls(&stranger, ports[0], "worker-0.lockstep"), 0);
    }
    test_worker_run(&workers[1]);
    test_worker_wait(&workers[0]);
    stranger_stop(&stranger);
    for (int i = 0; i < 2; i++) ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
    ck_assert_msg(strstr(workers[0].log, _i ? "it speaks without TLS" : "it speaks TLS"), "%s", workers[0].log);
    release_authorities();
}

static void *nothing(void *context) {
    return context;
}

static void count_threads(void) {
    pthread_t first;
    assert_ok(ls_thread_start(&first, "first", nothing, NULL));
    (void)pthread_join(first, NULL);
    threads = test_count_entries("/proc/self/task");
}

/* gRPC frees parts of its TLS in threads of its own, a while after their last use. */
static void wait_for_threads(void) {
    ck_assert_int_le(test_settled("/proc/self/task", threads), threads);
}

TESTS("cluster/auth_tls", .seconds = 60, .before = count_threads, .after = wait_for_threads)
