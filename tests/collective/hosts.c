/* Several hosts, pretended on one: who is found to be on which; all-reduce in two levels against the oracle, in bits;
 * broadcast, all-gather and barrier; and how many bytes leave a host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/collectives.h"
#include "collective/run/frame.h"
#include "collective/group_private.h"
#include "collective/table.h"
#include "harness.h"
#include "collective/tuner.h"

struct layout {
    const char *described;
    int size, factor;
    int hosts[8];
    int first[9]; /* uneven devices */
};
static const struct layout layouts[] = {
    {"shared memory in 2 hosts of 2 and tcp between them", 4, 1, {0, 0, 1, 1}, {0, 1, 3, 4, 8}},
    {"shared memory in 2 hosts of 2 and tcp between them", 4, 2, {0, 1, 0, 1}, {0, 3, 4, 6, 7}},
    {"shared memory in 3 hosts of 1 to 3 and tcp between them", 6, 2, {0, 1, 1, 2, 2, 2}, {0, 1, 2, 3, 6, 7, 9}},
    {"shared memory in 2 hosts of 1 to 4 and tcp between them", 5, 3, {1, 0, 0, 0, 0}, {0, 5, 6, 8, 9, 10}},
    {"shared memory in 3 hosts of 1 to 2 and tcp between them", 5, 2, {0, 1, 0, 2, 1}, {0, 2, 3, 4, 9, 10}},
    {"shared memory in 3 hosts of 2 to 3 and tcp between them",
     8,
     3,
     {0, 1, 2, 0, 1, 2, 0, 1},
     {0, 1, 2, 4, 5, 6, 7, 8, 9}},
};
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]), LAYOUTS_WITH_DATA = SANITIZED ? 4 : LAYOUTS };

static struct world_options options_of(const struct layout *layout) {
    return (struct world_options){.size = layout->size, .wire = WIRE_SHARED, .hosts = layout->hosts};
}

/* ---- finding ---- */

static ls_status find(struct rank *rank) {
    const struct layout *layout = rank->context;
    const struct ls_group *group = rank->group;
    ck_assert_str_eq(ls_group_describe(group), layout->described);
    ck_assert_str_eq(ls_group_transport(group), "shm+tcp");
    ck_assert_int_eq(group->factor, layout->factor);
    for (int i = 0; i < layout->size; i++)
        for (int j = 0; j < layout->size; j++)
            ck_assert_int_eq(group->hosts.host[i] == group->hosts.host[j], layout->hosts[i] == layout->hosts[j]);
    ck_assert_int_eq(ls_tuner_algorithm(group, 4, 1000, LS_COMPRESS_NONE), LS_ALGORITHM_TWO_LEVEL);
    return LS_OK;
}

TEST_EACH(hosts_are_found, LAYOUTS) {
    struct layout layout = layouts[_i];
    struct world_options options = options_of(&layout);
    struct world world;
    world_run(&options, find, &layout, &world);
    world_expect_ok(&world, layout.size);
}

TEST(shm_demands_one_host) {
    struct layout layout = layouts[0];
    struct world_options options = options_of(&layout);
    struct world world;
    options.transport = LS_TRANSPORT_SHM;
    world_run(&options, find, &layout, &world);
    for (int i = 0; i < layout.size; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_FAILED_PRECONDITION);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "rank 2 is not on the host of rank 0"));
    }
}

/* ---- all-reduce ---- */

static const int even[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

TEST_EACH(all_reduce_in_two_levels, LAYOUTS_WITH_DATA) {
    static const size_t small_counts[] = {0, 1, 2, 3, 9, 64, 1000}, middle_counts[] = {4099, MANY(20011)};
    const struct layout *layout = &layouts[_i];
    struct world_options options = options_of(layout);
    options.algorithm = LS_ALGORITHM_TWO_LEVEL;
    struct table table = {.first = layout->first, COUNTS(small_counts), .breadth = ALL_TYPES, .order = TREE};
    table.deal = SANITIZED ? 5 : 2;
    table_run(&options, &table);
    table = (struct table){.first = even, COUNTS(small_counts), .breadth = TWO_TYPES};
    table_run(&options, &table);
    table = (struct table){.first = layout->first, COUNTS(middle_counts), .breadth = TWO_TYPES, .order = TREE};
    table_run(&options, &table);
}

TEST_EACH(large_counts_in_two_levels, LAYOUTS_WITH_DATA) {
    static const size_t counts[] = {MANY(400001)};
    struct world_options options = options_of(&layouts[_i]);
    options.segment = 16384;
    struct table table = {.first = layouts[_i].first, COUNTS(counts), .breadth = MEANS, .order = TREE};
    table_run(&options, &table);
}

/* Hosts that share memory do not change the bits of any forced algorithm. */
TEST_EACH(flat_algorithms_beside_shared_memory, 3) {
    static const size_t counts[] = {7, MANY(20011)};
    static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT, LS_ALGORITHM_HALVING};
    struct world_options options = options_of(&layouts[1]);
    options.algorithm = algorithms[_i];
    struct table table = {.first = even, COUNTS(counts), .breadth = TWO_TYPES};
    table_run(&options, &table);
}

/* ---- bytes ---- */

struct counted {
    size_t sent[MAX_RANKS][MAX_RANKS];
    size_t count; /* floats */
    bool in_region;
    const int *hosts;
    size_t between; /* bytes that were sent to other hosts */
};

static void sum_between(struct counted *counted, int size) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            if (counted->hosts[i] != counted->hosts[j]) counted->between += counted->sent[i][j];
}

static ls_status reduce_counted(struct rank *rank) {
    struct counted *counted = rank->context;
    void *data = NULL, *allocated = calloc(counted->count, sizeof(float));
    ls_status status = ls_group_share(rank->group, counted->count * sizeof(float), &data);
    if (!counted->in_region) memset(data, 0, counted->count * sizeof(float));
    void *array = counted->in_region ? data : allocated;
    const void *input = array;
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) memset(counted->sent, 0, sizeof(counted->sent));
    (void)pthread_barrier_wait(rank->barrier);
    const struct ls_all_reduce call = {.name = "counted", .count = counted->count, .inputs = &input, .outputs = &array};
    if (!status) status = ls_group_all_reduce(rank->group, &call);
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) sum_between(counted, rank->size);
    ls_group_unshare(rank->group, data);
    free(allocated);
    return status;
}

/* Bytes that cross the wire, without the frames of so many pairs in both directions. */
static size_t count_bytes(int size, const int *hosts, size_t count, bool in_region, size_t pairs) {
    struct counted counted = {.count = count, .in_region = in_region, .hosts = hosts};
    struct world_options options = {.size = size, .wire = WIRE_SHARED, .hosts = hosts, .sent = counted.sent};
    struct world world;
    world_run(&options, reduce_counted, &counted, &world);
    world_expect_ok(&world, size);
    ck_assert_uint_ge(counted.between, 2 * pairs * LS_FRAME_SIZE);
    return counted.between - 2 * pairs * LS_FRAME_SIZE;
}

TEST_EACH(two_a_host_send_what_one_would, 4) {
    static const int single[] = {0, 1}, pairs[] = {0, 0, 1, 1}, triple[] = {0, 1, 2}, six[] = {0, 0, 1, 1, 2, 2};
    static const int crossed[] = {0, 1, 0, 1};
    static const size_t counts[] = {1000, 100000}; /* one step, two steps */
    size_t count = counts[_i & 1], bytes = count * sizeof(float), steps = 1 + (_i & 1);
    bool in_region = _i & 2;
    ck_assert_uint_eq(count_bytes(2, single, count, in_region, 1), 2 * bytes);
    ck_assert_uint_eq(count_bytes(4, pairs, count, in_region, steps), 2 * bytes);
    size_t three = count_bytes(3, triple, count, in_region, 3);
    ck_assert_uint_eq(three, _i & 1 ? 4 * bytes : 6 * bytes);
    ck_assert_uint_eq(count_bytes(6, six, count, in_region, 3 * steps), three);
    /* where they are no range of the tree: twice the partial results, the results once */
    ck_assert_uint_eq(count_bytes(4, crossed, count, in_region, steps), _i & 1 ? 3 * bytes : 4 * bytes);
}

/* ---- the other collectives ---- */

static float value_of(int rank, size_t index) {
    return (float)(rank * 1000) + (float)(index % 997);
}

/* Of three: private, in a region, in a region on even ranks only. */
static float *take(struct rank *rank, int kind, size_t count, void **region) {
    assert_ok(ls_group_share(rank->group, (count + 1) * sizeof(float), region));
    float *data = kind == 1 || (kind == 2 && rank->rank % 2 == 0) ? *region : malloc((count + 1) * sizeof(float));
    ck_assert_ptr_nonnull(data);
    data[count] = -7;
    return data;
}

static void give(struct rank *rank, float *data, size_t count, void *region) {
    ck_assert(data[count] == -7);
    if (data != region) free(data);
    ls_group_unshare(rank->group, region);
}

static ls_status broadcast_once(struct rank *rank, int kind, int root, size_t count) {
    void *region;
    float *data = take(rank, kind, count, &region);
    for (size_t i = 0; i < count; i++) data[i] = value_of(rank->rank, i);
    ls_status status = ls_group_broadcast(rank->group, LS_BROADCAST("weights", data, count, LS_FLOAT32, root));
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += data[i] != value_of(root, i);
    ck_assert(status || !wrong);
    memset(data, 0xEE, count * sizeof(float)); /* nobody reads it any more */
    give(rank, data, count, region);
    return status;
}

static ls_status gather_once(struct rank *rank, int kind, const size_t *counts) {
    size_t total = 0, start = 0, own = counts[rank->rank], wrong = 0;
    for (int i = 0; i < rank->size; i++) {
        if (i == rank->rank) start = total;
        total += counts[i];
    }
    void *region;
    bool in_place = rank->rank % 3 == 1;
    float *data = take(rank, kind, own, &region), *output = malloc((total + 1) * sizeof(float));
    float *input = in_place ? output + start : data;
    for (size_t i = 0; i < own; i++) input[i] = value_of(rank->rank, i);
    ls_status status = ls_group_all_gather(rank->group, LS_ALL_GATHER("parts", input, output, counts));
    if (!in_place) memset(data, 0xEE, own * sizeof(float));
    const float *at = output;
    for (int i = 0; i < rank->size; i++)
        for (size_t j = 0; j < counts[i]; j++) wrong += *at++ != value_of(i, j);
    ck_assert(status || !wrong);
    free(output);
    give(rank, data, own, region);
    return status;
}

static ls_status move(struct rank *rank) {
    static const size_t counts[] = {0, 1, 4099, 16384, 16385, MANY(300007)};
    static const size_t parts[][8] = {
        {1, 1, 1, 1, 1, 1, 1, 1}, {3, 0, 5, 1, 0, 2, 9, 4}, {0}, {300007, 0, 3, 140000, 1, 16385, 2, 7}};
    ls_status status = LS_OK;
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; !status && i < sizeof(counts) / sizeof(counts[0]); i++)
            for (int root = (kind + (int)i) % 2; !status && root < rank->size; root += 2) /* dealt out */
                status = broadcast_once(rank, kind, root, counts[i]);
        for (size_t i = 0; !status && i < sizeof(parts) / sizeof(parts[0]); i++)
            status = gather_once(rank, kind, parts[i]);
        if (!status) status = ls_group_barrier(rank->group, "between");
    }
    return status;
}

TEST_EACH(broadcast_and_all_gather, LAYOUTS_WITH_DATA) {
    struct world_options options = options_of(&layouts[_i]);
    struct world world;
    world_run(&options, move, NULL, &world);
    world_expect_ok(&world, options.size);
}

TEST_RANGE(broadcast_and_all_gather_on_one_host, 2, 5) {
    struct world_options options = {.size = _i, .wire = WIRE_SHARED};
    struct world world;
    world_run(&options, move, NULL, &world);
    world_expect_ok(&world, options.size);
}

/* Nobody is through a barrier before all have come to it. */
static ls_status count_arrivals(struct rank *rank) {
    _Atomic int *arrived = rank->context;
    ls_status status = LS_OK;
    for (int i = 0; i < (SANITIZED ? 50 : 200) && !status; i++) {
        (void)__atomic_fetch_add((int *)arrived, 1, __ATOMIC_SEQ_CST);
        status = ls_group_barrier(rank->group, "all");
        ck_assert_int_ge(__atomic_load_n((int *)arrived, __ATOMIC_SEQ_CST), (i + 1) * rank->size);
    }
    return status;
}

TEST_EACH(a_barrier_waits_for_all, LAYOUTS) {
    struct world_options options = options_of(&layouts[_i]);
    struct world world;
    int arrived = 0;
    world_run(&options, count_arrivals, &arrived, &world);
    world_expect_ok(&world, options.size);
}

TESTS("collective/hosts", .seconds = 120)
