/* Broadcast from every root, all-gather with uneven and empty parts, barrier; sequences of mixed calls. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000, 4099, MANY(70001)};
#define COUNT_COUNT (sizeof(counts) / sizeof(counts[0]))

static int32_t pattern(int rank, size_t index) {
    return (int32_t)((uint32_t)rank * 2654435761U + (uint32_t)index * 40503U);
}

static ls_status broadcast_once(struct rank *rank, int root, size_t count) {
    int32_t *data = malloc(count * 4 + 4);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < count; i++) data[i] = pattern(rank->rank, i);
    data[count] = -77;
    ls_status status = ls_group_broadcast(rank->group, LS_BROADCAST("weights", data, count, LS_INT32, root));
    size_t wrong = 0; /* one assertion for all elements: each costs a write */
    for (size_t i = 0; !status && i < count; i++) wrong += data[i] != pattern(root, i);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(data[count], -77);
    free(data);
    return status;
}

static ls_status broadcast_all(struct rank *rank) {
    for (int root = 0; root < rank->size; root++)
        for (size_t i = 0; i < COUNT_COUNT; i++) {
            ls_status status = broadcast_once(rank, root, counts[i]);
            if (status) return status;
        }
    return LS_OK;
}

TEST_RANGE(broadcast_from_every_root, 1, 9) {
    for (int wire = WIRE_LOCAL; wire <= WIRE_TCP; wire++) {
        struct world_options options = {.size = _i, .wire = (enum wire)wire, .segment = wire ? 8192 : 0};
        struct world world;
        world_run(&options, broadcast_all, NULL, &world);
        world_expect_ok(&world, options.size);
    }
}

/* Rank r contributes as many as this; some ranks nothing. */
static size_t part(int shape, int rank) {
    static const size_t parts[][8] = {{0, 0, 0, 0, 0, 0, 0, 0},
                                      {1, 1, 1, 1, 1, 1, 1, 1},
                                      {3, 0, 5, 1, 0, 2, 9, 4},
                                      {0, 0, 0, 1, 0, 0, 0, 0},
                                      {70001, 3, 0, 9000, 1, 2, 3, 4}};
    return parts[shape][rank];
}
enum { SHAPES = 5 };

static ls_status gather_once(struct rank *rank, int shape, bool in_place) {
    size_t parts[MAX_RANKS], total = 0, before = 0;
    for (int i = 0; i < rank->size; i++) {
        if (i == rank->rank) before = total;
        total += parts[i] = part(shape, i);
    }
    int32_t *output = malloc(total * 4 + 4), *own = malloc(parts[rank->rank] * 4 + 4);
    ck_assert(output && own);
    int32_t *input = in_place ? output + before : own;
    for (size_t i = 0; i < parts[rank->rank]; i++) input[i] = pattern(rank->rank, i);
    output[total] = -77;
    ls_status status = ls_group_all_gather(rank->group, LS_ALL_GATHER("parts", input, output, parts, LS_INT32));
    const int32_t *at = output;
    size_t wrong = 0;
    for (int source = 0; !status && source < rank->size; source++)
        for (size_t i = 0; i < parts[source]; i++) wrong += *at++ != pattern(source, i);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(output[total], -77);
    free(output);
    free(own);
    return status;
}

static ls_status gather_all(struct rank *rank) {
    for (int shape = 0; shape < SHAPES; shape++)
        for (int in_place = 0; in_place < 2; in_place++) {
            ls_status status = gather_once(rank, shape, in_place);
            if (status) return status;
        }
    return LS_OK;
}

TEST_RANGE(all_gather_of_uneven_parts, 1, 9) {
    for (int wire = WIRE_LOCAL; wire <= WIRE_TCP; wire++) {
        struct world_options options = {.size = _i, .wire = (enum wire)wire};
        struct world world;
        world_run(&options, gather_all, NULL, &world);
        world_expect_ok(&world, options.size);
    }
}

/* Nobody leaves a barrier before all have come. */
static ls_status barriers(struct rank *rank) {
    atomic_int *arrived = rank->context;
    for (int round = 1; round <= 50; round++) {
        atomic_fetch_add(arrived, 1);
        ls_status status = ls_group_barrier(rank->group, "epoch");
        if (status) return status;
        ck_assert_int_ge(atomic_load(arrived), round * rank->size);
    }
    return LS_OK;
}

TEST_RANGE(barrier_waits_for_all, 1, 9) {
    atomic_int arrived = 0;
    struct world_options options = {.size = _i, .wire = WIRE_TCP};
    struct world world;
    world_run(&options, barriers, &arrived, &world);
    world_expect_ok(&world, options.size);
}

/* Different collectives in a row: a fast rank's next frame waits behind the slow rank's present one. */
static ls_status mixed(struct rank *rank) {
    for (int round = 0; round < 40; round++) {
        float value[3] = {(float)rank->rank, 1, 2}, sum[3];
        const void *inputs[1] = {value};
        void *outputs[1] = {sum};
        struct ls_all_reduce call = {.name = "metrics",
                                     .communication = round & 1 ? LS_RING : LS_AUTO,
                                     .op = LS_SUM,
                                     .dtype = LS_FLOAT32,
                                     .count = (size_t)(round & 3),
                                     .inputs = inputs,
                                     .outputs = outputs};
        ls_status status = ls_group_all_reduce(rank->group, &call);
        if (!status && call.count) ck_assert_float_eq(sum[0], (float)(rank->size * (rank->size - 1)) / 2);
        if (!status) status = broadcast_once(rank, round % rank->size, 11);
        if (!status) status = gather_once(rank, round % 4, false);
        if (!status) status = ls_group_barrier(rank->group, "round");
        if (status) return status;
    }
    return LS_OK;
}

TEST(mixed_calls_in_a_row) {
    for (int wire = WIRE_LOCAL; wire <= WIRE_RING; wire++) {
        struct world_options options = {.size = 4, .wire = (enum wire)wire};
        struct world world;
        world_run(&options, mixed, NULL, &world);
        world_expect_ok(&world, options.size);
    }
}

TESTS("collective/exchange", .seconds = 60)
