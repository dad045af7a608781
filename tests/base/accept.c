/* A listening socket that poll() would report for ever: no descriptors are left, or connections come without end. */
#include "base/accept.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

static int listening;
static struct sockaddr_in here;

static void open_port(void) {
    socklen_t size = sizeof(here);
    here = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&here, size), 0);
    ck_assert_int_eq(listen(listening, 200), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&here, &size), 0);
}

static int call(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    return fd;
}

static bool is_open(const struct ls_accept *accept) {
    int64_t until = LS_NEVER;
    bool open = ls_accept_is_open(accept, ls_now(), &until);
    ck_assert_int_eq(open, until == LS_NEVER);
    return open;
}

/* The loop sleeps meanwhile, and the connection is taken once there are descriptors. */
TEST(without_descriptors_the_port_is_left_out_of_poll) {
    struct ls_accept accept = {0};
    struct rlimit limit, none;
    open_port();
    int caller = call();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert(is_open(&accept));
    int refused = ls_accept_next(&accept, listening, NULL), rounds = 0;
    int64_t until = LS_NEVER, begun = ls_now();
    for (; ls_now() < begun + 50 * LS_MILLISECOND; rounds++) {
        struct pollfd slot = {.fd = ls_accept_is_open(&accept, ls_now(), &until) ? listening : -1, .events = POLLIN};
        if (poll(&slot, 1, ls_poll_timeout(until, 1000)) > 0) (void)ls_accept_next(&accept, listening, NULL);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(refused, -1);
    ck_assert_int_lt(rounds, 10);
    while (!is_open(&accept)) (void)usleep(1000);
    struct sockaddr_storage from = {0};
    int fd = ls_accept_next(&accept, listening, &from);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(from.ss_family, AF_INET);
    (void)close(fd);
    (void)close(caller);
    (void)close(listening);
}

TEST(a_turn_takes_some_and_ends) {
    struct ls_accept accept = {0};
    int callers[100], taken = 0, turns = 0;
    open_port();
    for (int i = 0; i < 100; i++) callers[i] = call();
    for (int fd; taken < 100; turns++) {
        while (!is_open(&accept)) (void)usleep(100);
        int before = taken;
        for (; (fd = ls_accept_next(&accept, listening, NULL)) >= 0; taken++) (void)close(fd);
        ck_assert_int_le(taken - before, 64);
    }
    ck_assert_int_eq(turns, 2);
    for (int i = 0; i < 100; i++) (void)close(callers[i]);
    (void)close(listening);
}

/* A flood would cost as many turns as connections. Somewhere in it the port rests. */
TEST(connections_one_by_one_are_taken_together) {
    struct ls_accept accept = {0};
    bool rested = false;
    open_port();
    for (int64_t deadline = ls_now() + 20 * LS_SECOND; !rested && ls_now() < deadline; rested = !is_open(&accept)) {
        int caller = call(), fd;
        while ((fd = ls_accept_next(&accept, listening, NULL)) >= 0) (void)close(fd);
        (void)close(caller);
    }
    ck_assert(rested);
    (void)close(listening);
}

TEST(strangers_have_a_share_of_the_descriptors) {
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(ls_accept_most(10, 1), 10);
    ck_assert_int_eq(ls_accept_most(100, 1), 16);
    ck_assert_int_eq(ls_accept_most(100, 4), 4);
    ck_assert_int_eq(ls_accept_most(100, 100), 2);
}

TESTS("base/accept", .seconds = 60)
