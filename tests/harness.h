/* What every test program shares: a main that runs one Check suite and prints TAP for meson. */
#pragma once
#include <check.h>
#include <stdlib.h>

/* Runs suite (taken) in a process per test and returns the exit status of the test program. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
