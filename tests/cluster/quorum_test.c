/* Quorums and ledgers, and the words of LOCKSTEP_ELASTIC. */
#include "cluster/quorum.h"

#include <string.h>

#include "harness.h"

#define TASKS 4

/* A roster of all, of which the ranks in the set are present. */
static bool has_quorum(const uint64_t roster[TASKS], unsigned set) {
    uint64_t present[TASKS];
    for (unsigned rank = 0; rank < TASKS; rank++) present[rank] = set >> rank & 1 ? roster[rank] : 0;
    return ls_quorum(roster, present, TASKS);
}

TEST(more_than_half_or_half_with_the_lowest) {
    static const uint64_t all[TASKS] = {5, 6, 7, 8}, three[TASKS] = {0, 6, 7, 8}, two[TASKS] = {0, 6, 0, 8};
    for (unsigned set = 0; set < 1U << TASKS; set++) {
        int of_all = __builtin_popcount(set), of_three = __builtin_popcount(set & 0xEU);
        int of_two = __builtin_popcount(set & 0xAU);
        ck_assert_int_eq(has_quorum(all, set), of_all > 2 || (of_all == 2 && set & 1));
        ck_assert_int_eq(has_quorum(three, set), of_three > 1);
        ck_assert_int_eq(has_quorum(two, set), of_two == 2 || (of_two == 1 && set & 2));
        if (has_quorum(all, set)) ck_assert(!has_quorum(all, ~set & 0xFU)); /* never both sides of a cut */
    }
}

TEST(another_process_of_a_task_does_not_count) {
    static const uint64_t all[TASKS] = {5, 6, 7, 8}, anew[TASKS] = {5, 66, 77, 88};
    ck_assert(!ls_quorum(all, anew, TASKS));
}

/* A vote is inherited when all tasks are there, and each missing process was seen to end. */
TEST(a_vote_is_inherited) {
    static const uint64_t all[TASKS] = {5, 6, 7, 8}, anew[TASKS] = {55, 66, 77, 8}, few[TASKS] = {55, 66, 0, 8};
    static const uint64_t later[TASKS] = {0, 9, 7, 8};
    struct ls_closed closed = {0};
    struct ls_ledger ledger = {.size = TASKS};
    const uint64_t *missing;
    ck_assert(ls_quorum_add(&ledger, 4, all));
    for (uint64_t incarnation = 5; incarnation < 8; incarnation++) {
        ck_assert(!ls_quorum_inherited(all, anew, &closed, TASKS));
        ck_assert(!ls_quorum_permits(&ledger, anew, &closed, &missing));
        ck_assert_mem_eq(missing, all, sizeof(all));
        ck_assert(ls_closed_add(&closed, incarnation) && ls_closed_add(&closed, incarnation));
    }
    ck_assert_int_eq(closed.count, 3);
    ck_assert(ls_quorum_permits(&ledger, anew, &closed, &missing));
    ck_assert_ptr_null(missing);
    ck_assert(!ls_quorum_permits(&ledger, few, &closed, NULL)); /* a task is missing */
    ls_closed_remove(&closed, 6);                               /* it is there after all, on the other side of a cut */
    ck_assert(!ls_closed_has(&closed, 6) && ls_closed_has(&closed, 5) && ls_closed_has(&closed, 7));
    ck_assert(!ls_quorum_permits(&ledger, anew, &closed, NULL));
    ck_assert(ls_closed_add(&closed, 6) && ls_quorum_add(&ledger, 5, later));
    ck_assert(!ls_quorum_permits(&ledger, anew, &closed, NULL)); /* nor has 9 of what was accepted since */
    ck_assert(ls_closed_add(&closed, 9) && ls_quorum_permits(&ledger, anew, &closed, NULL));
    ls_closed_release(&closed);
    ls_quorum_release(&ledger);
}

/* docs/protocol.md: 0 was frozen, 1 convened {1, 2, 3}, which 3 has accepted without hearing that it began. */
TEST(an_accepted_roster_counts) {
    static const uint64_t all[TASKS] = {5, 6, 7, 8}, three[TASKS] = {0, 6, 7, 8};
    static const uint64_t low[TASKS] = {5, 0, 0, 8}, rest[TASKS] = {0, 6, 7, 0};
    struct ls_ledger ledger = {.size = TASKS};
    ck_assert(ls_quorum_add(&ledger, 4, all));
    ck_assert(ls_quorum_permits(&ledger, low, &(struct ls_closed){0}, NULL));
    ck_assert(ls_quorum_add(&ledger, 5, three));
    ck_assert(!ls_quorum_permits(&ledger, low, &(struct ls_closed){0}, NULL));
    ck_assert(!ls_quorum_permits(&ledger, rest, &(struct ls_closed){0},
                                 NULL)); /* half of the first one, without its lowest */
    ls_quorum_forget(&ledger, 5);        /* somebody has entered it */
    ck_assert(ls_quorum_permits(&ledger, rest, &(struct ls_closed){0}, NULL));
    ck_assert(!ls_quorum_permits(&ledger, low, &(struct ls_closed){0}, NULL));
    ls_quorum_release(&ledger);
}

TEST(a_roster_is_kept_once) {
    static const uint64_t all[TASKS] = {5, 6, 7, 8}, three[TASKS] = {0, 6, 7, 8};
    struct ls_ledger ledger = {.size = TASKS}, copy = {.size = TASKS};
    ck_assert(ls_quorum_add(&ledger, 4, all) && ls_quorum_add(&ledger, 9, three) && ls_quorum_add(&ledger, 8, all));
    ck_assert_int_eq(ledger.count, 2);
    ck_assert_ptr_null(ls_quorum_find(&ledger, 4));
    ck_assert_mem_eq(ls_quorum_find(&ledger, 8), all, sizeof(all));
    const struct ls_rosters rosters = ls_quorum_rosters(&ledger);
    ck_assert(ls_quorum_add_all(&copy, &rosters));
    ls_quorum_forget(&copy, 9);
    ck_assert_int_eq(copy.count, 1);
    ck_assert_mem_eq(ls_quorum_find(&copy, 9), three, sizeof(three));
    ls_quorum_release(&ledger);
    ls_quorum_release(&copy);
}

/* 1 goes on alone, and lets 0 in, which dies; what 2 has proposed counts. */
TEST(own_attempts_do_not_count) {
    static const uint64_t alone[TASKS] = {0, 6, 0, 0}, both[TASKS] = {55, 6, 0, 0};
    struct ls_ledger ledger = {.size = TASKS};
    ck_assert(ls_quorum_add(&ledger, 5, alone) && ls_quorum_add(&ledger, 9, both) && ls_quorum_add(&ledger, 13, both));
    ck_assert_int_eq(ledger.count, 2);
    ck_assert(!ls_quorum_permits(&ledger, alone, &(struct ls_closed){0}, NULL));
    ls_quorum_drop_own(&ledger, 1, 7, 5); /* another process of that task */
    ls_quorum_drop_own(&ledger, 0, 55, 5);
    ck_assert_int_eq(ledger.count, 2);
    ls_quorum_drop_own(&ledger, 1, 6, 5);
    ck_assert_int_eq(ledger.count, 1);
    ck_assert_mem_eq(ls_quorum_find(&ledger, 5), alone, sizeof(alone));
    ck_assert(ls_quorum_permits(&ledger, alone, &(struct ls_closed){0}, NULL));
    ck_assert(ls_quorum_add(&ledger, 14, both) && ls_quorum_add(&ledger, 17, both)); /* of 2, and of 1 */
    ls_quorum_drop_own(&ledger, 1, 6, 5);
    ck_assert(!ls_quorum_permits(&ledger, alone, &(struct ls_closed){0}, NULL));
    ls_quorum_release(&ledger);
}

TEST(a_ledger_has_an_end) {
    struct ls_ledger ledger = {.size = TASKS};
    uint64_t roster[TASKS] = {0};
    for (roster[0] = 1; roster[0] <= LS_LEDGER_MOST; roster[0]++) ck_assert(ls_quorum_add(&ledger, roster[0], roster));
    ck_assert(!ls_quorum_add(&ledger, roster[0], roster));
    ls_quorum_release(&ledger);
}

TEST(words) {
    static const char *const bad[] = {"x",    "0",  "5",   "2:3",  "3:5",     "2:",        ":4",
                                      "2:4x", "-1", "4:2", "2:4,", ",scaled", "2:4 scaled"};
    struct ls_elastic read = {9, true};
    assert_ok(ls_quorum_parse_elastic("", TASKS, &read));
    ck_assert(read.least == 0 && !read.scaled);
    assert_ok(ls_quorum_parse_elastic("2:4", TASKS, &read));
    ck_assert(read.least == 2 && !read.scaled);
    assert_ok(ls_quorum_parse_elastic("3,scaled", TASKS, &read));
    ck_assert(read.least == 3 && read.scaled);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(ls_quorum_parse_elastic(bad[i], TASKS, &read) == LS_INVALID_ARGUMENT, "%s", bad[i]);
        ck_assert_msg(strstr(ls_error(), bad[i]) && strstr(ls_error(), "LOCKSTEP_ELASTIC"), "%s", ls_error());
    }
}

TESTS("cluster/quorum")
