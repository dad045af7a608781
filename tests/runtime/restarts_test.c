/* The table of restarts, as the members of generations tell it each other: without a cluster, in which order and how
 * often ever. */
#include "runtime/restarts.h"

#include "harness.h"

#define TASKS   3
#define UNKNOWN (-1)

TEST(the_newest_process_counts) {
    struct ls_restart known[TASKS] = {{1, 0}, {5, 2}, {0, 0}};
    const struct ls_restart told[TASKS] = {{4, 1}, {3, 1}, {2, 7}};
    const struct ls_restart wanted[TASKS] = {{4, 1}, {5, 2}, {2, 7}};
    for (int again = 0; again < 2; again++) {
        ls_restarts_merge(known, told, TASKS);
        ck_assert_mem_eq(known, wanted, sizeof(known));
    }
}

TEST(of_one_process_the_greater_number) {
    struct ls_restart known[TASKS] = {{4, 1}, {4, 3}, {4, 2}};
    const struct ls_restart told[TASKS] = {{4, 2}, {4, 2}, {4, 2}}, wanted[TASKS] = {{4, 2}, {4, 3}, {4, 2}};
    ls_restarts_merge(known, told, TASKS);
    ck_assert_mem_eq(known, wanted, sizeof(known));
}

/* A new process does not know its number of restarts. */
TEST(who_is_new_does_not_know) {
    struct ls_restart known[TASKS] = {{4, 1}, {4, 3}, {0, 0}};
    const struct ls_restart told[TASKS] = {{9, UNKNOWN}, {0, 0}, {9, UNKNOWN}},
                            wanted[TASKS] = {{4, 1}, {4, 3}, {0, 0}};
    ls_restarts_merge(known, told, TASKS);
    ck_assert_mem_eq(known, wanted, sizeof(known));
    for (int again = 0; again < 2; again++) {
        ls_restarts_present(&known[0], 9);
        ls_restarts_present(&known[2], 9);
        ck_assert_int_eq(known[0].count, 2);
        ck_assert_int_eq(known[2].count, 0); /* the task's first */
        ck_assert_int_eq(known[2].since, 9);
    }
}

TESTS("restarts")
