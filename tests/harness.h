/* Harness of every test program: a main that runs one Check suite and prints TAP for meson. */
#pragma once
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

/* Check notes the place of each assertion that holds with a write to a file, for the report of a crash that comes
 * later. A test of millions of assertions would do little else: a thread notes each line once. A crash is reported
 * after the line that was reached last for the first time. */
static inline void note_place(const char *file, int line) {
    static _Thread_local bool noted[1024];
    bool *here = &noted[line % 1024];
    if (*here) return;
    *here = true;
    _mark_point(file, line);
}
#define _mark_point note_place

/* A macro, so that a failure names the line of the test. The calling thread's last error tells the cause. */
#define assert_ok(...)                                                                                                 \
    do {                                                                                                               \
        ls_status status_ = (__VA_ARGS__);                                                                             \
        ck_assert_msg(!status_, "%s: %s: %s", #__VA_ARGS__, ls_status_name(status_), ls_error());                      \
    } while (0)

/* The call fails with that status, and a message that contains text. */
#define assert_fails(call, wanted, text)                                                                               \
    do {                                                                                                               \
        ls_status status_ = (call);                                                                                    \
        ck_assert_msg(status_ == (wanted), "%s: %s instead of %s: %s", #call, ls_status_name(status_),                 \
                      ls_status_name(wanted), ls_error());                                                             \
        ck_assert_msg(strstr(ls_error(), (text)) != NULL, "'%s' does not say '%s'", ls_error(), (text));               \
    } while (0)
#define assert_refused(call, text) assert_fails(call, LS_INVALID_ARGUMENT, text)

/* A limit in seconds, of what a quiet machine does in less: as many times longer as this one takes (tests/pace.py). */
static inline double limit_of(double seconds) {
    const char *set = getenv("LOCKSTEP_TEST_PACE");
    double pace = set ? strtod(set, NULL) : 1;
    return seconds * (pace > 1 ? pace : 1);
}
#define assert_within(start, seconds) ck_assert_double_lt(ls_seconds_since(start), limit_of(seconds))

/* Under a sanitizer, which takes ten times as long, the tables of tests are shorter: fewer sizes, rounds and, where
 * only threads are of interest, types. No kind of link, algorithm, call or failure is left out. */
#if defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, SANITIZED_THREADS = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, SANITIZED_THREADS = 0 };
#else
enum { SANITIZED = 0, SANITIZED_THREADS = 0 };
#endif
/* So many elements; a quarter of them where each is watched. Still several segments. */
#define MANY(count) (SANITIZED_THREADS ? (count) / 4 : (count))

/* True if tables of tests are to be whole, however long they take. */
static inline bool is_full(void) {
    const char *set = getenv("LOCKSTEP_TEST_FULL");
    return set && *set && strcmp(set, "0") != 0;
}

/* LOCKSTEP_TEST_SEED, or another one each time; it is printed. */
static inline uint64_t first_seed(void) {
    const char *set = getenv("LOCKSTEP_TEST_SEED");
    uint64_t seed = set && *set ? (uint64_t)strtoull(set, NULL, 10) : (uint64_t)getpid();
    printf("# LOCKSTEP_TEST_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    return seed;
}

/* Of a test that runs for each number of a table, where LOCKSTEP_TEST_SEED is set: under AddressSanitizer half of the
 * numbers, and under ThreadSanitizer a third, which the seed draws. Without a sanitizer all run. scripts/test prints
 * the seed, and sets none with --full. */
enum { ONE_IN = SANITIZED_THREADS ? 3 : 2 };

static inline bool is_drawn(uint64_t seed, int line, int number) {
    uint64_t mixed = (seed + (uint64_t)line * 1000003 + (uint64_t)number) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (mixed >> 33) % ONE_IN == 0;
}

/* Runs suite (taken) in a process per test and returns the exit status of the test program. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline void add_drawn(TCase *tests, const TTest *test, int line, int first, int end) {
    const char *set = SANITIZED ? getenv("LOCKSTEP_TEST_SEED") : NULL;
    uint64_t seed = set ? strtoull(set, NULL, 10) : 0;
    int added = 0;
    for (int number = first; number < end; number++) {
        bool last = !added && number == end - 1;
        if (set && *set && !last && !is_drawn(seed, line, number)) continue;
        tcase_add_loop_test(tests, test, number, number + 1);
        added++;
    }
}

/* A program's tests, in the order of its file. Each is said once, where it stands:
 *     TEST(what_it_holds) { ... }                           runs once
 *     TEST_EACH(what_it_holds, COUNT_OF(rows)) { ... }      for each _i below the count
 *     TEST_RANGE(what_it_holds, first, end) { ... }         for each _i from first on
 *     TEST_SIGNAL(what_it_holds, SIGABRT, count) { ... }    each ends its process by the signal */
struct listed_test {
    int line;
    void (*add)(TCase *tests);
};
enum { MOST_TESTS = 128 };
static struct listed_test listed_tests[MOST_TESTS + 1];

static inline void list_test(int line, void (*add)(TCase *tests)) {
    int at = 0;
    while (listed_tests[at].add) at++;
    if (at == MOST_TESTS) abort();
    for (; at > 0 && listed_tests[at - 1].line > line; at--) listed_tests[at] = listed_tests[at - 1];
    listed_tests[at] = (struct listed_test){line, add};
}
#define TEST_ADDED_BY(name, ...)                                                                                       \
    static const TTest *name;                                                                                          \
    static void name##_add(TCase *tests) {                                                                             \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    __attribute__((constructor)) static void name##_list(void) {                                                       \
        list_test(__LINE__, name##_add);                                                                               \
    }                                                                                                                  \
    START_TEST(name)
#define TEST_RANGE(name, first, end) TEST_ADDED_BY(name, add_drawn(tests, name, __LINE__, (int)(first), (int)(end)))
#define TEST_EACH(name, count)       TEST_RANGE(name, 0, count)
#define TEST(name)                   TEST_RANGE(name, 0, 1)
#define TEST_SIGNAL(name, signal, count)                                                                               \
    TEST_ADDED_BY(name, tcase_add_loop_test_raise_signal(tests, name, signal, 0, count))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Limits and fixtures of the tests. Each has a process of its own. */
struct tests {
    const char *name;
    double seconds;                       /* that each one may take; 0: Check's four; below 0: any */
    void (*before)(void), (*after)(void); /* in the process of each one */
    void (*begin)(void), (*end)(void);    /* once, in the program's */
};

/* Returns the exit status of the program. */
static inline int run_tests(const struct tests *how) {
    Suite *suite = suite_create(how->name);
    TCase *tests = tcase_create(how->name);
    if (how->seconds != 0) tcase_set_timeout(tests, how->seconds < 0 ? 0 : how->seconds);
    tcase_add_checked_fixture(tests, how->before, how->after);
    tcase_add_unchecked_fixture(tests, how->begin, how->end);
    for (int i = 0; listed_tests[i].add; i++) listed_tests[i].add(tests);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
#define RUN_TESTS(...) run_tests(&(struct tests){.name = __VA_ARGS__})
/* The program's main: TESTS("its subject", .seconds = 60). */
#define TESTS(...)                                                                                                     \
    int main(void) {                                                                                                   \
        return RUN_TESTS(__VA_ARGS__);                                                                                 \
    }
