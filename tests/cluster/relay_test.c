/* The relay: bytes in order both ways, ends, a reader that lags behind, and strangers who say too much. */
#include "cluster/net/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define SOON (10 * LS_SECOND)

static const struct ls_log quiet = {.level = LS_LOG_ERROR};
static struct ls_refusals refusals = {.log = &quiet};
static struct ls_relay *relay;
static int client, outer, inner; /* what stands behind the outer end; both ends */

static void open_relay(size_t most) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, size), 0);
    int room = 65536; /* little, so that it is soon full */
    outer = accept(listening, NULL, NULL);
    (void)setsockopt(outer, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    (void)setsockopt(client, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    (void)close(listening);
    assert_ok(ls_relay_new(&refusals, &relay));
    inner = ls_relay_add(relay, outer, NULL, most);
    ck_assert_int_ge(inner, 0);
}

static void close_relay(void) {
    ls_relay_free(relay);
    (void)close(client);
    (void)close(inner);
}

static uint8_t byte_at(size_t position) {
    return (uint8_t)((position * 2654435761U) >> 13);
}

/* As much as fits without waiting; from and to count bytes of one direction. */
static void send_some(int fd, size_t *sent, size_t total) {
    uint8_t bytes[30000];
    size_t size = total - *sent < sizeof(bytes) ? total - *sent : sizeof(bytes);
    for (size_t i = 0; i < size; i++) bytes[i] = byte_at(*sent + i);
    ssize_t done = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done > 0) *sent += (size_t)done;
}

static void take_some(int fd, size_t *taken) {
    uint8_t bytes[30000];
    size_t wrong = 0;
    ssize_t done = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    for (ssize_t i = 0; i < done; i++) wrong += bytes[i] != byte_at(*taken + (size_t)i);
    ck_assert_uint_eq(wrong, 0);
    if (done > 0) *taken += (size_t)done;
}

TEST(bytes_come_in_order_both_ways) {
    const size_t total = MANY((size_t)20000003);
    size_t sent[2] = {0, 0}, taken[2] = {0, 0};
    open_relay(0);
    for (int64_t moved = ls_now(); taken[0] < total || taken[1] < total;) {
        size_t before = sent[0] + sent[1] + taken[0] + taken[1];
        send_some(client, &sent[0], total);
        send_some(inner, &sent[1], total);
        take_some(inner, &taken[0]);
        take_some(client, &taken[1]);
        if (sent[0] + sent[1] + taken[0] + taken[1] > before) {
            moved = ls_now();
            continue;
        }
        struct pollfd ends[2] = {{.fd = client, .events = sent[0] < total ? POLLIN | POLLOUT : POLLIN},
                                 {.fd = inner, .events = sent[1] < total ? POLLIN | POLLOUT : POLLIN}};
        ck_assert_int_lt(ls_now() - moved, SOON); /* something moves */
        (void)poll(ends, 2, 100);
    }
    close_relay();
}

/* Bytes until the end; -1: it does not come. */
static ssize_t read_to_end(int fd) {
    uint8_t bytes[65536];
    size_t taken = 0;
    for (int64_t until = ls_now() + SOON; ls_now() < until;) {
        struct pollfd slot = {.fd = fd, .events = POLLIN};
        if (poll(&slot, 1, 100) <= 0) continue;
        ssize_t done = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (done <= 0) return (ssize_t)taken;
        taken += (size_t)done;
    }
    return -1;
}

static size_t send_until_held_back(int fd) {
    size_t sent = 0;
    for (int64_t moved = ls_now(); ls_now() - moved < LS_SECOND / 4;) {
        size_t before = sent;
        send_some(fd, &sent, (size_t)256 << 20);
        if (sent > before) moved = ls_now();
    }
    return sent;
}

/* A slow end holds the other end back. Words before the end come whole. _i is the end that speaks. */
TEST_EACH(the_last_words_come_before_the_end, 2) {
    open_relay(0);
    int speaks = _i ? inner : client, hears = _i ? client : inner;
    size_t sent = send_until_held_back(speaks);
    ck_assert_uint_gt(sent, 1000);
    ck_assert_uint_lt(sent, (size_t)64 << 20);
    ck_assert_int_eq(shutdown(speaks, SHUT_WR), 0);
    ck_assert_int_eq(read_to_end(hears), (ssize_t)sent);
    ck_assert_int_eq(read_to_end(speaks), 0);
    close_relay();
}

/* The relay goes while bytes are on the way out: they still go. */
TEST(what_was_written_goes_out_at_the_end) {
    uint8_t bytes[100000] = {0};
    open_relay(0);
    ck_assert_int_eq(send(inner, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    int64_t begun = ls_now();
    ls_relay_free(relay);
    assert_within(begun, 0.9);
    ck_assert_int_eq(read_to_end(client), sizeof(bytes));
    ck_assert_int_eq(read_to_end(inner), 0);
    (void)close(client);
    (void)close(inner);
}

/* ... but it does not wait for ever for who reads nothing. */
TEST(nobody_who_does_not_read_is_waited_for) {
    open_relay(0);
    (void)send_until_held_back(inner);
    int64_t begun = ls_now();
    ls_relay_free(relay);
    ck_assert_double_ge(ls_seconds_since(begun), 0.9);
    assert_within(begun, 4);
    (void)close(client);
    (void)close(inner);
}

/* For want of an answer: nobody says that the process there has ended. */
TEST(a_connection_that_is_cut_off_is_silent) {
    struct pollfd slot = {.events = POLLIN};
    open_relay(0);
    unsigned limit = 200; /* milliseconds that the other side may take nothing */
    ck_assert_int_eq(setsockopt(outer, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit)), 0);
    (void)send_until_held_back(inner);
    (void)usleep(1500000);
    int error = 0;
    socklen_t size = sizeof(error);
    struct tcp_info info;
    socklen_t info_size = sizeof(info);
    ck_assert_int_eq(getsockopt(outer, IPPROTO_TCP, TCP_INFO, &info, &info_size), 0);
    ck_assert_int_eq(info.tcpi_state, TCP_CLOSE);
    slot.fd = inner;
    ck_assert_int_eq(poll(&slot, 1, 0), 0);
    ck_assert_int_eq(getsockopt(inner, SOL_SOCKET, SO_ERROR, &error, &size), 0);
    ck_assert_int_eq(error, 0);
    close_relay();
}

static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\1\4\0\0\0\1";
static const char call[] = "\0\0\0\1\4\0\0\0\3";

/* _i: 0 a stranger, 1 one of whom a worker has been found behind it. */
TEST_EACH(a_stranger_has_one_call, 2) {
    open_relay(1000);
    uint8_t bytes[64];
    const ssize_t first = sizeof(opening) - 1, second = sizeof(call) - 1;
    ck_assert_int_eq(send(client, opening, (size_t)first, MSG_NOSIGNAL), first);
    for (ssize_t got = 0; got < first;) {
        struct pollfd slot = {.fd = inner, .events = POLLIN};
        ck_assert_int_eq(poll(&slot, 1, 5000), 1);
        ssize_t part = recv(inner, bytes, sizeof(bytes), 0);
        ck_assert_int_gt(part, 0);
        got += part;
    }
    if (_i) ls_relay_trust(relay, inner);
    unsigned long long before = atomic_load(&refusals.counts[LS_REFUSED_MESSAGE]);
    ck_assert_int_eq(send(client, call, (size_t)second, MSG_NOSIGNAL), second);
    if (_i) ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
    ck_assert_int_eq(read_to_end(inner), _i ? second : 0);
    ck_assert_int_eq(read_to_end(client), 0);
    ck_assert_uint_eq(atomic_load(&refusals.counts[LS_REFUSED_MESSAGE]) - before, _i ? 0 : 1);
    close_relay();
}

/* Each byte wakes the relay's thread and gRPC's. Returns how many have come through. */
static int say_by_bytes(int count) {
    uint8_t byte = 0;
    for (int i = 0; i < count; i++) {
        struct pollfd slot = {.fd = inner, .events = POLLIN};
        if (send(client, &byte, 1, MSG_NOSIGNAL) != 1) return i;
        ck_assert_int_eq(poll(&slot, 1, 5000), 1);
        if (recv(inner, &byte, 1, 0) <= 0) return i;
    }
    return count;
}

/* _i: 0 a stranger, 1 a worker. */
TEST_EACH(a_stranger_does_not_speak_byte_by_byte, 2) {
    static const uint8_t data[9] = {0, 1, 244, 0, 0, 0, 0, 0, 1}; /* of 500 bytes, on stream 1 */
    uint8_t bytes[64];
    open_relay(1000);
    ck_assert_int_eq(send(client, opening, sizeof(opening) - 1, MSG_NOSIGNAL), (ssize_t)sizeof(opening) - 1);
    ck_assert_int_eq(send(client, data, sizeof(data), MSG_NOSIGNAL), sizeof(data));
    for (size_t got = 0; got < sizeof(opening) - 1 + sizeof(data);) {
        struct pollfd slot = {.fd = inner, .events = POLLIN};
        ck_assert_int_eq(poll(&slot, 1, 5000), 1);
        ssize_t part = recv(inner, bytes, sizeof(bytes), 0);
        ck_assert_int_gt(part, 0);
        got += (size_t)part;
    }
    if (_i) ls_relay_trust(relay, inner);
    unsigned long long before = atomic_load(&refusals.counts[LS_REFUSED_MESSAGE]);
    int through = say_by_bytes(500);
    ck_assert_int_ge(through, _i ? 500 : 28);
    ck_assert_int_le(through, _i ? 500 : 32);
    ck_assert_uint_eq(atomic_load(&refusals.counts[LS_REFUSED_MESSAGE]) - before, _i ? 0 : 1);
    close_relay();
}

/* Opens sockets that have something to say, and closes them: they get the numbers of others that were closed. */
static void *reuse_numbers(void *argument) {
    const atomic_bool *ends = argument;
    while (!atomic_load(ends)) {
        int pairs[8][2];
        for (int i = 0; i < 8; i++) {
            ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
            ck_assert_int_eq(send(pairs[i][0], "word", 4, MSG_NOSIGNAL), 4);
            ck_assert_int_eq(send(pairs[i][1], "word", 4, MSG_NOSIGNAL), 4);
        }
        for (int i = 0; i < 16; i++) (void)close(pairs[i / 2][i % 2]);
    }
    return NULL;
}

/* The relay watches one end while it does not yet watch the other. */
TEST(who_has_gone_while_it_is_added_is_forgotten) {
    atomic_bool ends = false;
    pthread_t thread;
    open_relay(0);
    ck_assert_int_eq(pthread_create(&thread, NULL, reuse_numbers, &ends), 0);
    for (int i = 0; i < MANY(20000); i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        (void)close(pair[1]);
        int given = ls_relay_add(relay, pair[0], NULL, 0);
        ck_assert_int_ge(given, 0);
        (void)close(given);
    }
    atomic_store(&ends, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close_relay();
}

TEST(who_is_there_is_known) {
    char text[LS_ADDRESS_TEXT];
    open_relay(0);
    ls_relay_describe(relay, inner, false, text);
    ck_assert_msg(strncmp(text, "127.0.0.1:", 10) == 0, "%s", text);
    ls_relay_describe(relay, inner + 1000, false, text);
    ck_assert_str_eq(text, "somebody");
    ls_relay_trust(relay, inner + 1000);
    close_relay();
}

TESTS("cluster/relay", .seconds = 60)
