/* The table of all-reduce: communication × workers × layouts of leaves × types × ops × counts, in place and not, over
 * local links, TCP and links that move odd numbers of bytes; bit for bit against the oracle. Types, ops and counts are
 * dealt out over the workers.
 *
 * LOCKSTEP_TEST_SEED=N repeats a run of the random sizes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "collective/collectives.h"
#include "collective/table.h"
#include "harness.h"

static const size_t small_counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000};
static const size_t middle_counts[] = {5, 4099, MANY(20011)};
static const size_t large_counts[] = {MANY(300001)};
enum { MOST_WORKERS = SANITIZED ? 4 : 8, DEAL = SANITIZED ? 5 : 3 };

/* One leaf a worker. */
static const int even[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
/* layouts[workers - 1]: uneven ones. */
static const int uneven[8][9] = {
    {0, 8},
    {0, 1, 3},
    {0, 3, 4, 6},
    {0, 2, 3, 6, 7},
    {0, 1, 3, 6, 7, 9},
    {0, 5, 6, 7, 8, 10, 11},
    {0, 1, 2, 4, 5, 6, 8, 9},
    {0, 1, 3, 4, 6, 7, 8, 11, 12},
};

TEST_EACH(table_over_local_links, MOST_WORKERS) {
    struct world_options options = {.size = _i + 1};
    struct table table = {.first = even, COUNTS(small_counts), .breadth = ALL_TYPES, .deal = DEAL};
    table_run(&options, &table);
    table.first = uneven[_i];
    table_run(&options, &table);
}

TEST(many_leaves_on_one_worker) {
    static const int heavy[] = {0, 8, 9, 25}, single[] = {0, 13};
    struct world_options options = {.size = 3};
    struct table table = {.first = heavy, COUNTS(small_counts), .breadth = ALL_TYPES, .deal = DEAL};
    table_run(&options, &table);
    options.size = 1;
    table.first = single;
    table_run(&options, &table);
}

TEST_EACH(table_over_tcp, SANITIZED ? 2 : 3) {
    static const int sizes[] = {2, 3, 5};
    struct world_options options = {.size = sizes[_i], .wire = WIRE_TCP};
    struct table table = {.first = uneven[sizes[_i] - 1], COUNTS(small_counts), .breadth = TWO_TYPES};
    table_run(&options, &table);
    table = (struct table){.first = even, COUNTS(middle_counts), .breadth = ALL_TYPES, .deal = DEAL};
    table_run(&options, &table);
}

/* Small segments, so that every pipeline has many; sends and receives end in the middle of elements. */
TEST_EACH(table_over_odd_links, SANITIZED ? 2 : 3) {
    static const int sizes[] = {2, 3, 4};
    struct world_options options = {.size = sizes[_i], .wire = WIRE_ODD, .segment = 1000};
    static const size_t counts[] = {1, 9, 1001};
    struct table table = {.first = uneven[sizes[_i] - 1], COUNTS(counts), .breadth = ALL_TYPES, .deal = DEAL};
    table_run(&options, &table);
    static const size_t longer[] = {24007};
    table = (struct table){.first = even, COUNTS(longer), .breadth = TWO_TYPES};
    table_run(&options, &table);
}

TEST_EACH(table_over_shared_memory, MOST_WORKERS) {
    struct world_options options = {.size = _i + 1, .wire = WIRE_SHARED};
    struct table table = {.first = even, COUNTS(small_counts), .breadth = ALL_TYPES, .deal = DEAL};
    table_run(&options, &table);
    table.first = uneven[_i];
    table_run(&options, &table);
    table = (struct table){.first = uneven[_i], COUNTS(middle_counts), .breadth = TWO_TYPES};
    table_run(&options, &table);
    if (_i < 1 || _i > 3) return;
    table = (struct table){.first = even, COUNTS(middle_counts), .breadth = ALL_TYPES}; /* each has loops of its own */
    if (SANITIZED) table.deal = DEAL;
    table_run(&options, &table);
}

TEST_EACH(large_counts_over_shared_memory, SANITIZED ? 2 : 3) {
    struct world_options options = {.size = _i + 2, .wire = WIRE_SHARED};
    struct table table = {.first = uneven[_i + 1], COUNTS(large_counts), .breadth = MEANS};
    table_run(&options, &table);
}

TEST_EACH(many_segments, SANITIZED ? 2 : 3) {
    struct world_options options = {.size = _i + 2, .wire = _i & 1 ? WIRE_TCP : WIRE_LOCAL, .segment = 16384};
    struct table table = {.first = uneven[_i + 1], COUNTS(large_counts), .breadth = MEANS};
    table_run(&options, &table);
}

/* The bits of AUTO are those of one worker that holds all leaves, whatever the layout. */
TEST(layout_does_not_change_the_bits) {
    static const int layouts[][5] = {{0, 6}, {0, 3, 6}, {0, 1, 6}, {0, 2, 3, 6}, {0, 1, 2, 3, 6}};
    static const int sizes[] = {1, 2, 2, 3, 4};
    static const size_t counts[] = {MANY(20011)};
    for (int wire = WIRE_LOCAL; wire <= WIRE_SHARED; wire++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct world_options options = {.size = sizes[i], .wire = (enum wire)wire};
            struct table table = {.first = layouts[i], COUNTS(counts), .breadth = TWO_TYPES};
            table_run(&options, &table);
        }
}

/* ---- parameter servers ---- */

enum { SERVED = 5 };
static const int served_workers[SERVED] = {2, 2, 3, 4, 5}, servers[SERVED] = {1, 3, 2, 4, 1};

static struct world_options served(int i) {
    return (struct world_options){.size = served_workers[i],
                                  .servers = servers[i],
                                  .algorithm = LS_ALGORITHM_ASSIST,
                                  .segment = i & 1 ? 4096 : 0,
                                  .wire = i == 2   ? WIRE_ODD
                                          : i == 3 ? WIRE_TCP
                                          : i == 4 ? WIRE_RING
                                                   : WIRE_LOCAL};
}

TEST_EACH(servers_add_what_workers_would, SANITIZED ? 3 : SERVED) {
    static const size_t counts[] = {1, 700, 1009, 4099}; /* the first ones are too small for servers */
    struct world_options options = served(_i);
    struct table table = {
        .first = uneven[options.size - 1], COUNTS(counts), .breadth = ALL_TYPES, .order = TREE, .deal = DEAL};
    table_run(&options, &table);
    table = (struct table){.first = even, COUNTS(middle_counts), .breadth = TWO_TYPES, .order = TREE};
    table_run(&options, &table);
    table = (struct table){.first = uneven[options.size - 1], COUNTS(counts), .breadth = MEANS, .order = TREE};
    table.compression = _i & 1 ? LS_COMPRESS_FP16 : LS_COMPRESS_BF16;
    table_run(&options, &table);
}

static uint64_t seed;

static int below(int round, uint64_t index, int end) {
    return (int)(ls_random_bits(seed, (uint64_t)round, index) % (uint64_t)end);
}

/* Blocks of 1 MiB and more go in pieces that wait for each other: none may wait for ever, whatever the sizes, the parts
 * that a worker gives and the grain. */
TEST(large_blocks_keep_step) {
    static const size_t segments[] = {0, 1000, 4096, 1 << 20};
    static const enum wire wires[] = {WIRE_LOCAL, WIRE_TCP, WIRE_RING};
    for (int round = 0; round < (SANITIZED ? 1 : 4); round++) {
        size_t counts[] = {((size_t)1 << 18) + (size_t)below(round, 0, 3 << 20)};
        struct world_options options = {.size = 2 + below(round, 1, 4),
                                        .servers = 1 + below(round, 2, 4),
                                        .algorithm = LS_ALGORITHM_ASSIST,
                                        .segment = segments[below(round, 3, 4)],
                                        .wire = wires[below(round, 4, 3)]};
        const int *first = below(round, 5, 2) ? uneven[options.size - 1] : even;
        enum breadth breadth = below(round, 6, 3) ? MEANS : TWO_TYPES;
        struct table table = {.first = first, COUNTS(counts), .breadth = breadth, .order = TREE};
        if (!below(round, 7, 4)) table.compression = LS_COMPRESS_BF16;
        table_run(&options, &table);
    }
}

struct load {
    size_t sent[MAX_RANKS][MAX_RANKS], count;
};

static ls_status reduce_once(struct rank *rank) {
    const struct load *load = rank->context;
    void *data = calloc(load->count, sizeof(float));
    const void *input = data;
    const struct ls_all_reduce call = {.name = "load", .count = load->count, .inputs = &input, .outputs = &data};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    free(data);
    return status;
}

/* Over links of one speed nobody is waited for: all ranks send alike much, and receive alike much. */
TEST_EACH(servers_and_workers_have_one_load, SERVED) {
    struct load load = {.count = 1 << 17};
    struct world_options options = served(_i);
    size_t most = 0, all = 0;
    int size = options.size + options.servers;
    struct world world;
    options.sent = load.sent;
    options.segment = 0;
    options.wire = WIRE_LOCAL;
    world_run(&options, reduce_once, &load, &world);
    world_expect_ok(&world, options.size);
    for (int i = 0; i < size; i++) {
        size_t out = 0, in = 0;
        for (int j = 0; j < size; j++) {
            out += load.sent[i][j];
            in += load.sent[j][i];
        }
        if (out > most) most = out;
        if (in > most) most = in;
        all += out;
    }
    bool whole = options.servers >= options.size; /* servers own everything, and each worker sends the vector */
    size_t mean = whole ? load.count * sizeof(float) : all / (size_t)size;
    ck_assert_msg((double)most <= 1.02 * (double)mean, "%zu of %zu by %d, not %zu", most, all, size, mean);
}

int main(void) {
    seed = first_seed();
    return RUN_TESTS("collective/all_reduce", .seconds = 120);
}
