/* The control plane of 3 to 1,000 workers in virtual time. A failure prints its seed, with which it comes again. */
#include "simulation/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { RANDOM = SANITIZED ? 60 : 600, MANY_WORKERS = SANITIZED ? 100 : 300, THOUSAND = SANITIZED ? 300 : 1000 };

static const int sizes[] = {3, 5, 16, 64};

START_TEST(few_workers) {
    const struct scenario *scenario = &scenarios[_i];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (uint64_t seed = 1; seed <= 3 && sizes[i] >= scenario->least; seed++) {
            struct scenario_result result;
            scenario_run(scenario, sizes[i], seed, &result);
            ck_assert_msg(!*result.failure, "%s, %d workers, seed %d: %s", scenario->name, sizes[i], (int)seed,
                          result.failure);
        }
}
END_TEST

START_TEST(many_workers) {
    const struct scenario *scenario = &scenarios[_i];
    struct scenario_result result;
    scenario_run(scenario, MANY_WORKERS, 1, &result);
    ck_assert_msg(!*result.failure, "%s: %s", scenario->name, result.failure);
}
END_TEST

/* A cost that grows faster than the workers shows here first. */
START_TEST(a_thousand_workers) {
    static const char *const names[] = {"join", "coordinator lost", "the lowest fifth lost", "one frozen, then killed"};
    for (int i = 0; i < scenario_count; i++)
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            struct scenario_result result;
            if (strcmp(scenarios[i].name, names[k]) != 0) continue;
            scenario_run(&scenarios[i], THOUSAND, 1, &result);
            ck_assert_msg(!*result.failure, "%s: %s", scenarios[i].name, result.failure);
        }
}
END_TEST

/* So that a seed is all that is needed to see a failure again. */
START_TEST(the_same_seed_is_the_same_run) {
    struct scenario_result first, second;
    for (int i = 0; i < scenario_count; i++) {
        scenario_run(&scenarios[i], 16, 7, &first);
        scenario_run(&scenarios[i], 16, 7, &second);
        first.real = second.real = 0;
        ck_assert_mem_eq(&first, &second, sizeof(first));
    }
}
END_TEST

/* LOCKSTEP_TEST_SEED begins elsewhere. */
START_TEST(random_scenarios) {
    const char *given = getenv("LOCKSTEP_TEST_SEED");
    uint64_t from = given ? strtoull(given, NULL, 10) : 1;
    for (uint64_t seed = from; seed < from + RANDOM; seed++) {
        struct scenario_result result;
        scenario_run_random(seed, &result);
        ck_assert_msg(!*result.failure, "seed %llu: %s", (unsigned long long)seed, result.failure);
    }
}
END_TEST

static TCase *add_case(Suite *suite, const char *name) {
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 300);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int main(void) {
    Suite *suite = suite_create("scenario");
    tcase_add_loop_test(add_case(suite, "few"), few_workers, 0, scenario_count);
    tcase_add_loop_test(add_case(suite, "many"), many_workers, 0, scenario_count);
    tcase_add_test(add_case(suite, "thousand"), a_thousand_workers);
    tcase_add_test(add_case(suite, "same"), the_same_seed_is_the_same_run);
    tcase_add_test(add_case(suite, "random"), random_scenarios);
    return run_suite(suite);
}
