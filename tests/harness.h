/* Harness of every test program: a main that runs one Check suite and prints TAP for meson. */
#pragma once
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Of a test that runs for each number of a table, where LOCKSTEP_TEST_SEED is set: under AddressSanitizer half of the
 * numbers, and under ThreadSanitizer a third, which the seed draws. Without a sanitizer all run. scripts/test prints
 * the seed, and sets none with --full. */
enum { ONE_IN = SANITIZED_THREADS ? 3 : 2 };

static inline bool is_drawn(uint64_t seed, int line, int number) {
    uint64_t mixed = (seed + (uint64_t)line * 1000003 + (uint64_t)number) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (mixed >> 33) % ONE_IN == 0;
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
#undef tcase_add_loop_test
#define tcase_add_loop_test(tests, test, first, end) add_drawn(tests, test, __LINE__, (int)(first), (int)(end))

/* Runs suite (taken) in a process per test and returns the exit status of the test program. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
