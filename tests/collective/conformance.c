/* Conformance of all-reduce: every transport × algorithm × type × op × 1 to 9 workers × counts of 0, 1, N - 1, N, N + 1
 * and an odd one × in place or not, against one oracle in bits; long vectors; and random layouts of 8 replicas
 * over workers, transports and algorithms, which must all give one digest.
 *
 * Types and ops other than sum and mean of float32 and float16 are taken with two of the counts. Types, ops and counts
 * are dealt out over the workers.
 *
 * LOCKSTEP_TEST_FULL=1 takes several leaves a worker, every type and op with every count and number of workers, every
 * transport with long vectors, and more rounds as well. LOCKSTEP_TEST_SEED=N repeats a run of the random layouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/random.h"
#include "collective/algorithm.h"
#include "collective/collectives.h"
#include "collective/schedule/schedules.h"
#include "collective/run/frame.h"
#include "collective/table.h"
#include "harness.h"

static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_AUTO, LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT,
                                               LS_ALGORITHM_HALVING, LS_ALGORITHM_RING};
static const char *const wires[] = {
    [WIRE_LOCAL] = "local", [WIRE_TCP] = "tcp", [WIRE_ODD] = "odd", [WIRE_RING] = "rings", [WIRE_SHARED] = "shared"};
enum { ALGORITHMS = 5, WIRES = 5, REPLICAS = 8 };
enum { MOST_WORKERS = SANITIZED ? 7 : 9 };

/* A world in which the algorithm runs: RING by its communication, the others forced. */
static struct world_options world_of(enum wire wire, enum ls_algorithm algorithm, int size) {
    return (struct world_options){.size = size,
                                  .wire = wire,
                                  .algorithm = algorithm == LS_ALGORITHM_RING ? LS_ALGORITHM_AUTO : algorithm,
                                  .timeout = 60,
                                  .segment = wire == WIRE_ODD ? 1000 : 0};
}

static void say(const char *what, enum wire wire, enum ls_algorithm algorithm, size_t cases, int64_t start) {
    printf("# %s: %s, %s: %zu cases, %.1f s\n", what, wires[wire], ls_algorithm_info(algorithm)->name, cases,
           ls_seconds_since(start));
    (void)fflush(stdout);
}

/* ---- the table ---- */

static const int even[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
static const int pairs[] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18};
static const int mixed[] = {0, 3, 4, 6, 7, 8, 12, 13, 15, 16};

static size_t run_counts(const struct world_options *options, enum ls_algorithm algorithm, const int *first,
                         enum breadth breadth, const size_t *counts, int count_count) {
    struct table table = {.first = first,
                          .counts = counts,
                          .count_count = count_count,
                          .breadth = breadth,
                          .deal = SANITIZED || breadth == ALL_TYPES ? 3 : 2,
                          .order = algorithm == LS_ALGORITHM_RING ? CHAIN : TREE};
    table_run(options, &table);
    return table.cases;
}

static size_t run_layout(const struct world_options *options, enum ls_algorithm algorithm, const int *first) {
    size_t n = (size_t)options->size, counts[] = {n, 1003, 0, 1, n - 1, n + 1};
    if (is_full()) return run_counts(options, algorithm, first, ALL_TYPES, counts, 6);
    size_t cases = SANITIZED ? 0 : run_counts(options, algorithm, first, ALL_TYPES, counts, 2);
    return cases + run_counts(options, algorithm, first, TWO_TYPES, counts + (cases ? 2 : 0), cases ? 4 : 6);
}

TEST_EACH(every_case, (WIRES * ALGORITHMS)) {
    enum wire wire = (enum wire)(_i / ALGORITHMS);
    enum ls_algorithm algorithm = algorithms[_i % ALGORITHMS];
    int64_t start = ls_now();
    size_t cases = 0;
    for (int size = 1; size <= MOST_WORKERS; size += SANITIZED && size == 4 ? 3 : 1) { /* 7: three blocks of halving */
        struct world_options options = world_of(wire, algorithm, size);
        cases += run_layout(&options, algorithm, even);
        if (!is_full()) continue;
        cases += run_layout(&options, algorithm, pairs);
        if (algorithm != LS_ALGORITHM_HALVING) cases += run_layout(&options, algorithm, mixed);
    }
    say("every case", wire, algorithm, cases, start);
}

/* Sizes and wires dealt out over the algorithms; every pair of wire and algorithm in the full run. */
TEST_EACH(long_vectors, (WIRES * ALGORITHMS)) {
    enum wire wire = (enum wire)(_i / ALGORITHMS);
    enum ls_algorithm algorithm = algorithms[_i % ALGORITHMS];
    const size_t counts[] = {SANITIZED ? 1000000 : wire == WIRE_SHARED || is_full() ? 10000000 : 2000003};
    static const enum wire quick[] = {WIRE_SHARED, WIRE_LOCAL, WIRE_TCP, WIRE_RING, WIRE_TCP};
    if (wire == WIRE_ODD || (!is_full() && wire != quick[_i % ALGORITHMS])) return;
    int64_t start = ls_now();
    struct world_options options = world_of(wire, algorithm, algorithm == LS_ALGORITHM_HALVING ? 4 : 2 + _i % 2);
    struct table table = {
        .first = even, COUNTS(counts), .breadth = MEANS, .order = algorithm == LS_ALGORITHM_RING ? CHAIN : TREE};
    table_run(&options, &table);
    say("long", wire, algorithm, table.cases, start);
}

/* A chunk of 512 KiB, and so few bytes more that some workers have nothing of them to add. */
TEST_EACH(the_last_chunk_is_short, 4) {
    static const int sizes[] = {2, 3, 5, 8};
    static const size_t counts[] = {131073, 131088, 131089, 131072 + 40, 262145};
    struct world_options options = world_of(WIRE_SHARED, _i & 1 ? LS_ALGORITHM_SHARED : LS_ALGORITHM_AUTO, sizes[_i]);
    struct table table = {.first = even, COUNTS(counts), .breadth = MEANS, .order = TREE};
    table_run(&options, &table);
}

/* ---- layouts that do not fit ---- */

static ls_status reduce_nothing(struct rank *rank) {
    float data[3] = {0};
    const void *inputs[3] = {data, data + 1, data + 2};
    void *outputs[3] = {data, data + 1, data + 2};
    struct ls_all_reduce call = {.name = "gradients",
                                 .dtype = LS_FLOAT32,
                                 .count = 1,
                                 .leaves = {rank->context},
                                 .inputs = inputs,
                                 .outputs = outputs};
    return ls_group_all_reduce(rank->group, &call);
}

TEST(a_forced_algorithm_that_does_not_fit_is_named) {
    int first[] = {0, 1, 4, 5};
    struct world_options options = world_of(WIRE_LOCAL, LS_ALGORITHM_HALVING, 3);
    struct world world;
    world_run(&options, reduce_nothing, first, &world);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "all_reduce 'gradients': algorithm halving-doubling"));
        ck_assert_msg(strstr(world.ranks[i].error, "1, 3, 1") != NULL, "%s", world.ranks[i].error);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "set LOCKSTEP_ALGORITHM to auto or direct"));
    }
}

/* ---- one digest ---- */

struct layout {
    int first[REPLICAS + 1];
    size_t count;
    ls_dtype dtype;
    uint64_t digests[REPLICAS];
};

/* Values without NaN: the bits of one follow from those of its operands, not from their sum. */
static void fill(ls_dtype dtype, void *data, size_t count, int replica) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = ls_random_bits(11, (uint64_t)replica, i);
        float value = (float)((double)(int64_t)bits * 0x1p-63 * (double)(1U << (bits & 15)));
        double wide = value;
        if (dtype == LS_FLOAT32) memcpy((float *)data + i, &value, sizeof(value));
        if (dtype == LS_FLOAT64) memcpy((double *)data + i, &wide, sizeof(wide));
        uint16_t half = dtype == LS_FLOAT16 ? ls_half_from_float(value) : ls_half_bfloat16_from_float(value);
        if (dtype == LS_FLOAT16 || dtype == LS_BFLOAT16) memcpy((uint16_t *)data + i, &half, sizeof(half));
    }
}

static uint64_t digest_of(const unsigned char *data, size_t bytes) {
    uint64_t digest = 0;
    for (size_t i = 0; i < bytes; i++) digest = ls_frame_digest(digest, data[i]);
    return digest;
}

static ls_status reduce_layout(struct rank *rank) {
    struct layout *layout = rank->context;
    int low = layout->first[rank->rank], local = layout->first[rank->rank + 1] - low;
    size_t bytes = layout->count * ls_dtype_size(layout->dtype);
    void *arrays[REPLICAS];
    for (int i = 0; i < local; i++) {
        arrays[i] = malloc(bytes + 1);
        ck_assert_ptr_nonnull(arrays[i]);
        fill(layout->dtype, arrays[i], layout->count, low + i);
    }
    struct ls_all_reduce call = {.name = "one digest",
                                 .op = LS_MEAN,
                                 .dtype = layout->dtype,
                                 .count = layout->count,
                                 .leaves = {layout->first},
                                 .inputs = (const void *const *)arrays,
                                 .outputs = arrays};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    for (int i = 0; i < local; i++) {
        layout->digests[low + i] = digest_of(arrays[i], bytes);
        free(arrays[i]);
    }
    return status;
}

static int draw(uint64_t seed, uint64_t *drawn, int below) {
    return (int)(ls_random_bits(seed, 3, (*drawn)++) % (uint64_t)below);
}

/* 8 replicas cut anywhere; returns the number of workers. */
static int draw_layout(uint64_t seed, uint64_t *drawn, struct layout *layout) {
    int workers = 0;
    for (int i = 1; i <= REPLICAS; i++)
        if (i == REPLICAS || draw(seed, drawn, 2)) layout->first[++workers] = i;
    return workers;
}

static bool fits(enum ls_algorithm algorithm, int workers, const struct layout *layout) {
    struct ls_hosts hosts;
    assert_ok(ls_hosts_init(&hosts, workers, NULL));
    struct ls_reduction reduction = {.size = workers, .first = layout->first, .hosts = &hosts};
    bool good = algorithm != LS_ALGORITHM_HALVING || ls_halving_fits(&reduction);
    ls_hosts_free(&hosts);
    return good;
}

static uint64_t run_digest(const struct world_options *options, struct layout *layout) {
    struct world world;
    world_run(options, reduce_layout, layout, &world);
    world_expect_ok(&world, options->size);
    for (int i = 1; i < REPLICAS; i++) ck_assert_uint_eq(layout->digests[i], layout->digests[0]);
    return layout->digests[0];
}

TEST_RANGE(random_layouts_of_8_replicas_give_one_digest, LS_FLOAT32, LS_BFLOAT16 + 1) {
    uint64_t seed = first_seed() + (uint64_t)_i, drawn = 0;
    int rounds = is_full() ? 1000 : SANITIZED ? 20 : 50;
    struct layout layout = {.first = {0, REPLICAS}, .count = 3001, .dtype = (ls_dtype)_i};
    struct world_options alone = {.size = 1};
    uint64_t want = run_digest(&alone, &layout);
    for (int round = 0; round < rounds; round++) {
        int workers = draw_layout(seed, &drawn, &layout);
        enum ls_algorithm algorithm = algorithms[draw(seed, &drawn, 4)]; /* RING has its own order */
        struct world_options options = world_of((enum wire)draw(seed, &drawn, WIRES), algorithm, workers);
        options.segment = (size_t)draw(seed, &drawn, 2) * (64 + (size_t)draw(seed, &drawn, 5000));
        if (!fits(algorithm, workers, &layout)) options.algorithm = LS_ALGORITHM_AUTO;
        uint64_t got = run_digest(&options, &layout);
        ck_assert_msg(got == want, "round %d of seed %llu: %d workers, %s, %s, segment %zu: %016llx, not %016llx",
                      round, (unsigned long long)seed, workers, wires[options.wire],
                      ls_algorithm_info(options.algorithm)->name, options.segment, (unsigned long long)got,
                      (unsigned long long)want);
    }
}

TESTS("collective/conformance", .seconds = 600)
