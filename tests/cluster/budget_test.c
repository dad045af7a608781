/* The tokens of a source: spent, given back, refilled; and sources beside each other. */
#include "cluster/budget.h"

#include <netinet/in.h>

#include "base/clock.h"
#include "harness.h"

static struct ls_source numbered(int number) {
    return (struct ls_source){{10, 0, (uint8_t)(number >> 8), (uint8_t)number}};
}

static int spend(struct ls_budget *budget, struct ls_source source, int64_t now) {
    int spent = 0;
    while (ls_budget_take(budget, &source, now)) spent++;
    return spent;
}

START_TEST(spent_and_refilled) {
    struct ls_budget budget = {0};
    struct ls_source source = numbered(1);
    ck_assert_int_eq(spend(&budget, source, LS_SECOND), LS_BUDGET_MOST);
    ck_assert_int_eq(spend(&budget, source, LS_SECOND + LS_SECOND / 2), LS_BUDGET_SECOND / 2);
    ck_assert_int_eq(spend(&budget, source, 1000 * LS_SECOND), LS_BUDGET_MOST);
}
END_TEST

START_TEST(workers_spend_nothing) {
    struct ls_budget budget = {0};
    struct ls_source source = numbered(1);
    for (int i = 0; i < 4 * LS_BUDGET_MOST; i++) {
        ck_assert(ls_budget_take(&budget, &source, LS_SECOND));
        ls_budget_give_back(&budget, &source);
    }
    ck_assert_int_eq(spend(&budget, source, LS_SECOND), LS_BUDGET_MOST);
    struct ls_source unknown = numbered(2);
    ls_budget_give_back(&budget, &unknown);
    ck_assert_int_eq(spend(&budget, unknown, LS_SECOND), LS_BUDGET_MOST);
}
END_TEST

START_TEST(sources_are_apart) {
    struct ls_budget budget = {0};
    for (int number = 0; number < LS_BUDGET_SOURCES - 1; number++)
        ck_assert_int_eq(spend(&budget, numbered(number), LS_SECOND), LS_BUDGET_MOST);
    for (int number = 1000; number < 1200; number++) { /* they take each other's place, not that of who has spent all */
        struct ls_source source = numbered(number);
        ck_assert(ls_budget_take(&budget, &source, LS_SECOND));
    }
    for (int number = 0; number < LS_BUDGET_SOURCES - 1; number++)
        ck_assert_int_eq(spend(&budget, numbered(number), LS_SECOND), 0);
}
END_TEST

START_TEST(an_address_is_one_source_in_both_families) {
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
    struct ls_source a = ls_source_of(&four.any), b = ls_source_of(&mapped.any), c = ls_source_of(&near.any), d;
    ck_assert(ls_source_equal(&a, &b));
    ck_assert(!ls_source_equal(&a, &c));
    other.v6.sin6_addr.s6_addr[15] = 9; /* another host of the same network */
    d = ls_source_of(&other.any);
    ck_assert(ls_source_equal(&c, &d));
    other.v6.sin6_addr.s6_addr[7] = 9;
    d = ls_source_of(&other.any);
    ck_assert(!ls_source_equal(&c, &d));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cluster/budget");
    TCase *tests = tcase_create("budget");
    tcase_add_test(tests, spent_and_refilled);
    tcase_add_test(tests, workers_spend_nothing);
    tcase_add_test(tests, sources_are_apart);
    tcase_add_test(tests, an_address_is_one_source_in_both_families);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
