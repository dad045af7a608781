/* The one port: in use, on which addresses, and strangers who call there. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/net/preface.h"
#include "cluster/worker.h"
#include "harness.h"

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int call(int port) {
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) return fd;
    (void)close(fd);
    return -1;
}

/* Calls until the worker listens. */
static int call_soon(int port) {
    int fd = -1;
    for (int64_t deadline = ls_now() + 5 * LS_SECOND; fd < 0 && ls_now() < deadline; (void)usleep(10000))
        fd = call(port);
    ck_assert_int_ge(fd, 0);
    return fd;
}

TEST(port_in_use) {
    struct test_worker worker = {.rank = 0, .size = 2};
    int ports[2];
    char list[128], text[64];
    test_ports(ports, 2);
    struct sockaddr_in address = loopback(ports[0]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), again = 1; /* connections of before may still fade there */
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[1]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_run(&worker);
    (void)close(fd);
    ck_assert_int_eq(worker.joined, LS_FAILED_PRECONDITION);
    ck_assert_double_lt(worker.join_seconds, limit_of(1));
    (void)snprintf(text, sizeof(text), "port %d of this task's address", ports[0]);
    ck_assert_ptr_nonnull(strstr(worker.join_error, text));
    ck_assert_ptr_nonnull(strstr(worker.join_error, "is already in use"));
}

/* The own address is not local (documentation range): all interfaces, with the reason. */
TEST(address_that_is_not_local) {
    struct test_worker worker = {.rank = 0, .size = 2, .join_timeout = 0.5};
    int ports[2];
    char list[128];
    test_ports(ports, 2);
    (void)snprintf(list, sizeof(list), "\"192.0.2.7:%d\", \"127.0.0.1:%d\"", ports[0], ports[1]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_start(&worker);
    int fd = call_soon(ports[0]);
    test_worker_wait(&worker);
    (void)close(fd);
    ck_assert_int_eq(worker.joined, LS_DEADLINE_EXCEEDED);
    ck_assert_ptr_nonnull(strstr(worker.log, "all interfaces"));
    ck_assert_ptr_nonnull(strstr(worker.log, "it is not an address of this host"));
}

TEST(loopback_beside_remote) {
    struct test_worker worker = {.rank = 0, .size = 2, .join_timeout = 0.5};
    int ports[1];
    char list[128];
    test_ports(ports, 1);
    (void)snprintf(list, sizeof(list), "\"localhost:%d\", \"192.0.2.7:2222\"", ports[0]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_run(&worker);
    ck_assert_int_eq(worker.joined, LS_DEADLINE_EXCEEDED);
    ck_assert_ptr_nonnull(strstr(worker.log, "it is a loopback address and other tasks are on other hosts"));
}

/* True when the other side closes within limit seconds. */
static bool is_closed(int fd, double limit) {
    char bytes[256];
    for (int64_t deadline = ls_deadline_in(limit); ls_now() < deadline;) {
        struct pollfd slot = {.fd = fd, .events = POLLIN};
        if (poll(&slot, 1, 100) > 0 && recv(fd, bytes, sizeof(bytes), 0) <= 0) return true;
    }
    return false;
}

#define HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
static const struct {
    const char *bytes;
    size_t size;
    bool closed; /* at once */
} strangers[] = {
    {"GET / HTTP/1.1\r\n\r\n", 18, true},
    {"\0\0\0\0", 4, true},
    {"SSH-2.0-x\r\n", 11, true},
    {"LSDATB", 6, true},
    {"PRI * HTTX", 10, true},
    {HTTP2_PREFACE "this is no frame at all, not at all", 59, true},
    {HTTP2_PREFACE, 24, false},               /* and then nothing */
    {"PRI", 3, false},                        /* half a word */
    {"LSDATA1\n\1\0\0\0\1\0\0\0", 16, false}, /* part of a data preface */
    {"", 0, false},                           /* half-open */
};
#define STRANGERS (int)(sizeof(strangers) / sizeof(strangers[0]))

/* A data connection without the right key, and one of an impossible rank, are closed. */
static void try_data(int port, int rank) {
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION, .rank = rank, .generation = 1, .incarnation = 1};
    ls_preface_encode(&preface, bytes);
    int fd = call_soon(port);
    ck_assert_int_eq(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    ck_assert(is_closed(fd, 3));
    (void)close(fd);
}

TEST(strangers_disturb_nobody) {
    struct test_worker workers[2];
    int ports[2], fds[STRANGERS];
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    test_worker_start(&workers[0]);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = call_soon(ports[0]);
        ck_assert_int_eq(send(fds[i], strangers[i].bytes, strangers[i].size, MSG_NOSIGNAL), (ssize_t)strangers[i].size);
    }
    try_data(ports[0], 1);
    try_data(ports[0], 65535);
    for (int i = 0; i < STRANGERS; i++)
        if (strangers[i].closed) ck_assert_msg(is_closed(fds[i], 3), "stranger %d", i);
    test_worker_start(&workers[1]);
    for (int i = 0; i < 2; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < STRANGERS; i++) (void)close(fds[i]);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
        ck_assert_double_lt(workers[i].join_seconds, limit_of(9));
    }
}

/* A stranger without a useful word is closed after ten seconds. */
TEST(silent_strangers_are_closed) {
    struct test_worker worker = {.rank = 0, .size = 2, .join_timeout = 14};
    int ports[2], quiet, half;
    char list[128];
    test_ports(ports, 2);
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[1]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_start(&worker);
    quiet = call_soon(ports[0]);
    half = call_soon(ports[0]);
    ck_assert_int_eq(send(half, "PRI *", 5, MSG_NOSIGNAL), 5);
    int64_t start = ls_now();
    ck_assert(is_closed(quiet, 13));
    ck_assert(is_closed(half, 3));
    ck_assert_double_ge(ls_seconds_since(start), 8);
    assert_within(start, 12.5);
    (void)close(quiet);
    (void)close(half);
    test_worker_wait(&worker);
}

/* It hears why, and may go on talking until it is closed. The port reads that now and then, so little goes through. */
TEST(who_was_refused_in_words_is_read_slowly) {
    static const uint8_t tls[] = {0x16, 3, 1, 2, 0}, junk[65536];
    struct test_worker worker = {.rank = 0, .size = 2, .join_timeout = 4};
    int ports[2], room = 65536;
    char list[128], told[64] = "";
    size_t through = 0;
    test_ports(ports, 2);
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"127.0.0.1:%d\"", ports[0], ports[1]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_start(&worker);
    int fd = call_soon(ports[0]);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    ck_assert_int_eq(send(fd, tls, sizeof(tls), MSG_NOSIGNAL), sizeof(tls));
    ck_assert_int_gt(recv(fd, told, sizeof(told) - 1, 0), 0);
    ck_assert_str_eq(told, LS_PLAIN_HERE);
    for (int64_t until = ls_now() + LS_SECOND; ls_now() < until;) {
        ssize_t sent = send(fd, junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) through += (size_t)sent;
    }
    ck_assert_uint_lt(through, 16 << 20);
    (void)close(fd);
    test_worker_wait(&worker);
}

TESTS("cluster/port", .seconds = 60)
