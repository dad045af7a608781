/* Calls to parameter servers go one way: a server finds that workers make unlike ones, and every task hears of it. A
 * lost link is heard of, too, by who only sends. */
#include <pthread.h>

#include "base/log.h"
#include "base/memory.h"
#include "collective/world.h"
#include "store/keeper.h"
#include "store/store.h"

enum { WORKERS = 3, SERVERS = 2, BUCKET = 4096, COUNT = 2 * BUCKET };

struct unlike {
    size_t buckets[WORKERS]; /* that a worker pushes first */
    int64_t steps;           /* of rank 0 before its steps have another number */
};

static ls_status push_and_step(struct ls_store *store, const int *first, size_t bucket, int64_t iteration) {
    static float gradients[COUNT];
    const float *leaves[] = {gradients};
    float variables[COUNT];
    const struct ls_optimizer_step step = {.rule = {LS_OPTIMIZER_SGD, 0.1F}, .iteration = iteration};
    ls_status status = LS_OK;
    for (size_t b = 0; b < 2 && !status; b++)
        status = ls_store_push(store, (bucket + b) % 2, first, leaves, LS_COMPRESS_NONE);
    const struct ls_store_stepping stepping = {.step = &step, .keep = true, .array = variables};
    return status ? status : ls_store_step(store, &stepping);
}

static ls_status make_steps(struct rank *rank) {
    const struct unlike *unlike = rank->context;
    struct ls_range ranges[] = {{BUCKET, COUNT}, {0, BUCKET}};
    struct ls_blob_part part = {.count = COUNT};
    const struct ls_terms_model terms = {1, COUNT, LS_OP_SGD, 0, 1, ranges, 2, &part, 1};
    static const int first[] = {0, 1, 2, 3, 3, 3};
    float variables[COUNT] = {0};
    struct ls_store *store = NULL;
    const struct ls_store_config config = {
        .group = ls_group_assisted(rank->group), .terms = terms, .generation = 1, .variables = variables};
    ls_status status = ls_store_open(&config, &store);
    for (int64_t i = 1; i <= 4 && !status; i++) {
        bool strays = i == 3;
        int64_t iteration = strays && !rank->rank ? i + unlike->steps : i;
        status = push_and_step(store, first, strays ? unlike->buckets[rank->rank] : 0, iteration);
    }
    ls_store_free(store);
    return status;
}

static void run_unlike(struct unlike *unlike, struct world_options options, struct world *world) {
    struct ls_log log = {0};
    struct ls_keeper *keepers[SERVERS];
    struct ls_keeping keeping[SERVERS];
    for (int i = 0; i < SERVERS; i++) {
        assert_ok(ls_keeper_new(&log, &keepers[i]));
        ls_keeper_begin(keepers[i], 1, SERVERS);
        keeping[i] = (struct ls_keeping){ls_keeper_call, keepers[i]};
    }
    options.size = WORKERS;
    options.servers = SERVERS;
    options.keeping = keeping;
    options.servers_fail = options.tells = true;
    world_run(&options, make_steps, unlike, world);
    for (int i = 0; i < SERVERS; i++) ls_keeper_free(keepers[i]);
}

TEST_RANGE(like_calls_are_made, WIRE_LOCAL, WIRE_RING + 1) {
    struct unlike unlike = {.steps = 0};
    struct world world;
    run_unlike(&unlike, (struct world_options){.wire = (enum wire)_i}, &world);
    world_expect_ok(&world, WORKERS);
}

TEST_RANGE(an_unlike_push_is_named_on_all, WIRE_LOCAL, WIRE_RING + 1) {
    for (int stray = 0; stray < WORKERS; stray++) {
        struct unlike unlike = {.steps = 0};
        struct world world;
        unlike.buckets[stray] = 1;
        run_unlike(&unlike, (struct world_options){.wire = (enum wire)_i}, &world);
        for (int r = 0; r < WORKERS; r++) {
            ck_assert_int_eq(world.ranks[r].status, LS_INVALID_ARGUMENT);
            ck_assert_msg(strstr(world.ranks[r].error, "model 1, bucket 0") &&
                              strstr(world.ranks[r].error, "model 1, bucket 1"),
                          "rank %d: %s", r, world.ranks[r].error);
        }
    }
}

TEST_RANGE(a_step_with_another_number_is_named_on_all, WIRE_LOCAL, WIRE_RING + 1) {
    struct unlike unlike = {.steps = 5};
    struct world world;
    run_unlike(&unlike, (struct world_options){.wire = (enum wire)_i}, &world);
    for (int r = 0; r < WORKERS; r++) {
        ck_assert_int_eq(world.ranks[r].status, LS_DATA_LOSS);
        ck_assert_msg(strstr(world.ranks[r].error, "rank 0 tells of step 8 of model 1"), "rank %d: %s", r,
                      world.ranks[r].error);
    }
}

/* Of a worker or of a server, after so many bytes on one link. */
TEST_EACH(a_broken_link_ends_all, 4) {
    for (int rank = 0; rank < WORKERS + SERVERS; rank++) {
        struct unlike unlike = {.steps = 0};
        struct world world;
        run_unlike(&unlike, (struct world_options){.break_rank = rank, .help_breaks_after = 9000 + 3000 * (size_t)_i},
                   &world);
        for (int r = 0; r < WORKERS; r++) {
            ck_assert_msg(world.ranks[r].status == LS_UNAVAILABLE, "rank %d: %s", r, world.ranks[r].error);
            ck_assert_msg(strstr(world.ranks[r].error, "lost the connection to rank"), "rank %d: %s", r,
                          world.ranks[r].error);
        }
    }
}

TESTS("store/unlike", .seconds = 120)
