/* The rendezvous at rank 0, by hand: who asks for the addresses, in pieces, in vain or without end. */
#include "cluster/rendezvous/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "cluster/rendezvous/meet.h"
#include "harness.h"

#define TOKEN "0123456789abcdef"
#define SOON  (20 * LS_SECOND)
#define JOB   4711

static struct ls_settings settings;
static struct ls_cluster_view spec;
static struct ls_rendezvous *rendezvous;
static atomic_int lines;
static char last_line[512];

static void take_line(void *context, ls_log_level level, const char *line) {
    (void)level, (void)context;
    (void)snprintf(last_line, sizeof(last_line), "%s", line);
    atomic_fetch_add(&lines, 1);
}

static const struct ls_log noted = {.sink = take_line, .level = LS_LOG_WARNING};

static void open_rendezvous(int size, const char *token) {
    struct ls_credentials credentials = {0};
    assert_ok(ls_settings_read(&settings));
    settings.join_timeout = 40;
    credentials.token_size = strlen(token);
    memcpy(credentials.token, token, strlen(token));
    assert_ok(ls_cluster_view_make_workers(&spec, size));
    assert_ok(ls_cluster_view_place(&spec.tasks[0], "127.0.0.1", 4000));
    spec.type = LS_TASK_WORKER;
    spec.num_workers = size;
    spec.meet_port = 4000;
    spec.job = JOB;
    assert_ok(ls_rendezvous_server_new(&spec, &settings, &noted, &credentials, &rendezvous));
}

static void close_rendezvous(void) {
    ls_rendezvous_server_free(rendezvous);
    for (int i = 0; i < spec.task_count; i++) {
        ls_free(spec.tasks[i].host);
        ls_free(spec.tasks[i].address);
    }
    ls_free(spec.tasks);
    ls_free(spec.canonical);
}

/* ---- who asks ---- */

struct asker {
    int fd;
    struct ls_meet_ask ask;
    uint8_t nonce[LS_MEET_NONCE]; /* rank 0's */
};

/* A connection from this address of loopback, as the listener would hand it on; the ask has been said. */
static struct asker ask_from(const char *host, const struct ls_meet_ask *ask) {
    struct sockaddr_in to = {.sin_family = AF_INET}, from = {.sin_family = AF_INET};
    socklen_t size = sizeof(to);
    uint8_t bytes[LS_MEET_SIZE];
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = inet_addr(host);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&to, size), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&to, &size), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, size), 0);
    ls_meet_encode_ask(ask, bytes);
    ck_assert_int_eq(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    int accepted = accept(listening, NULL, NULL);
    (void)close(listening);
    ck_assert_int_eq(recv(accepted, bytes, sizeof(bytes), MSG_PEEK | MSG_WAITALL), sizeof(bytes));
    ls_rendezvous_server_take(rendezvous, accepted, NULL);
    return (struct asker){.fd = fd, .ask = *ask};
}

static struct ls_meet_ask ask_of(int rank, bool token) {
    return (struct ls_meet_ask){.protocol = LS_PROTOCOL_VERSION,
                                .rank = rank,
                                .size = spec.num_workers,
                                .port = 5000 + rank,
                                .token = token,
                                .job = JOB};
}

static struct asker ask_as(int rank, bool token) {
    const struct ls_meet_ask ask = ask_of(rank, token);
    return ask_from("127.0.0.1", &ask);
}

/* The next answer; its text ends with 0. False: the connection was closed. */
static bool read_answer(struct asker *asker, struct ls_meet_answer *answer, char text[1024]) {
    uint8_t header[LS_MEET_HEADER];
    if (recv(asker->fd, header, sizeof(header), MSG_WAITALL) != (ssize_t)sizeof(header)) return false;
    assert_ok(ls_meet_decode_answer(header, answer));
    ck_assert_uint_lt(answer->length, 1024);
    ck_assert_int_eq(recv(asker->fd, text, answer->length, MSG_WAITALL), (ssize_t)answer->length);
    text[answer->length] = 0;
    if (answer->kind == LS_MEET_CHALLENGE) memcpy(asker->nonce, text, sizeof(asker->nonce));
    return true;
}

static void expect(struct asker *asker, enum ls_meet_kind kind, char text[1024]) {
    struct ls_meet_answer answer;
    ck_assert(read_answer(asker, &answer, text));
    ck_assert_msg(answer.kind == kind, "kind %d: %s", answer.kind, text);
}

static void prove(const struct asker *asker, uint8_t proof[LS_PROOF_SIZE]) {
    struct ls_secret token = {TOKEN, strlen(TOKEN)};
    ck_assert(ls_meet_prove(token, "ask", &asker->ask, asker->nonce, (struct ls_secret){0}, proof));
}

static void say(const struct asker *asker, const uint8_t *bytes, size_t size) {
    ck_assert_int_eq(send(asker->fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void ask_and_prove(struct asker *asker, int rank) {
    uint8_t proof[LS_PROOF_SIZE];
    char text[1024];
    *asker = ask_as(rank, true);
    expect(asker, LS_MEET_CHALLENGE, text);
    prove(asker, proof);
    say(asker, proof, sizeof(proof));
}

/* ---- the tests ---- */

static double processor_seconds(void) {
    struct timespec spent;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (double)spent.tv_sec + 1e-9 * (double)spent.tv_nsec;
}

/* A thread that polls without pause would take most of the time that this one sleeps. */
TEST(a_part_of_a_proof_costs_no_processor_time) {
    uint8_t proof[LS_PROOF_SIZE];
    char text[1024];
    open_rendezvous(2, TOKEN);
    struct asker asker = ask_as(1, true);
    expect(&asker, LS_MEET_CHALLENGE, text);
    prove(&asker, proof);
    say(&asker, proof, 1);
    (void)usleep(50000);
    double before = processor_seconds();
    (void)usleep(400000);
    ck_assert_double_lt(processor_seconds() - before, 0.1);
    for (size_t i = 1; i < sizeof(proof); i++) say(&asker, proof + i, 1);
    expect(&asker, LS_MEET_ROSTER, text);
    ck_assert_str_eq(text, "127.0.0.1:4000\n127.0.0.1:5001\n");
    (void)close(asker.fd);
    close_rendezvous();
}

TEST(refused_asks_are_one_line_and_a_count) {
    char text[1024];
    open_rendezvous(2, "");
    for (int i = 0; i < 100; i++) {
        struct ls_meet_ask ask = {LS_PROTOCOL_VERSION, 1, 77, 5001, false, JOB, {0}};
        struct asker asker = ask_from("127.0.0.1", &ask);
        expect(&asker, LS_MEET_REFUSAL, text);
        ck_assert_str_eq(text, "rank 1 says that there are 77 workers, and rank 0 that there are 2");
        (void)close(asker.fd);
    }
    ck_assert_int_eq(atomic_load(&lines), 1);
    close_rendezvous();
    ck_assert_int_eq(atomic_load(&lines), 2);
    ck_assert_ptr_nonnull(strstr(last_line, "100 with another configuration"));
}

static void *collect(void *argument) {
    *(ls_status *)argument = ls_rendezvous_server_collect(rendezvous);
    return NULL;
}

TEST(nobody_waits_for_who_asks_and_is_silent) {
    ls_status status = LS_UNKNOWN;
    pthread_t thread;
    struct asker real;
    char text[1024];
    open_rendezvous(2, TOKEN);
    struct asker stranger = ask_as(1, true);
    expect(&stranger, LS_MEET_CHALLENGE, text);
    ask_and_prove(&real, 1);
    int64_t begun = ls_now();
    assert_ok(ls_thread_start(&thread, "test", collect, &status));
    (void)pthread_join(thread, NULL);
    assert_ok(status);
    assert_within(begun, 4);
    expect(&real, LS_MEET_ROSTER, text);
    (void)close(real.fd);
    (void)close(stranger.fd);
    close_rendezvous();
}

static bool is_closed(int fd) {
    uint8_t bytes[LS_MEET_HEADER + LS_MEET_NONCE];
    ssize_t size;
    while ((size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) continue;
    return !size;
}

static int count_open(const struct asker *askers, int count) {
    int open = 0;
    for (int i = 0; i < count; i++) open += !is_closed(askers[i].fd);
    return open;
}

/* 300 strangers of one address before a worker's ask and 300 after it. */
TEST(who_is_silent_gives_way_the_oldest_first) {
    enum { MANY_ASKERS = 300, MOST = 2 + 256 };
    static struct asker strangers[2 * MANY_ASKERS];
    struct asker real;
    uint8_t proof[LS_PROOF_SIZE];
    char text[1024];
    open_rendezvous(2, TOKEN);
    struct ls_meet_ask ask = ask_of(1, true);
    for (int i = 0; i < MANY_ASKERS; i++) strangers[i] = ask_from("127.0.0.2", &ask);
    real = ask_as(1, true);
    expect(&real, LS_MEET_CHALLENGE, text);
    for (int i = MANY_ASKERS; i < 2 * MANY_ASKERS; i++) strangers[i] = ask_from("127.0.0.2", &ask);
    prove(&real, proof);
    say(&real, proof, sizeof(proof));
    expect(&real, LS_MEET_ROSTER, text);
    for (int64_t deadline = ls_now() + SOON; count_open(strangers, 2 * MANY_ASKERS) > MOST; (void)usleep(1000))
        ck_assert_int_lt(ls_now(), deadline);
    for (int i = 0; i < 2 * MANY_ASKERS; i++) (void)close(strangers[i].fd);
    (void)close(real.fd);
    close_rendezvous();
}

/* Closes it, and waits until rank 0's system knows. */
static void leave(const struct asker *asker) {
    struct tcp_info info = {.tcpi_state = TCP_ESTABLISHED};
    socklen_t size = sizeof(info);
    (void)shutdown(asker->fd, SHUT_WR);
    for (int64_t deadline = ls_now() + SOON; info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_FIN_WAIT1;) {
        ck_assert_int_lt(ls_now(), deadline);
        ck_assert_int_eq(getsockopt(asker->fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    }
    (void)close(asker->fd);
}

/* Its end may have come when its successor asks, and the rendezvous has not heard of it. */
TEST(who_has_gone_keeps_nobody_out) {
    char text[1024];
    open_rendezvous(3, "");
    struct asker stranger = ask_as(1, false);
    for (int i = 0; i < 200; i++) {
        leave(&stranger);
        stranger = ask_as(1, false);
    }
    struct asker last = ask_as(2, false);
    expect(&stranger, LS_MEET_ROSTER, text);
    expect(&last, LS_MEET_ROSTER, text);
    ck_assert_int_eq(atomic_load(&lines), 0);
    (void)close(stranger.fd);
    (void)close(last.fd);
    close_rendezvous();
}

/* One that has proved nothing may be a stranger: the second asks again, until the first has gone. */
TEST_EACH(a_second_one_asks_again_or_is_a_mistake, 2) {
    struct asker first, second;
    struct ls_meet_answer answer;
    char text[1024];
    open_rendezvous(3, _i ? TOKEN : "");
    if (_i) {
        ask_and_prove(&first, 1);
        ask_and_prove(&second, 1);
    } else {
        first = ask_as(1, false);
        second = ask_as(1, false);
    }
    ck_assert(read_answer(&second, &answer, text));
    ck_assert_int_eq(answer.kind, LS_MEET_REFUSAL);
    ck_assert_int_eq(answer.code, _i ? LS_INVALID_ARGUMENT : LS_UNAVAILABLE);
    ck_assert_ptr_nonnull(
        strstr(text, "two processes say that they are rank 1 of 3: one at rank 0's host, one at 127."));
    (void)close(first.fd);
    (void)close(second.fd);
    close_rendezvous();
}

TESTS("cluster/rendezvous", .seconds = 60)
