/* The control plane of 3 to 1,000 workers in virtual time. A failure prints its seed, with which it comes again. */
#include "simulation/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum {
    RANDOM = SANITIZED ? 10 : 200,
    ELASTIC = SANITIZED ? 10 : 75,
    SIZES = SANITIZED ? 3 : 4,
    MANY_WORKERS = SANITIZED ? 70 : 300,
    THOUSAND = SANITIZED ? 200 : 1000,
    SEEDS = SANITIZED ? 1 : 3 /* of few workers */
};

static const int sizes[] = {3, 5, 16, 64}; /* SIZES of them */

TEST_EACH(few_workers, scenario_count) {
    const struct scenario *scenario = &scenarios[_i];
    for (size_t i = 0; i < SIZES; i++)
        for (uint64_t seed = 1; seed <= SEEDS && sizes[i] >= scenario->least; seed++) {
            struct scenario_result result;
            scenario_run(scenario, sizes[i], seed, &result);
            ck_assert_msg(!*result.failure, "%s, %d workers, seed %d: %s", scenario->name, sizes[i], (int)seed,
                          result.failure);
        }
}

TEST_EACH(many_workers, scenario_count) {
    const struct scenario *scenario = &scenarios[_i];
    struct scenario_result result;
    scenario_run(scenario, MANY_WORKERS, 1, &result);
    ck_assert_msg(!*result.failure, "%s: %s", scenario->name, result.failure);
}

static const struct scenario *find(const char *name) {
    const struct scenario *scenario = scenarios;
    while (strcmp(scenario->name, name) != 0) scenario++;
    return scenario;
}

/* A cost that grows faster than the workers shows here first. */
TEST(a_thousand_workers) {
    static const char *const names[] = {"join", "coordinator lost", "the lowest fifth lost", "one frozen, then killed"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct scenario_result result;
        scenario_run(find(names[i]), THOUSAND, 1, &result);
        ck_assert_msg(!*result.failure, "%s: %s", names[i], result.failure);
        ck_assert_msg(i || result.coordinator_streams == 2 * (THOUSAND - 1), "%d streams", result.coordinator_streams);
    }
}

/* So that a seed is all that is needed to see a failure again. */
TEST(the_same_seed_is_the_same_run) {
    struct scenario_result first, second;
    for (int i = 0; i < scenario_count; i++) {
        scenario_run(&scenarios[i], 16, 7, &first);
        scenario_run(&scenarios[i], 16, 7, &second);
        first.real = second.real = 0;
        ck_assert_mem_eq(&first, &second, sizeof(first));
    }
}

/* LOCKSTEP_TEST_SEED begins elsewhere. */
TEST(random_scenarios) {
    const char *given = getenv("LOCKSTEP_TEST_SEED");
    uint64_t from = given ? strtoull(given, NULL, 10) : 1;
    for (uint64_t seed = from; seed < from + RANDOM; seed++) {
        struct scenario_result result;
        scenario_run_random(seed, false, &result);
        ck_assert_msg(!*result.failure, "seed %llu: %s", (unsigned long long)seed, result.failure);
    }
}

/* All end where so many are lost at once that nobody may go on. That is seldom. */
TEST(random_elastic_scenarios) {
    int gave_up = 0;
    for (uint64_t seed = 1; seed <= ELASTIC; seed++) {
        struct scenario_result result;
        scenario_run_random(seed, true, &result);
        ck_assert_msg(!*result.failure, "seed %llu: %s", (unsigned long long)seed, result.failure);
        gave_up += result.gave_up;
    }
    ck_assert_int_lt(gave_up, ELASTIC / 5);
}

TESTS("scenario", .seconds = 300)
