/* Links are made where a schedule uses them: how many a rank holds after each call, that few links give the right
 * results, and that every rank ends with one named error where those that differ have no link with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collective/collectives.h"
#include "collective/group_private.h"
#include "collective/world.h"
#include "harness.h"

enum { COUNT = 4099 };
enum kind { ALL_REDUCE, RING, ALL_GATHER, BARRIER, BROADCAST, LONG_BROADCAST, REDUCE_SCATTER, NOTHING, COMPRESSED };

static int count_links(const struct ls_group *group) {
    int count = 0;
    for (int i = 0; i < group->executor.size; i++) count += group->executor.peers[i].link != NULL;
    return count;
}

static ls_status reduce(struct rank *rank, ls_communication communication, size_t count) {
    int32_t *values = calloc(COUNT, sizeof(*values));
    const void *input = values;
    void *output = values;
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < COUNT; i++) values[i] = i * (rank->rank + 1);
    const struct ls_all_reduce call = {.name = "sum",
                                       .communication = communication,
                                       .dtype = LS_INT32,
                                       .count = count,
                                       .inputs = &input,
                                       .outputs = &output};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    int sum = rank->size * (rank->size + 1) / 2, wrong = 0;
    for (int i = 0; i < (int)count; i++) wrong += values[i] != i * sum;
    ck_assert(status || !wrong);
    free(values);
    return status;
}

/* Halving-doubling does not compress. */
static ls_status reduce_compressed(struct rank *rank) {
    float value = (float)rank->rank;
    const void *input = &value;
    void *output = &value;
    const struct ls_all_reduce call = {
        .name = "sum", .count = 1, .compression = LS_COMPRESS_BF16, .inputs = &input, .outputs = &output};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    ck_assert(status || value == (float)(rank->size * (rank->size - 1) / 2));
    return status;
}

/* Rank i has i % 3 elements, i of each. */
static ls_status gather(struct rank *rank) {
    size_t counts[MAX_RANKS], at = 0;
    int32_t input[2] = {rank->rank, rank->rank}, output[2 * MAX_RANKS] = {0};
    for (int i = 0; i < rank->size; i++) counts[i] = (size_t)i % 3;
    ls_status status = ls_group_all_gather(rank->group, LS_ALL_GATHER("parts", input, output, counts, LS_INT32));
    for (int i = 0; i < rank->size && !status; i++)
        for (size_t j = 0; j < counts[i]; j++) ck_assert_int_eq(output[at++], i);
    return status;
}

static ls_status broadcast(struct rank *rank, size_t count) {
    int32_t *values = calloc(count, sizeof(*values));
    ck_assert_ptr_nonnull(values);
    values[count - 1] = rank->rank == 5 ? 77 : 0;
    ls_status status = ls_group_broadcast(rank->group, LS_BROADCAST("weights", values, count, LS_INT32, 5));
    ck_assert(status || values[count - 1] == 77);
    free(values);
    return status;
}

static ls_status scatter(struct rank *rank) {
    size_t counts[MAX_RANKS], total = 0, start = 0;
    int32_t input[3 * MAX_RANKS], output[3];
    for (int i = 0; i < rank->size; i++) {
        if (i == rank->rank) start = total;
        counts[i] = (size_t)i % 3 + 1;
        total += counts[i];
    }
    for (size_t i = 0; i < total; i++) input[i] = (int32_t)i * (rank->rank + 1);
    const struct ls_reduce_scatter call = {
        .name = "shards", .dtype = LS_INT32, .counts = counts, .input = input, .output = output};
    ls_status status = ls_group_reduce_scatter(rank->group, &call);
    for (size_t i = 0; i < counts[rank->rank] && !status; i++)
        ck_assert_int_eq(output[i], (int32_t)(start + i) * (rank->size * (rank->size + 1) / 2));
    return status;
}

struct trial {
    enum kind kind;
    enum ls_algorithm algorithm;
    int size, limit;
    int least, most; /* links of a rank */
};

static ls_status call(struct rank *rank, enum kind kind) {
    switch (kind) {
    case ALL_REDUCE:
        return reduce(rank, LS_AUTO, COUNT);
    case RING:
        return reduce(rank, LS_RING, COUNT);
    case ALL_GATHER:
        return gather(rank);
    case BARRIER:
        return ls_group_barrier(rank->group, "pause");
    case BROADCAST:
        return broadcast(rank, 1);
    case LONG_BROADCAST:
        return broadcast(rank, 100000);
    case REDUCE_SCATTER:
        return scatter(rank);
    case COMPRESSED:
        return reduce_compressed(rank);
    default:
        return reduce(rank, LS_AUTO, 0);
    }
}

static ls_status try(struct rank *rank) {
    const struct trial *trial = rank->context;
    if (trial->limit) rank->group->config.direct_limit = trial->limit;
    ls_status status = LS_OK;
    for (int i = 0; i < 3 && !status; i++) status = call(rank, trial->kind);
    int links = count_links(rank->group);
    ck_assert_msg(links >= trial->least && links <= trial->most, "kind %d: rank %d of %d holds %d links", trial->kind,
                  rank->rank, rank->size, links);
    return status;
}

static const struct trial trials[] = {
    {RING, 0, 16, 0, 2, 2},
    {RING, 0, 5, 0, 4, 4},
    {ALL_REDUCE, LS_ALGORITHM_HALVING, 16, 0, 4, 4},
    {ALL_REDUCE, LS_ALGORITHM_HALVING, 15, 0, 2, 7},
    {ALL_REDUCE, LS_ALGORITHM_DIRECT, 16, 0, 15, 15},
    {ALL_REDUCE, 0, 16, 0, 15, 15},
    {ALL_REDUCE, 0, 16, 15, 4, 4},
    {ALL_GATHER, 0, 16, 0, 2, 2},
    {ALL_GATHER, 0, 8, 0, 7, 7},
    {ALL_GATHER, 0, 9, 0, 2, 2},
    {BARRIER, 0, 16, 0, 7, 7},
    {BARRIER, 0, 11, 0, 8, 8},
    {BROADCAST, 0, 16, 0, 1, 4},
    {BROADCAST, 0, 13, 0, 1, 4},
    {LONG_BROADCAST, 0, 16, 0, 1, 2},
    {REDUCE_SCATTER, 0, 16, 0, 15, 15},
    {REDUCE_SCATTER, 0, 16, 8, 4, 4},
    {REDUCE_SCATTER, 0, 13, 8, 1, 7},
    {NOTHING, 0, 16, 0, 7, 7},
    {COMPRESSED, 0, 16, 15, 15, 15},
};

TEST_EACH(a_rank_holds_the_links_that_its_calls_use, COUNT_OF(trials)) {
    struct trial trial = trials[_i];
    for (int wire = WIRE_LOCAL; wire <= WIRE_RING; wire++) {
        struct world_options options = {.size = trial.size, .wire = (enum wire)wire, .algorithm = trial.algorithm};
        struct world world;
        world_run(&options, try, &trial, &world);
        world_expect_ok(&world, trial.size);
    }
}

/* Nobody leaves a barrier before all have come. */
static ls_status meet(struct rank *rank) {
    int *come = rank->context;
    for (int i = 1; i <= 20; i++) {
        (void)__atomic_add_fetch(come, 1, __ATOMIC_SEQ_CST);
        ls_status status = ls_group_barrier(rank->group, "meet");
        if (status) return status;
        ck_assert_int_ge(__atomic_load_n(come, __ATOMIC_SEQ_CST), i * rank->size);
    }
    return LS_OK;
}

TEST(a_barrier_of_many_waits_for_all) {
    for (int size = 9; size <= 16; size++) {
        int come = 0;
        struct world_options options = {.size = size};
        struct world world;
        world_run(&options, meet, &come, &world);
        world_expect_ok(&world, size);
    }
}

/* Ranks 3 and 11 are no neighbours of each other, nor of most others. */
static ls_status differ(struct rank *rank) {
    const enum kind *kind = rank->context;
    bool stray = rank->rank == 3 || rank->rank == 11;
    if (*kind == BARRIER) return ls_group_barrier(rank->group, stray ? "one" : "another");
    return reduce(rank, LS_RING, stray ? COUNT - 1 : COUNT);
}

TEST_EACH(a_difference_far_away_is_named_by_all, 2) {
    static enum kind kinds[] = {RING, BARRIER};
    struct world_options options = {.size = 16, .tells = true};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, differ, &kinds[_i], &world);
    assert_within(start, 5);
    for (int i = 0; i < 16; i++) {
        ck_assert_msg(world.ranks[i].status == LS_INVALID_ARGUMENT, "rank %d: %d %s", i, world.ranks[i].status,
                      world.ranks[i].error);
        ck_assert_msg(strstr(world.ranks[i].error, " differs: ") != NULL, "rank %d: %s", i, world.ranks[i].error);
    }
}

/* In one host's memory, whose ranks have links with two others at most. Of the strays one makes another call in memory,
 * the others one over links, where nobody answers. */
static ls_status differ_in_memory(struct rank *rank) {
    const int *way = rank->context;
    bool stray = rank->rank == 3 || (*way && rank->rank == 9);
    ls_status status = reduce(rank, LS_AUTO, COUNT);
    if (status) return status;
    ck_assert_int_le(count_links(rank->group), 2);
    status = reduce(rank, stray && *way ? LS_RING : LS_AUTO, stray && !*way ? 7 : COUNT);
    ck_assert_int_le(count_links(rank->group), 4);
    return status;
}

TEST_EACH(a_difference_in_memory_is_named_by_all, 2) {
    struct world_options options = {.size = 12, .wire = WIRE_SHARED, .tells = true};
    struct world world;
    int way = _i;
    int64_t start = ls_now();
    world_run(&options, differ_in_memory, &way, &world);
    assert_within(start, 5);
    for (int i = 0; i < 12; i++)
        ck_assert_msg(world.ranks[i].status == LS_INVALID_ARGUMENT && strstr(world.ranks[i].error, " differs: "),
                      "rank %d: %d %s", i, world.ranks[i].status, world.ranks[i].error);
}

static ls_status leave_early(struct rank *rank) {
    ls_status status = reduce(rank, LS_AUTO, COUNT);
    if (!status && rank->rank != 7) status = reduce(rank, LS_AUTO, COUNT);
    ls_group_free(rank->group);
    rank->group = NULL;
    return status;
}

TEST(a_rank_that_leaves_is_missed_in_memory) {
    struct world_options options = {.size = 12, .wire = WIRE_SHARED};
    struct world world;
    int64_t start = ls_now();
    int named = 0;
    world_run(&options, leave_early, NULL, &world);
    assert_within(start, 5);
    for (int i = 0; i < 12; i++) {
        if (i == 7) continue;
        ck_assert_msg(world.ranks[i].status == LS_UNAVAILABLE, "rank %d: %d %s", i, world.ranks[i].status,
                      world.ranks[i].error);
        named += strstr(world.ranks[i].error, "lost the connection to rank 7") != NULL;
    }
    ck_assert_int_ge(named, 1);
}

TESTS("collective/sparse", .seconds = 120)
