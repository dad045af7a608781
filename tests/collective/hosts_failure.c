/* Failures between and inside hosts: a rank that never comes, a rank that leaves, links that break, another call, bad
 * arguments. Every rank ends in time with the cause, also a rank that cannot see it itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

enum { SIZE = 4 };
static const int pairs[SIZE] = {0, 0, 1, 1}, crossed[SIZE] = {0, 1, 0, 1};

static struct world_options options_of(const int *hosts) {
    return (struct world_options){.size = SIZE, .wire = WIRE_SHARED, .hosts = hosts};
}

/* Ways that a call may take: one step, two steps on private and on shared memory. */
enum { WAYS = 3 };
struct trial {
    int way, victim;
};

static size_t count_of(int way) {
    return way ? 300000 : 5;
}

static ls_status take(struct rank *rank, int way, float **data) {
    void *memory = NULL;
    ls_status status = ls_group_share(rank->group, count_of(way) * sizeof(float), &memory);
    *data = memory;
    if (status || way == 2) return status;
    ls_group_unshare(rank->group, memory);
    *data = calloc(count_of(way), sizeof(float));
    ck_assert_ptr_nonnull(*data);
    return LS_OK;
}

static void give(struct rank *rank, int way, float *data) {
    if (way == 2)
        ls_group_unshare(rank->group, data);
    else
        free(data);
}

static ls_status reduce(struct rank *rank, float *data, size_t count) {
    const void *input = data;
    void *output = data;
    const struct ls_all_reduce call = {.name = "gradients", .count = count, .inputs = &input, .outputs = &output};
    return ls_group_all_reduce(rank->group, &call);
}

/* As a process that ends: its links close. */
static void leave(struct rank *rank) {
    ls_group_free(rank->group);
    rank->group = NULL;
}

/* ---- a rank that never comes ---- */

static ls_status absent_rank(struct rank *rank) {
    const struct trial *trial = rank->context;
    float *data;
    ls_status status = take(rank, trial->way, &data);
    if (!status && rank->rank != trial->victim) status = reduce(rank, data, count_of(trial->way));
    give(rank, trial->way, data);
    (void)pthread_barrier_wait(rank->barrier); /* links stay open until all have given up */
    return status;
}

TEST_EACH(an_absent_rank_is_named_on_every_host, (WAYS * SIZE)) {
    struct trial trial = {_i / SIZE, _i % SIZE};
    struct world_options options = options_of(_i & 1 ? crossed : pairs);
    options.timeout = 0.4;
    struct world world;
    int64_t start = ls_now();
    world_run(&options, absent_rank, &trial, &world);
    assert_within(start, 3);
    char named[64];
    (void)snprintf(named, sizeof(named), "for rank %d (has not come to this call", trial.victim);
    for (int i = 0; i < SIZE; i++) {
        if (i == trial.victim) continue;
        ck_assert_int_eq(world.ranks[i].status, LS_DEADLINE_EXCEEDED);
        ck_assert_msg(strstr(world.ranks[i].error, named) != NULL, "rank %d: %s", i, world.ranks[i].error);
    }
}

/* ---- a rank that goes ---- */

static ls_status leaving(struct rank *rank) {
    const struct trial *trial = rank->context;
    float *data;
    ls_status status = take(rank, trial->way, &data);
    for (int i = 0; !status && i < (rank->rank == trial->victim ? 3 : 4); i++)
        status = reduce(rank, data, count_of(trial->way));
    give(rank, trial->way, data);
    leave(rank);
    return status;
}

static void expect_lost(const struct world *world, int victim) {
    char named[64];
    int count = 0;
    (void)snprintf(named, sizeof(named), "lost the connection to rank %d", victim);
    for (int i = 0; i < SIZE; i++) {
        if (i == victim) continue;
        ck_assert_msg(world->ranks[i].status == LS_UNAVAILABLE, "rank %d: %d %s", i, world->ranks[i].status,
                      world->ranks[i].error);
        count += strstr(world->ranks[i].error, named) != NULL;
    }
    ck_assert_int_ge(count, 1);
}

TEST_EACH(a_rank_that_leaves_is_named, (WAYS * SIZE)) {
    struct trial trial = {_i / SIZE, _i % SIZE};
    struct world_options options = options_of(_i & 1 ? crossed : pairs);
    struct world world;
    int64_t start = ls_now();
    world_run(&options, leaving, &trial, &world);
    assert_within(start, 4);
    assert_ok(world.ranks[trial.victim].status);
    expect_lost(&world, trial.victim);
}

static ls_status breaking(struct rank *rank) {
    const struct trial *trial = rank->context;
    float *data;
    ls_status status = take(rank, trial->way, &data);
    for (int i = 0; !status && i < 100; i++) status = reduce(rank, data, count_of(trial->way));
    if (data) give(rank, trial->way, data);
    leave(rank);
    return status;
}

/* The last byte that crosses from one host to another may lie in a frame, or in the middle of the data. */
TEST_EACH(links_that_break_between_hosts, WAYS * 4) {
    static const size_t budgets[] = {3000, 3001, 50000, 654321};
    struct trial trial = {_i % WAYS, 0};
    for (int rank = 0; rank < SIZE; rank++) {
        struct world_options options = options_of(pairs);
        options.break_rank = rank;
        options.break_after = budgets[_i / WAYS];
        struct world world;
        int64_t start = ls_now();
        world_run(&options, breaking, &trial, &world);
        assert_within(start, 5);
        bool all = true;
        for (int i = 0; i < SIZE; i++) all &= world.ranks[i].status == LS_OK;
        if (all) continue; /* one step: the links of some ranks carry nothing */
        for (int i = 0; i < SIZE; i++)
            ck_assert_msg(world.ranks[i].status == LS_UNAVAILABLE && strstr(world.ranks[i].error, "rank "),
                          "way %d, budget %zu, breaks %d, rank %d: %d %s", trial.way, options.break_after, rank, i,
                          world.ranks[i].status, world.ranks[i].error);
    }
}

/* ---- another call ---- */

struct call {
    enum { ALL_REDUCE, BROADCAST, ALL_GATHER, BARRIER } kind;
    ls_communication communication;
    size_t fewer; /* elements than 4 */
    int root;
};
struct mismatch {
    const char *field;
    struct call others, strays;
    bool strays_are[SIZE];
};

static ls_status make(struct rank *rank, const struct call *call) {
    static const size_t parts[SIZE] = {1, 1, 1, 1};
    double data[4] = {0}, results[4];
    const void *input = data;
    void *output = results;
    const struct ls_all_reduce reduction = {.name = "x",
                                            .communication = call->communication,
                                            .count = 4 - call->fewer,
                                            .inputs = &input,
                                            .outputs = &output};
    switch (call->kind) {
    case ALL_REDUCE:
        return ls_group_all_reduce(rank->group, &reduction);
    case BROADCAST:
        return ls_group_broadcast(rank->group, LS_BROADCAST("x", data, 4 - call->fewer, LS_FLOAT32, call->root));
    case ALL_GATHER:
        return ls_group_all_gather(rank->group, LS_ALL_GATHER("x", data, results, parts));
    default:
        return ls_group_barrier(rank->group, "x");
    }
}

static ls_status differ(struct rank *rank) {
    const struct mismatch *mismatch = rank->context;
    return make(rank, mismatch->strays_are[rank->rank] ? &mismatch->strays : &mismatch->others);
}

static const struct mismatch mismatches[] = {
    {"count", {0}, {.fewer = 1}, {0}},
    {"kind", {0}, {.kind = BROADCAST}, {0}},
    {"kind", {0}, {.kind = BARRIER}, {0}},
    {"kind", {0}, {.kind = ALL_GATHER}, {0}},
    {"kind", {.kind = BARRIER}, {.kind = ALL_GATHER}, {0}},
    {"communication", {0}, {.communication = LS_RING}, {0}},
    {"root", {.kind = BROADCAST}, {.kind = BROADCAST, .root = 1}, {0}},
    {"root", {.kind = BROADCAST, .root = 3}, {.kind = BROADCAST, .root = 1}, {0}},
    {"count", {.kind = BROADCAST}, {.kind = BROADCAST, .fewer = 2}, {0}},
};

static void expect_named(const struct mismatch *mismatch, const int *hosts) {
    struct mismatch made = *mismatch;
    char differs[64];
    struct world world;
    struct world_options options = options_of(hosts);
    (void)snprintf(differs, sizeof(differs), "%s differs", mismatch->field);
    int64_t start = ls_now();
    world_run(&options, differ, &made, &world);
    assert_within(start, 3);
    for (int i = 0; i < SIZE; i++)
        ck_assert_msg(world.ranks[i].status == LS_INVALID_ARGUMENT && strstr(world.ranks[i].error, differs),
                      "strays %d%d%d%d, rank %d: %d %s, not %s", made.strays_are[0], made.strays_are[1],
                      made.strays_are[2], made.strays_are[3], i, world.ranks[i].status, world.ranks[i].error, differs);
}

/* Any one rank, and the two of a host. */
TEST_EACH(every_rank_names_the_difference, COUNT_OF(mismatches)) {
    struct mismatch mismatch = mismatches[_i];
    for (int strays = 1; strays < 1 << SIZE; strays++) {
        if (__builtin_popcount((unsigned)strays) > 2) continue;
        for (int i = 0; i < SIZE; i++) mismatch.strays_are[i] = strays >> i & 1;
        expect_named(&mismatch, strays & 1 ? pairs : crossed);
    }
}

/* ---- told ---- */

static ls_status one_gives_up(struct rank *rank) {
    (void)pthread_barrier_wait(rank->barrier); /* all are connected */
    if (rank->rank == 3) ls_abort_raise(rank->abort, LS_DATA_LOSS, "its disk is gone");
    ls_status status = ls_group_barrier(rank->group, "x");
    (void)pthread_barrier_wait(rank->barrier);
    return status;
}

/* Nobody leaves, and nobody waits for the deadline: the cause comes over the links, or by the control plane. */
TEST_EACH(who_fails_alone_tells_the_others, 8) {
    static const int three[SIZE] = {0, 1, 1, 2};
    static const int *const hosts[] = {NULL, NULL, NULL, NULL, NULL, pairs, crossed, three};
    static const enum wire wires[] = {WIRE_LOCAL,  WIRE_TCP,    WIRE_ODD,    WIRE_RING,
                                      WIRE_SHARED, WIRE_SHARED, WIRE_SHARED, WIRE_SHARED};
    struct world_options options = {.size = SIZE, .wire = wires[_i], .hosts = hosts[_i], .tells = true};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, one_gives_up, NULL, &world);
    assert_within(start, 2);
    for (int i = 0; i < SIZE; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_DATA_LOSS);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "its disk is gone"));
        ck_assert(i == 3 || !strncmp(world.ranks[i].error, "rank 3: ", 8));
    }
}

TESTS("collective/hosts_failure", .seconds = 120)
