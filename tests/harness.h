/* What every test program shares: a main that runs one Check suite and prints TAP for meson. */
#pragma once
#include <check.h>
#include <stdlib.h>

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

/* Runs suite (taken) in a process per test and returns the exit status of the test program. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
