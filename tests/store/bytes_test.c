/* Bytes of a step whose table has a million rows: those of the rows that it touches, there and back, and little beside.
 */
#include <pthread.h>
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "collective/world.h"
#include "property/draw.h"
#include "store/keeper.h"
#include "store/store.h"

enum { MOST = 4, DENSE = 16, LARGE = 1000000, LARGE_WIDTH = 32, LARGE_IDS = 64 * 10 };

struct measure {
    int tasks, steps; /* tasks: workers, and as many servers */
    size_t touched;   /* rows, of all workers in all steps */
    size_t sent[MAX_RANKS][MAX_RANKS];
    pthread_mutex_t lock;
};

static ls_status measured_step(struct ls_store *store, struct draw *draw, struct ls_row_leaf *leaf, const int *first,
                               int64_t iteration) {
    int32_t ids[LARGE_IDS], places[LARGE_IDS];
    float dense[DENSE] = {0};
    const float *zeros[] = {dense};
    const struct ls_optimizer_step step = {.rule = {LS_OPTIMIZER_SGD, 0.1F}, .iteration = iteration};
    for (int i = 0; i < LARGE_IDS; i++) ids[i] = (int32_t)draw_below(draw, LARGE);
    ls_status status = ls_row_lists_unique(&(struct ls_tensor){ids, LS_INT32, LS_SHAPE(1, LARGE_IDS), 0},
                                           ls_store_servers(store), leaf, places);
    if (!status) status = ls_store_pull_rows(store, leaf, 1);
    if (!status) status = ls_store_push(store, 0, first, zeros, LS_COMPRESS_NONE);
    const struct ls_store_stepping stepping = {.step = &step, .keep = true, .array = dense};
    return status ? status : ls_store_step(store, &stepping);
}

static ls_status measure_steps(struct rank *rank) {
    struct measure *measure = rank->context;
    struct draw draw = draw_from(7, (uint64_t)rank->rank);
    struct ls_range range = {0, DENSE};
    struct ls_blob_part part = {.count = DENSE};
    struct ls_terms_table table = {LARGE, LARGE_WIDTH, {LS_FILL_CONSTANT, 0.5, 0, 0}, true};
    const struct ls_terms_model terms = {1, DENSE, LS_OP_SGD, 0, 1, &range, 1, &part, 1, &table, 1};
    int first[2 * MOST + 1];
    float dense[DENSE] = {0}, *rows = ls_alloc_array((size_t)LARGE_IDS * LARGE_WIDTH, sizeof(float));
    float *gradients = ls_alloc_array((size_t)LARGE_IDS * LARGE_WIDTH, sizeof(float));
    int32_t ids[LARGE_IDS];
    struct ls_row_leaf leaf = {ids, 0, &rows, &gradients, 0};
    struct ls_store *store = NULL;
    for (int i = 0; i <= 2 * measure->tasks; i++) first[i] = i < measure->tasks ? i : measure->tasks;
    const struct ls_store_config config = {
        .group = ls_group_assisted(rank->group), .terms = terms, .generation = 1, .variables = dense};
    ls_status status = ls_store_open(&config, &store);
    for (int i = 0; i < measure->steps && !status; i++) {
        status = measured_step(store, &draw, &leaf, first, i + 1);
        (void)pthread_mutex_lock(&measure->lock);
        measure->touched += leaf.count;
        (void)pthread_mutex_unlock(&measure->lock);
    }
    ls_store_free(store);
    ls_free(rows);
    ls_free(gradients);
    return status;
}

static void run_measure(struct measure *measure) {
    struct world world;
    struct ls_log log = {0};
    struct ls_keeper *keepers[MOST];
    struct ls_keeping keeping[MOST];
    int tasks = measure->tasks;
    for (int i = 0; i < tasks; i++) {
        assert_ok(ls_keeper_new(&log, &keepers[i]));
        ls_keeper_begin(keepers[i], 1, tasks);
        keeping[i] = (struct ls_keeping){ls_keeper_call, keepers[i]};
    }
    const struct world_options options = {.size = tasks, .servers = tasks, .keeping = keeping, .sent = measure->sent};
    world_run(&options, measure_steps, measure, &world);
    world_expect_ok(&world, tasks);
    for (int i = 0; i < tasks; i++) ls_keeper_free(keepers[i]);
}

/* Between all workers and servers, frames and the dense variables with them. */
TEST_EACH(a_step_moves_little_beside_the_rows_that_it_touches, 2) {
    static struct measure all[2][2];
    int tasks = _i ? MOST : 2;
    for (int i = 0; i < 2; i++)
        all[_i][i] = (struct measure){.tasks = tasks, .steps = i ? 11 : 1, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 2; i++) run_measure(&all[_i][i]);
    const struct measure *few = &all[_i][0], *many = &all[_i][1];
    double rows = (double)(many->touched - few->touched) * LARGE_WIDTH * sizeof(float), ways[2] = {0};
    for (int w = 0; w < tasks; w++)
        for (int s = tasks; s < 2 * tasks; s++) {
            ways[0] += (double)(many->sent[w][s] - few->sent[w][s]) / rows;
            ways[1] += (double)(many->sent[s][w] - few->sent[s][w]) / rows;
        }
    (void)printf("# %d servers, %zu rows; bytes to the servers %.4f, from them %.4f times those of the rows\n", tasks,
                 many->touched, ways[0], ways[1]);
    ck_assert(ways[0] > 1 && ways[1] > 1);
    ck_assert_double_le(ways[0], 1.15);
    ck_assert_double_le(ways[1], 1.15);
}

TESTS("store/bytes", .seconds = 120)
