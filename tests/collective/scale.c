/* Every algorithm for up to 1,000 workers, in memory: right in bits, and at the cost that its formula says. */
#include "collective/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "collective/schedule/schedules.h"
#include "harness.h"

enum { MOST_WORKERS = 1024 };

static int log2_below(int n) {
    int levels = 0;
    while (2 << levels <= n) levels++;
    return levels;
}

static struct simulation_cost run(struct simulation simulation) {
    struct simulation_cost cost;
    simulation_run(&simulation, &cost);
    return cost;
}

static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT, LS_ALGORITHM_RING,
                                               LS_ALGORITHM_HALVING};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

/* Of a short vector, which up to 8 ranks of a ring pass on whole. */
static int steps_of(enum ls_algorithm algorithm, int n) {
    if (n == 1) return 0;
    if (algorithm == LS_ALGORITHM_EXCHANGE) return 1;
    if (algorithm == LS_ALGORITHM_DIRECT) return 2;
    if (algorithm == LS_ALGORITHM_RING) return (n <= 8 ? 1 : 2) * (n - 1);
    return 2 * log2_below(n);
}

TEST_EACH(right_for_every_number_of_workers, ALGORITHMS) {
    enum ls_algorithm algorithm = algorithms[_i];
    for (int n = algorithm == LS_ALGORITHM_RING ? 2 : 1; n <= 40; n++) {
        size_t counts[] = {0, 1, (size_t)n - 1, (size_t)n, (size_t)n + 1, 2 * (size_t)n + 3, 67};
        for (int i = 0; i < 7; i++)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct simulation simulation = {
                    .algorithm = algorithm, .count = counts[i], .size = n, .in_place = in_place};
                struct simulation_cost cost = run(simulation);
                ck_assert_int_le(cost.steps, steps_of(algorithm, n));
                if (counts[i] >= (size_t)n) ck_assert_int_eq(cost.steps, steps_of(algorithm, n));
                simulation.op = (ls_reduce_op)(n % 4);
                simulation.dtype = (ls_dtype)(i % 6);
                simulation.seed = (uint64_t)(n * 100 + i * 2 + in_place) + 1;
                (void)run(simulation);
            }
    }
}

/* On both sides of the longest vector that goes round whole. */
TEST(rings_of_short_and_long_vectors) {
    for (int n = 2; n <= 9; n++)
        for (size_t i = 0; i < 4; i++) {
            size_t limit = (n == 2 ? (size_t)16 << 10 : (size_t)4 << 10) / 4;
            struct simulation simulation = {.algorithm = LS_ALGORITHM_RING, .count = limit + i / 2, .size = n};
            simulation.in_place = i % 2;
            struct simulation_cost cost = run(simulation);
            ck_assert_int_eq(cost.steps, (n <= 8 && i < 2 ? 1 : 2) * (n - 1));
        }
}

TEST_EACH(right_for_many_workers, ALGORITHMS) {
    static const int sizes[] = {100, 1000};
    for (int i = 0; i < 2; i++) {
        size_t count = algorithms[_i] == LS_ALGORITHM_EXCHANGE ? 2 : (size_t)sizes[i] + 1;
        struct simulation simulation = {.algorithm = algorithms[_i], .op = LS_MEAN, .count = count, .size = sizes[i]};
        for (int in_place = 0; in_place < 2; in_place++) {
            simulation.in_place = in_place;
            struct simulation_cost cost = run(simulation);
            ck_assert_int_eq(cost.steps, steps_of(algorithms[_i], sizes[i]));
        }
    }
}

/* ---- layouts ---- */

/* Every worker holds the same power of two, or larger ones further left. */
TEST(halving_of_subtrees) {
    static const int layouts[][8] = {{0, 2, 4, 6, 8}, {0, 4, 8, 12}, {0, 8, 16},  {0, 2, 4, 6, 8, 10}, {0, 4, 6},
                                     {0, 4, 8, 11},   {0, 2, 3},     {0, 16, 17}, {0, 2, 4, 5},        {0, 5}};
    static const int sizes[] = {4, 3, 2, 5, 2, 3, 2, 2, 3, 1};
    for (int i = 0; i < 10; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct simulation simulation = {.algorithm = LS_ALGORITHM_HALVING,
                                            .op = (ls_reduce_op)(seed % 4),
                                            .dtype = (ls_dtype)(seed % 6),
                                            .count = (size_t)seed * 3,
                                            .size = sizes[i],
                                            .first = layouts[i],
                                            .in_place = seed & 1,
                                            .seed = seed};
            (void)run(simulation);
        }
}

/* By definition: the tree over the leaves has a node for every node of the tree over the workers. */
static bool fits(const int *first, int low, int high) {
    if (high - low == 1) return true;
    int workers = 1, leaves = 1;
    while (2 * workers < high - low) workers *= 2;
    while (2 * leaves < first[high] - first[low]) leaves *= 2;
    return first[low + workers] - first[low] == leaves && fits(first, low, low + workers) &&
           fits(first, low + workers, high);
}

TEST(halving_fits_the_tree_over_workers) {
    for (unsigned shape = 0; shape < 1U << 10; shape++) { /* five workers that hold 1 to 4 leaves */
        int first[6] = {0};
        for (int i = 0; i < 5; i++) first[i + 1] = first[i] + 1 + (int)(shape >> 2 * i & 3);
        struct ls_hosts hosts;
        assert_ok(ls_hosts_init(&hosts, 5, NULL));
        struct ls_reduction reduction = {.size = 5, .first = first, .hosts = &hosts};
        ck_assert_int_eq(ls_halving_fits(&reduction), fits(first, 0, 5));
        ls_hosts_free(&hosts);
    }
}

/* Any number of leaves a worker, ranks over hosts in any order; where hosts share memory direct exchange is between
 * hosts. */
TEST(random_layouts) {
    enum { CASES = 450 };
    static const enum ls_algorithm drawn[] = {LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT, LS_ALGORITHM_RING};
    for (uint64_t i = 0; i < CASES; i++) {
        int size = 2 + (int)(ls_random_bits(5, i, 0) % 11), hosts = 1 + (int)(ls_random_bits(5, i, 1) % 4);
        int first[13] = {0}, lowest[12], host[12];
        for (int rank = 0; rank < size; rank++) {
            host[rank] = (int)(ls_random_bits(5, i, 10 + (uint64_t)rank) % (uint64_t)hosts);
            first[rank + 1] = first[rank] + 1 + (int)(ls_random_bits(5, i, 30 + (uint64_t)rank) % 3);
            for (lowest[rank] = 0; host[lowest[rank]] != host[rank];) lowest[rank]++;
        }
        struct simulation simulation = {.algorithm = drawn[i % 3],
                                        .op = LS_MEAN,
                                        .dtype = (ls_dtype)(i % 6),
                                        .count = (size_t)(ls_random_bits(5, i, 2) % 50),
                                        .size = size,
                                        .first = first,
                                        .lowest = drawn[i % 3] == LS_ALGORITHM_RING ? NULL : lowest,
                                        .in_place = i & 2,
                                        .seed = i + 1};
        (void)run(simulation);
    }
}

/* ---- formulas ---- */

static struct simulation_cost cost_of(enum ls_algorithm algorithm, int n, size_t count) {
    struct simulation simulation = {.algorithm = algorithm, .count = count, .size = n};
    struct simulation_cost cost;
    simulation_count(&simulation, &cost);
    return cost;
}

TEST(costs_are_those_of_the_formulas) {
    static const int sizes[] = {2, 3, 4, 7, 8, 16, 31, 64, 100, 128, 1000, 1024};
    for (int i = 0; i < 12; i++) {
        int n = sizes[i];
        size_t wide = (size_t)n, count = wide * 4, bytes = count * 4, block = bytes / wide;
        struct simulation_cost cost = cost_of(LS_ALGORITHM_DIRECT, n, count);
        ck_assert_uint_eq(cost.sent, 2 * (wide - 1) * block);
        ck_assert_uint_eq(cost.received, cost.sent);
        ck_assert_int_eq(cost.messages, 2 * (n - 1));
        ck_assert_int_eq(cost.peers, n - 1);
        ck_assert_uint_eq(cost.total, wide * cost.sent);
        ck_assert_uint_eq(cost.link, 2 * block);
        cost = cost_of(LS_ALGORITHM_RING, n, 4096 * count);
        ck_assert_uint_eq(cost.sent, 4096 * 2 * (wide - 1) * block);
        ck_assert_int_eq(cost.messages, 2 * (n - 1));
        cost = cost_of(LS_ALGORITHM_RING, n, 4);
        ck_assert(n > 8 || (cost.sent == (wide - 1) * 16 && cost.messages == n - 1));
        ck_assert_int_eq(cost.peers, n == 2 ? 1 : 2);
        cost = cost_of(LS_ALGORITHM_EXCHANGE, n, 1);
        ck_assert_uint_eq(cost.sent, (wide - 1) * 4);
        ck_assert_int_eq(cost.messages, n - 1);
    }
}

/* Nobody moves more than twice the vector in a direction; for powers of two it is what direct exchange moves. */
TEST(costs_of_halving_doubling) {
    for (int n = 2; n <= MOST_WORKERS; n += n < 70 ? 1 : 53) {
        int levels = log2_below(n);
        size_t count = (size_t)4 << levels, bytes = count * 4;
        struct simulation_cost cost = cost_of(LS_ALGORITHM_HALVING, n, count);
        ck_assert_uint_le(cost.sent, 2 * bytes);
        ck_assert_uint_le(cost.received, 2 * bytes);
        ck_assert_uint_le(cost.link, bytes);
        if (n == 1 << levels) {
            ck_assert_uint_eq(cost.sent, 2 * (bytes - bytes / (size_t)n));
            ck_assert_int_eq(cost.peers, levels);
            ck_assert_uint_le(cost.scratch, bytes + 64 * (size_t)(2 * levels + 4)); /* each piece rounded up */
        }
    }
}

/* The memory that a rank keeps of a call grows with the number of workers, no faster. */
TEST(schedules_are_short) {
    for (int i = 0; i < ALGORITHMS; i++) {
        size_t count = algorithms[i] == LS_ALGORITHM_EXCHANGE ? 2 : 4000;
        ck_assert_int_le(cost_of(algorithms[i], 1000, count).actions, 4 * 1000);
    }
}

TESTS("collective/scale", .seconds = 120)
