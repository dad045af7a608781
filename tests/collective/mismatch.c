/* One rank that makes another call than the others: a named error on every rank, naming the collective, the field, both
 * values and both ranks. */
#include <stdio.h>
#include <string.h>

#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

enum { SIZE = 4, STRAY = 2 };

/* One call of any kind; what the stray rank does differently is another struct call. Left out: all_reduce
 * 'gradients/0', AUTO, sum, 4 elements of float32. */
struct call {
    enum { ALL_REDUCE, BROADCAST, ALL_GATHER, BARRIER, REDUCE_SCATTER } kind;
    const char *name;
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    ls_compression compression;
    double prescale, postscale;
    size_t fewer; /* elements than 4 */
    int root;
    const int *first;
    const size_t *counts;
};

static const char *name_of(const struct call *call) {
    return call->name ? call->name : "gradients/0";
}

static ls_status make(struct ls_group *group, const struct call *call) {
    size_t count = 4 - call->fewer;
    double values[16] = {0}, results[64] = {0};
    const void *inputs[4] = {values, values + 4, values + 8, values + 12};
    void *outputs[4] = {results, results + 16, results + 32, results + 48};
    struct ls_all_reduce reduce = {.name = name_of(call),
                                   .communication = call->communication,
                                   .op = call->op,
                                   .dtype = call->dtype,
                                   .count = count,
                                   .leaves = {call->first},
                                   .compression = call->compression,
                                   .prescale = call->prescale,
                                   .postscale = call->postscale,
                                   .inputs = inputs,
                                   .outputs = outputs};
    struct ls_reduce_scatter scatter = {.name = name_of(call),
                                        .communication = call->communication,
                                        .op = call->op,
                                        .dtype = call->dtype,
                                        .counts = call->counts,
                                        .input = values,
                                        .output = results};
    switch (call->kind) {
    case ALL_REDUCE:
        return ls_group_all_reduce(group, &reduce);
    case BROADCAST:
        return ls_group_broadcast(group, LS_BROADCAST(name_of(call), results, count, call->dtype, call->root));
    case ALL_GATHER:
        return ls_group_all_gather(group, LS_ALL_GATHER(name_of(call), values, results, call->counts, call->dtype));
    case REDUCE_SCATTER:
        return ls_group_reduce_scatter(group, &scatter);
    default:
        return ls_group_barrier(group, name_of(call));
    }
}

struct pair {
    struct call others, stray;
};

static ls_status run_pair(struct rank *rank) {
    const struct pair *pair = rank->context;
    const struct call *call = rank->rank == STRAY ? &pair->stray : &pair->others;
    ls_status status = make(rank->group, call);
    /* later calls fail at once with the same message */
    char message[1024];
    (void)snprintf(message, sizeof(message), "%s", ls_error());
    ck_assert_int_eq(ls_group_barrier(rank->group, "later"), status);
    ck_assert_str_eq(ls_error(), message);
    return status;
}

static const int two_each[] = {0, 2, 4, 6, 8}, shifted[] = {0, 1, 4, 6, 8}, more[] = {0, 2, 4, 7, 9};
static const size_t parts[] = {1, 2, 3, 2}, other_own[] = {1, 2, 4, 2}, other_far[] = {1, 1, 3, 3};

static const struct {
    const char *field, *ours, *theirs; /* as the others see it */
    struct pair pair;
} table[] = {
    {"name", "'gradients/0'", "'gradients/1'", {{0}, {.name = "gradients/1"}}},
    {"kind", "all_reduce", "broadcast", {{0}, {.kind = BROADCAST}}},
    {"kind",
     "barrier",
     "all_gather",
     {{.kind = BARRIER, .name = "x"}, {.kind = ALL_GATHER, .name = "x", .counts = parts}}},
    {"dtype", "float32", "bfloat16", {{0}, {.dtype = LS_BFLOAT16}}},
    {"op", "sum", "mean", {{0}, {.op = LS_MEAN}}},
    {"communication", "AUTO", "RING", {{0}, {.communication = LS_RING}}},
    {"compression", "none", "bf16", {{0}, {.compression = LS_COMPRESS_BF16}}},
    {"compression", "bf16", "fp16", {{.compression = LS_COMPRESS_BF16}, {.compression = LS_COMPRESS_FP16}}},
    {"prescale", "1", "0.5", {{0}, {.prescale = 0.5}}},
    {"postscale", "0.25", "1", {{.postscale = 0.25}, {0}}},
    {"count", "4", "3", {{0}, {.fewer = 1}}},
    {"count", "4", "0", {{.communication = LS_RING}, {.communication = LS_RING, .fewer = 4}}},
    {"total", "8", "9", {{.first = two_each}, {.first = more}}},
    {"layout", "", "", {{.first = two_each}, {.first = shifted}}},
    {"root", "0", "3", {{.kind = BROADCAST}, {.kind = BROADCAST, .root = 3}}},
    {"count",
     "3",
     "4",
     {{.kind = ALL_GATHER, .name = "x", .counts = parts}, {.kind = ALL_GATHER, .name = "x", .counts = other_own}}},
    {"kind",
     "all_gather",
     "reduce_scatter",
     {{.kind = ALL_GATHER, .name = "x", .counts = parts}, {.kind = REDUCE_SCATTER, .name = "x", .counts = parts}}},
    {"op",
     "sum",
     "max",
     {{.kind = REDUCE_SCATTER, .counts = parts}, {.kind = REDUCE_SCATTER, .op = LS_MAX, .counts = parts}}},
    {"communication",
     "AUTO",
     "RING",
     {{.kind = REDUCE_SCATTER, .counts = parts}, {.kind = REDUCE_SCATTER, .communication = LS_RING, .counts = parts}}},
    {"count", "8", "9", {{.kind = REDUCE_SCATTER, .counts = parts}, {.kind = REDUCE_SCATTER, .counts = other_own}}},
    {"layout", "", "", {{.kind = REDUCE_SCATTER, .counts = parts}, {.kind = REDUCE_SCATTER, .counts = other_far}}},
    {"layout",
     "",
     "",
     {{.kind = ALL_GATHER, .name = "x", .counts = (const size_t[]){2, 1, 3, 2}},
      {.kind = ALL_GATHER, .name = "x", .counts = (const size_t[]){1, 2, 3, 2}}}},
};
#define TABLE_COUNT ((int)(sizeof(table) / sizeof(table[0])))

/* "count differs: 4 on rank 0, 3 on rank 2" as rank sees the difference to the stray one, or the stray one to others.
 */
static void expect(const struct rank *rank, const char *field, const char *ours, const char *theirs) {
    ck_assert_msg(rank->status == LS_INVALID_ARGUMENT, "rank %d: %s: %s", rank->rank, ls_status_name(rank->status),
                  rank->error);
    bool stray = rank->rank == STRAY;
    char values[128];
    ck_assert_msg(strstr(rank->error, field) != NULL, "%s: %s", field, rank->error);
    if (*ours && !stray) {
        (void)snprintf(values, sizeof(values), "%s differs: %s on rank %d, %s on rank %d", field, ours, rank->rank,
                       theirs, STRAY);
        ck_assert_msg(strstr(rank->error, values) != NULL, "want '%s' in: %s", values, rank->error);
    }
    (void)snprintf(values, sizeof(values), " on rank %d", STRAY);
    ck_assert_msg(strstr(rank->error, values) != NULL, "want '%s' in: %s", values, rank->error);
}

TEST_EACH(every_rank_names_the_difference, TABLE_COUNT) {
    for (int wire = WIRE_LOCAL; wire <= WIRE_SHARED; wire++) {
        struct world_options options = {.size = SIZE, .wire = (enum wire)wire};
        struct pair pair = table[_i].pair;
        struct world world;
        world_run(&options, run_pair, &pair, &world);
        for (int i = 0; i < SIZE; i++) {
            const char *quoted = name_of(i == STRAY ? &pair.stray : &pair.others);
            ck_assert_msg(strstr(world.ranks[i].error, quoted) != NULL, "%s", world.ranks[i].error);
            bool layout = !strcmp(table[_i].field, "layout");
            /* with equal totals some ranks see a count that differs before they see the layout */
            expect(&world.ranks[i],
                   layout                                 ? "differs"
                   : i == STRAY && *table[_i].ours == '3' ? "differs"
                                                          : table[_i].field,
                   table[_i].ours, table[_i].theirs);
        }
    }
}

/* Same totals, and every rank's own count right with some: still an error everywhere. */
TEST(counts_that_agree_in_part) {
    struct world_options options = {.size = SIZE};
    struct pair pair = {{.kind = ALL_GATHER, .name = "x", .counts = parts},
                        {.kind = ALL_GATHER, .name = "x", .counts = other_far}};
    struct world world;
    world_run(&options, run_pair, &pair, &world);
    for (int i = 0; i < SIZE; i++) expect(&world.ranks[i], "differs", "", "");
}

TEST(another_generation) {
    struct world_options options = {.size = SIZE, .stray_rank = STRAY, .stray_generation = 6};
    struct pair pair = {{0}, {0}};
    struct world world;
    world_run(&options, run_pair, &pair, &world);
    for (int i = 0; i < SIZE; i++) expect(&world.ranks[i], "generation", "7", "6");
}

/* The stray rank is one call ahead. */
static ls_status run_ahead(struct rank *rank) {
    ls_status status = ls_group_barrier(rank->group, "start");
    const char *name = rank->rank == STRAY ? "step 2" : "step 1";
    return status ? status : ls_group_barrier(rank->group, name);
}

TEST(a_rank_that_skips_a_call) {
    struct world_options options = {.size = SIZE};
    struct world world;
    world_run(&options, run_ahead, NULL, &world);
    for (int i = 0; i < SIZE; i++) expect(&world.ranks[i], "name", "'step 1'", "'step 2'");
}

/* Names longer than the frame's share differ by their digest. */
TEST(long_names_are_told_apart) {
    char one[200], other[200];
    memset(one, 'n', sizeof(one));
    memset(other, 'n', sizeof(other));
    one[199] = other[199] = 0;
    other[198] = 'm';
    struct world_options options = {.size = SIZE};
    struct pair pair = {{.name = one}, {.name = other}};
    struct world world;
    world_run(&options, run_pair, &pair, &world);
    for (int i = 0; i < SIZE; i++) expect(&world.ranks[i], "name", "", "");
}

TESTS("collective/mismatch", .seconds = 60)
