/* The tokens of a source: spent, given back, refilled; and sources beside each other. */
#include "cluster/net/rate_limit.h"

#include <netinet/in.h>

#include "base/clock.h"
#include "harness.h"

static struct ls_rate_source numbered(int number) {
    return (struct ls_rate_source){{10, 0, (uint8_t)(number >> 8), (uint8_t)number}};
}

static int spend(struct ls_rate_limit *limit, struct ls_rate_source source, int64_t now) {
    int spent = 0;
    while (ls_rate_limit_take(limit, &source, now)) spent++;
    return spent;
}

TEST(spent_and_refilled) {
    struct ls_rate_limit limit = {0};
    struct ls_rate_source source = numbered(1);
    ck_assert_int_eq(spend(&limit, source, LS_SECOND), LS_RATE_BURST);
    ck_assert_int_eq(spend(&limit, source, LS_SECOND + LS_SECOND / 2), LS_RATE_PER_SECOND / 2);
    ck_assert_int_eq(spend(&limit, source, 1000 * LS_SECOND), LS_RATE_BURST);
}

TEST(workers_spend_nothing) {
    struct ls_rate_limit limit = {0};
    struct ls_rate_source source = numbered(1);
    for (int i = 0; i < 4 * LS_RATE_BURST; i++) {
        ck_assert(ls_rate_limit_take(&limit, &source, LS_SECOND));
        ls_rate_limit_give_back(&limit, &source);
    }
    ck_assert_int_eq(spend(&limit, source, LS_SECOND), LS_RATE_BURST);
    struct ls_rate_source unknown = numbered(2);
    ls_rate_limit_give_back(&limit, &unknown);
    ck_assert_int_eq(spend(&limit, unknown, LS_SECOND), LS_RATE_BURST);
}

TEST(sources_are_apart) {
    struct ls_rate_limit limit = {0};
    for (int number = 0; number < LS_RATE_SOURCES - 1; number++)
        ck_assert_int_eq(spend(&limit, numbered(number), LS_SECOND), LS_RATE_BURST);
    for (int number = 1000; number < 1200; number++) { /* they take each other's place, not that of who has spent all */
        struct ls_rate_source source = numbered(number);
        ck_assert(ls_rate_limit_take(&limit, &source, LS_SECOND));
    }
    for (int number = 0; number < LS_RATE_SOURCES - 1; number++)
        ck_assert_int_eq(spend(&limit, numbered(number), LS_SECOND), 0);
}

TEST(an_address_is_one_source_in_both_families) {
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } four = {.v4 = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = htonl(0x0a000001)}},
      mapped = {.v6 = {.sin6_family = AF_INET6, .sin6_port = 2}}, near = {.v6 = {.sin6_family = AF_INET6}}, other;
    mapped.v6.sin6_addr.s6_addr[10] = mapped.v6.sin6_addr.s6_addr[11] = 0xff;
    mapped.v6.sin6_addr.s6_addr[12] = 10, mapped.v6.sin6_addr.s6_addr[15] = 1;
    near.v6.sin6_addr.s6_addr[0] = 0x20, near.v6.sin6_addr.s6_addr[15] = 1;
    other = near;
    struct ls_rate_source a = ls_rate_limit_source_of(&four.any), b = ls_rate_limit_source_of(&mapped.any),
                          c = ls_rate_limit_source_of(&near.any), d;
    ck_assert(ls_rate_limit_source_equal(&a, &b));
    ck_assert(!ls_rate_limit_source_equal(&a, &c));
    other.v6.sin6_addr.s6_addr[15] = 9; /* another host of the same network */
    d = ls_rate_limit_source_of(&other.any);
    ck_assert(ls_rate_limit_source_equal(&c, &d));
    other.v6.sin6_addr.s6_addr[7] = 9;
    d = ls_rate_limit_source_of(&other.any);
    ck_assert(!ls_rate_limit_source_equal(&c, &d));
}

TESTS("cluster/rate_limit")
