/* AUTO's choice: what is found in a table, and that measuring gives every rank the same table. */
#include "collective/tuner.h"

#include <string.h>

#include "collective/group_private.h"
#include "collective/world.h"
#include "harness.h"

static ls_status measure(struct rank *rank) {
    struct ls_tuner_choice *choices = rank->context, *own = &choices[rank->rank];
    ls_status status = ls_tuner_measure(rank->group, own);
    if (status) return status;
    struct ls_tuner_choice kept = *own;
    status = ls_tuner_measure(rank->group, own); /* all bring it: nothing is measured again */
    ck_assert_mem_eq(&kept, own, sizeof(kept));
    return status;
}

static void expect_table(const struct ls_tuner_choice *choice) {
    ck_assert_int_ge(choice->row_count, 1);
    for (int i = 0; i < choice->row_count; i++) {
        const struct ls_choice_row *row = &choice->rows[i];
        ck_assert_uint_eq(row->bytes, (size_t)1024 << 2 * i);
        ck_assert_double_gt(row->microseconds[row->best], 0);
        ck_assert_double_eq(row->microseconds[LS_ALGORITHM_RING], 0); /* another order */
        for (int other = 1; other < LS_ALGORITHM_COUNT; other++)
            if (row->microseconds[other] > 0)
                ck_assert_double_le((row->best == LS_ALGORITHM_SHARED ? 0.5 : 0.9) * row->microseconds[row->best],
                                    row->microseconds[other]);
    }
}

TEST(every_rank_has_the_same_table) {
    static const enum wire wires[] = {WIRE_LOCAL, WIRE_TCP, WIRE_SHARED};
    for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
        struct ls_tuner_choice choices[3] = {0};
        struct world_options options = {.size = 3, .wire = wires[i]};
        struct world world;
        world_run(&options, measure, choices, &world);
        world_expect_ok(&world, 3);
        expect_table(&choices[0]);
        for (int rank = 1; rank < 3; rank++) {
            choices[rank].milliseconds = choices[0].milliseconds;
            ck_assert_mem_eq(&choices[0], &choices[rank], sizeof(choices[0]));
        }
        ck_assert_int_eq(choices[0].rows[0].microseconds[LS_ALGORITHM_SHARED] > 0, wires[i] == WIRE_SHARED);
    }
}

/* A rank that lost its table makes all measure anew, into equal tables. */
static ls_status forget(struct rank *rank) {
    struct ls_tuner_choice *choices = rank->context, *own = &choices[rank->rank];
    ls_status status = ls_tuner_measure(rank->group, own);
    if (rank->rank == 1) *own = (struct ls_tuner_choice){0};
    own->rows[0].bytes = 1;
    return status ? status : ls_tuner_measure(rank->group, own);
}

TEST(a_rank_without_a_table_makes_all_measure) {
    struct ls_tuner_choice choices[2] = {0};
    struct world_options options = {.size = 2};
    struct world world;
    world_run(&options, forget, choices, &world);
    world_expect_ok(&world, 2);
    expect_table(&choices[0]);
    ck_assert_mem_eq(choices[0].rows, choices[1].rows, sizeof(choices[0].rows));
}

/* As after a measurement that ended early on one rank, or that it had no part in: its table is another one. */
static ls_status differ(struct rank *rank) {
    struct ls_tuner_choice *choices = rank->context, *own = &choices[rank->rank];
    ls_status status = ls_tuner_measure(rank->group, own);
    own->rows[0].bytes = 1;
    if (rank->rank == 1) own->rows[0].microseconds[own->rows[0].best] += 0.5;
    return status ? status : ls_tuner_measure(rank->group, own);
}

TEST(a_rank_with_another_table_makes_all_measure) {
    struct ls_tuner_choice choices[3] = {0};
    struct world_options options = {.size = 3};
    struct world world;
    world_run(&options, differ, choices, &world);
    world_expect_ok(&world, 3);
    for (int rank = 0; rank < 3; rank++) {
        expect_table(&choices[rank]);
        ck_assert_mem_eq(choices[0].rows, choices[rank].rows, sizeof(choices[0].rows));
    }
}

static enum ls_algorithm find(const struct ls_tuner_choice *choice, const struct ls_group *group, size_t bytes) {
    static const int first[] = {0, 1, 2};
    const struct ls_reduction reduction = {
        .size = 2, .element = 1, .count = bytes, .first = first, .hosts = &group->hosts};
    return ls_tuner_find(choice, group, &reduction);
}

static ls_status find_some(struct rank *rank) {
    struct ls_tuner_choice choice = {
        .row_count = 2,
        .rows = {{.bytes = 1000, .best = LS_ALGORITHM_DIRECT}, {.bytes = 4000, .best = LS_ALGORITHM_SHARED}}};
    choice.rows[0].microseconds[LS_ALGORITHM_DIRECT] = 7;
    choice.rows[1].microseconds[LS_ALGORITHM_SHARED] = 1; /* not offered here */
    choice.rows[1].microseconds[LS_ALGORITHM_DIRECT] = 9;
    choice.rows[1].microseconds[LS_ALGORITHM_EXCHANGE] = 8;
    const struct ls_group *group = rank->group;
    ck_assert_int_eq(find(&choice, group, 0), LS_ALGORITHM_DIRECT);
    ck_assert_int_eq(find(&choice, group, 2000), LS_ALGORITHM_DIRECT);
    ck_assert_int_eq(find(&choice, group, 2001), LS_ALGORITHM_EXCHANGE);
    ck_assert_int_eq(find(&choice, group, (size_t)1 << 40), LS_ALGORITHM_EXCHANGE);
    const struct ls_tuner_choice nothing = {.row_count = 1, .rows = {{.bytes = 1000, .best = LS_ALGORITHM_AUTO}}};
    ck_assert_int_eq(find(&nothing, group, 65537), LS_ALGORITHM_DIRECT);
    ck_assert_int_eq(find(NULL, group, 65536), LS_ALGORITHM_EXCHANGE);
    ck_assert_int_eq(find(NULL, group, 65537), LS_ALGORITHM_DIRECT);
    return LS_OK;
}

TEST(the_nearest_row_decides) {
    struct world_options options = {.size = 2};
    struct world world;
    world_run(&options, find_some, NULL, &world);
    world_expect_ok(&world, 2);
}

TESTS("collective/tuner", .seconds = 60)
