/* Servers that keep variables, as threads, against one update of the whole: random variables, buckets, optimizers,
 * workers and leaves, over generations whose servers are others. The bits are equal after every step. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "collective/collectives.h"
#include "collective/servers/pull.h"
#include "collective/schedule/fold.h"
#include "collective/world.h"
#include "device/device.h"
#include "property/draw.h"
#include "store/fleet.h"
#include "store/layout.h"
#include "store/memory_check.h"
#include "store/store.h"

enum { CASES = SANITIZED ? 6 : 12, GENERATIONS = 4, STEPS = 2, MOST_PARTS = 6, MOST_WORKERS = 4, MOST_SERVERS = 5 };
enum { MOST_LEAVES = 2 * MOST_WORKERS };

struct trial {
    struct draw draw;
    struct ls_terms_model terms;
    struct ls_range ranges[MOST_PARTS];
    struct ls_blob_part parts[MOST_PARTS];
    struct ls_optimizer_step step;
    int workers, first[MOST_WORKERS + MOST_SERVERS + 1];
    float *leaves[MOST_LEAVES];  /* [count] the present step's gradients */
    float *copies[MOST_WORKERS]; /* [count] each worker's variables */
    int64_t generation;
    bool far;       /* servers keep the version before the generation's first step, and not before each */
    int64_t before; /* the version that they keep */
    bool taken;     /* servers have taken all */
    struct ls_shard_part parts_of[1 + LS_MAX_MOMENTS]; /* nothing is new; on rank 0 with copies */
    /* the whole, now and in that version */
    float *blobs[2][1 + LS_MAX_MOMENTS], *gradients;
};

static float draw_float_of(struct draw *draw) {
    return (float)((double)draw_below(draw, 2001) - 1000) / 500;
}

static float *new_blob(size_t count) {
    float *blob = ls_alloc_aligned(count * sizeof(float));
    ck_assert_ptr_nonnull(blob);
    return blob;
}

static ls_optimizer draw_rule(struct draw *draw) {
    const ls_optimizer rules[] = {
        {LS_OPTIMIZER_SGD, 0.1F},
        {LS_OPTIMIZER_SGD, 0.1F, .momentum = 0.9F, .nesterov = true},
        {LS_OPTIMIZER_ADAM, 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-3F, .torch_epsilon = true},
        {LS_OPTIMIZER_RMSPROP, 0.01F, .momentum = 0.5F, .centered = true, .rho = 0.9F, .epsilon = 1e-7F},
        {LS_OPTIMIZER_LAMB, 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F},
    };
    ls_optimizer rule = rules[draw_below(draw, sizeof(rules) / sizeof(rules[0]))];
    float *clips[] = {&rule.clipnorm, &rule.global_clipnorm, &rule.clipvalue};
    if (draw_once_in(draw, 2)) *clips[draw_below(draw, 3)] = 0.5F;
    if (draw_once_in(draw, 3)) rule.weight_decay = 0.01F;
    return rule;
}

static int moments_of(const ls_optimizer *rule) {
    if (rule->kind == LS_OPTIMIZER_SGD) return rule->momentum > 0;
    return rule->kind == LS_OPTIMIZER_RMSPROP ? 3 : 2;
}

static int32_t op_of(const ls_optimizer *rule) {
    static const enum ls_op_kind kinds[] = {[LS_OPTIMIZER_SGD] = LS_OP_SGD,
                                            [LS_OPTIMIZER_ADAM] = LS_OP_ADAM,
                                            [LS_OPTIMIZER_RMSPROP] = LS_OP_RMSPROP,
                                            [LS_OPTIMIZER_LAMB] = LS_OP_LAMB};
    return (int32_t)kinds[rule->kind];
}

static void draw_terms(struct trial *trial) {
    struct draw *draw = &trial->draw;
    struct ls_terms_model *terms = &trial->terms;
    layout_draw(draw, MOST_PARTS, 9000, terms, trial->parts, trial->ranges);
    for (size_t i = 0; i < terms->part_count; i++) trial->parts[i].l2 = draw_once_in(draw, 3) ? 0.01F : 0;
    terms->model = 1 + (int64_t)draw_below(draw, 3);
}

static void draw_trial(struct trial *trial, uint64_t seed, uint64_t stream) {
    *trial = (struct trial){.draw = draw_from(seed, stream)};
    struct draw *draw = &trial->draw;
    draw_terms(trial);
    trial->step.rule = draw_rule(draw);
    trial->terms.kind = op_of(&trial->step.rule);
    trial->terms.moments = moments_of(&trial->step.rule);
    trial->workers = 1 + (int)draw_below(draw, MOST_WORKERS);
    for (int i = 0; i < trial->workers; i++) trial->first[i + 1] = trial->first[i] + 1 + (int)draw_below(draw, 2);
    size_t count = trial->terms.count;
    for (int i = 0; i < 2 * (1 + LS_MAX_MOMENTS); i++) trial->blobs[i % 2][i / 2] = new_blob(count);
    for (int i = 0; i < MOST_LEAVES; i++) trial->leaves[i] = new_blob(count);
    for (int i = 0; i < MOST_WORKERS; i++) trial->copies[i] = new_blob(count);
    trial->gradients = new_blob(count);
    for (int m = 0; m < LS_MAX_MOMENTS; m++) trial->parts_of[1 + m].copy = new_blob(count);
    for (size_t v = 0; v < trial->terms.part_count; v++)
        for (size_t i = 0; i < trial->parts[v].count; i++)
            trial->blobs[0][0][trial->parts[v].offset + i] = draw_float_of(draw);
    for (int i = 0; i < MOST_WORKERS; i++) memcpy(trial->copies[i], trial->blobs[0][0], count * sizeof(float));
}

static void free_trial(struct trial *trial) {
    for (int i = 0; i < 2 * (1 + LS_MAX_MOMENTS); i++) ls_free(trial->blobs[i % 2][i / 2]);
    for (int i = 0; i < MOST_LEAVES; i++) ls_free(trial->leaves[i]);
    for (int i = 0; i < MOST_WORKERS; i++) ls_free(trial->copies[i]);
    ls_free(trial->gradients);
    for (int m = 0; m < LS_MAX_MOMENTS; m++) ls_free(trial->parts_of[1 + m].copy);
}

/* ---- the whole ---- */

static void draw_gradients(struct trial *trial) {
    for (int leaf = 0; leaf < trial->first[trial->workers]; leaf++)
        for (size_t v = 0; v < trial->terms.part_count; v++)
            for (size_t i = 0; i < trial->parts[v].count; i++)
                trial->leaves[leaf][trial->parts[v].offset + i] = draw_float_of(&trial->draw);
}

static void keep_whole(struct trial *trial) {
    for (int i = 0; i < 1 + LS_MAX_MOMENTS; i++)
        memcpy(trial->blobs[1][i], trial->blobs[0][i], trial->terms.count * sizeof(float));
    trial->before = trial->step.iteration - 1;
}

static void update_whole(struct trial *trial) {
    int leaves = trial->first[trial->workers], devices;
    size_t count = trial->terms.count;
    struct ls_device *device[LS_MAX_LOCAL_DEVICES];
    struct ls_thread_state before;
    const ls_shape shape = LS_SHAPE((int64_t)count);
    struct ls_op op = {.kind = (enum ls_op_kind)trial->terms.kind,
                       .step = &trial->step,
                       .variables = trial->parts,
                       .variable_count = trial->terms.part_count};
    const struct ls_fold fold = {.n = leaves, .count = leaves, .data = (const void *const *)trial->leaves};
    ls_fold_tree(LS_SUM, LS_FLOAT32, fold, trial->gradients, count);
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){trial->blobs[0][0], LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){trial->gradients, LS_FLOAT32, shape, 0};
    for (int m = 0; m < trial->terms.moments; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] = (struct ls_tensor){trial->blobs[0][1 + m], LS_FLOAT32, shape, 0};
    assert_ok(ls_devices_open("cpu:0", 1, device, &devices));
    assert_ok(device[0]->ops->build(device[0], &op));
    assert_ok(device[0]->ops->enter(device[0], &before));
    assert_ok(op.run(&op));
    device[0]->ops->leave(device[0], &before);
    device[0]->ops->discard(device[0], &op);
    ls_device_close(device[0]);
}

static void take_back(struct trial *trial) {
    size_t count = trial->terms.count;
    for (int i = 0; i < 1 + LS_MAX_MOMENTS; i++) memcpy(trial->blobs[0][i], trial->blobs[1][i], count * sizeof(float));
    for (int i = 0; i < MOST_WORKERS; i++) memcpy(trial->copies[i], trial->blobs[0][0], count * sizeof(float));
    trial->step.iteration = trial->before;
}

/* ---- a worker ---- */

static ls_status push_all(struct trial *trial, struct ls_store *store, int rank) {
    const float *arrays[2] = {NULL, NULL};
    ls_status status = LS_OK;
    for (size_t b = 0; b < trial->terms.bucket_count && !status; b++) {
        for (int leaf = trial->first[rank]; leaf < trial->first[rank + 1]; leaf++)
            arrays[leaf - trial->first[rank]] = trial->leaves[leaf] + trial->ranges[b].begin;
        status = ls_store_push(store, b, trial->first, arrays, LS_COMPRESS_NONE);
    }
    return status;
}

/* Rank 0 draws what all compute with, and looks at what all have, between two meetings of the threads. */
static ls_status step_once(struct rank *rank, struct ls_store *store, int number) {
    struct trial *trial = rank->context;
    bool last = number + 1 == STEPS, keep = !trial->far || !number;
    size_t count = trial->terms.count;
    if (!rank->rank) {
        trial->step.iteration++;
        draw_gradients(trial);
        if (keep) keep_whole(trial);
        update_whole(trial);
    }
    (void)pthread_barrier_wait(rank->barrier);
    ls_status status = push_all(trial, store, rank->rank);
    const struct ls_store_stepping stepping = {.step = &trial->step,
                                               .keep = keep,
                                               .array = trial->copies[rank->rank],
                                               .parts = last && !rank->rank ? trial->parts_of : NULL};
    if (!status) status = ls_store_step(store, &stepping);
    (void)pthread_barrier_wait(rank->barrier);
    if (status || rank->rank) return status;
    for (int i = 0; i < trial->workers; i++)
        ck_assert_msg(!memcmp(trial->copies[i], trial->blobs[0][0], count * sizeof(float)), "the variables of rank %d",
                      i);
    for (int m = 0; m < trial->terms.moments && last; m++)
        ck_assert_msg(!memcmp(trial->parts_of[1 + m].copy, trial->blobs[0][1 + m], count * sizeof(float)), "moment %d",
                      m + 1);
    return LS_OK;
}

static ls_status work(struct rank *rank) {
    struct trial *trial = rank->context;
    struct ls_store *store = NULL;
    const struct ls_store_config config = {.group = ls_group_assisted(rank->group),
                                           .terms = trial->terms,
                                           .generation = trial->generation,
                                           .version = trial->step.iteration,
                                           .parts = trial->taken ? trial->parts_of : NULL,
                                           .variables = trial->copies[rank->rank]};
    ls_status status = ls_store_open(&config, &store);
    for (int i = 0; i < STEPS; i++) {
        (void)pthread_barrier_wait(rank->barrier);
        if (!status) status = step_once(rank, store, i);
    }
    ls_store_free(store);
    return status;
}

/* ---- generations ---- */

/* One server is lost where another one has its part, or where there are no moments; one or more come. */
static void change_servers(struct trial *trial, struct fleet *fleet, int copies) {
    struct draw *draw = &trial->draw;
    bool may = fleet->count > 1 && (copies > 1 || !trial->terms.moments);
    if (may && draw_once_in(draw, 2)) fleet_lose(fleet, draw);
    if (!fleet->count || (fleet->count < MOST_SERVERS && draw_once_in(draw, 2))) fleet_add(fleet);
    if (fleet->count < MOST_SERVERS && draw_once_in(draw, 3)) fleet_add(fleet);
    if (draw_once_in(draw, 4)) { /* they may stand in another order */
        struct ls_keeper *first = fleet->keepers[0];
        fleet->keepers[0] = fleet->keepers[fleet->count - 1];
        fleet->keepers[fleet->count - 1] = first;
    }
}

static void run_generation(struct trial *trial, struct fleet *fleet) {
    struct world world;
    trial->generation++;
    trial->far = draw_once_in(&trial->draw, 2);
    fleet_begin(fleet, trial->generation);
    const struct world_options options = {.size = trial->workers,
                                          .servers = fleet->count,
                                          .keeping = fleet->keeping,
                                          .wire = (enum wire)draw_below(&trial->draw, WIRE_SHARED)};
    world_run(&options, work, trial, &world);
    world_expect_ok(&world, trial->workers);
    trial->taken = true;
}

static void run_trial(uint64_t seed, uint64_t stream) {
    struct trial trial;
    struct fleet fleet = {.count = 0};
    (void)printf("# case %llu of seed %llu\n", (unsigned long long)stream, (unsigned long long)seed);
    draw_trial(&trial, seed, stream);
    for (int g = 0; g < GENERATIONS; g++) {
        int copies = trial.terms.replicas < fleet.count ? trial.terms.replicas : fleet.count;
        change_servers(&trial, &fleet, copies);
        trial.terms.replicas = 1 + (int)draw_below(&trial.draw, 3);
        if (g && draw_once_in(&trial.draw, 2)) take_back(&trial);
        run_generation(&trial, &fleet);
    }
    fleet_end(&fleet);
    free_trial(&trial);
}

TEST(servers_give_the_bits_of_one_update) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) run_trial(seed, i);
}

TEST(a_lost_moment_is_named) {
    struct trial trial;
    struct fleet fleet = {.count = 0};
    struct world world;
    uint64_t stream = 0;
    do draw_trial(&trial, 1, stream++);
    while (!trial.terms.moments && (free_trial(&trial), true));
    trial.terms.replicas = 1;
    fleet_add(&fleet);
    run_generation(&trial, &fleet);
    fleet_lose(&fleet, &trial.draw);
    fleet_add(&fleet);
    fleet_begin(&fleet, ++trial.generation);
    const struct world_options options = {.size = trial.workers, .servers = 1, .keeping = fleet.keeping};
    world_run(&options, work, &trial, &world);
    for (int i = 0; i < trial.workers; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "the only copy of the optimizer's moments"));
    }
    fleet_lose(&fleet, &trial.draw);
    free_trial(&trial);
}

/* ---- a server that owns nothing ---- */

enum { MANY_WORKERS = 8, WHOLE = 400 /* bytes, all of them on the first server */ };
struct late {
    atomic_bool has_made; /* the step */
    const struct ls_pulled *part;
};

static ls_status pull_all(struct ls_group *group, const struct ls_pulled *part, unsigned char *array) {
    const struct ls_pull pull = {.name = "variables", .parts = part, .count = 1, .to = -1, .array = array};
    return ls_group_pull(group, &pull);
}

/* The last server takes its time. */
static ls_status make_step(void *context, struct ls_group *group, const struct ls_frame *frame) {
    struct late *late = context;
    int64_t number;
    ls_status status = ls_group_broadcast_directly(group, frame->name, LS_INT64, &number, 1);
    if (ls_group_rank(group) > MANY_WORKERS) (void)usleep(100000);
    atomic_store(&late->has_made, true);
    return status ? status : pull_all(group, late->part, NULL);
}

static ls_status take_step(struct rank *rank) {
    struct late *late = rank->context;
    struct ls_group *group = ls_group_assisted(rank->group);
    unsigned char array[WHOLE];
    int64_t number = 1;
    ls_status status = ls_group_broadcast_directly(group, "step", LS_INT64, &number, 1);
    if (!status) status = pull_all(group, late->part, array);
    for (int i = 0; i < 2 && !status; i++) ck_assert_msg(atomic_load(&late[i].has_made), "server %d lags behind", i);
    return status;
}

TEST(a_worker_has_what_every_server_has_made) {
    static const unsigned char made[WHOLE];
    const struct ls_stripe owned[] = {{0, WHOLE}, {WHOLE, 0}};
    const struct ls_pulled part = {owned, made};
    struct late late[2] = {{.part = &part}, {.part = &part}};
    const struct ls_keeping keeping[] = {{make_step, &late[0]}, {make_step, &late[1]}};
    struct world world;
    const struct world_options options = {.size = MANY_WORKERS, .servers = 2, .keeping = keeping};
    world_run(&options, take_step, late, &world);
    world_expect_ok(&world, MANY_WORKERS);
}

/* A holding has the bytes that were measured, and with as many servers as suffice each fits. */
TEST(memory_is_known_before_it_is_taken) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial trial;
        draw_trial(&trial, seed, i);
        const struct ls_terms_model *terms = &trial.terms;
        int servers = 1 + (int)draw_below(&trial.draw, MOST_SERVERS);
        size_t rings = ls_memory_check_needed(terms, trial.workers, 1, 0) - ls_holding_measure(terms, 1, 0);
        for (int s = 0; s < servers; s++) {
            struct ls_holding *holding;
            assert_ok(ls_holding_new(terms, servers, s, &holding));
            ck_assert_uint_eq(ls_holding_bytes(holding, terms->moments), ls_holding_measure(terms, servers, s));
            ls_holding_free(holding);
        }
        size_t allowed = rings + ls_holding_measure(terms, 1, 0) / (1 + draw_below(&trial.draw, 3));
        int enough = ls_memory_check_suffices(terms, trial.workers, servers, allowed);
        ck_assert_int_eq(ls_memory_check_suffices(terms, trial.workers, servers, rings), 0);
        for (int s = 0; s < enough; s++)
            ck_assert_uint_le(ls_memory_check_needed(terms, trial.workers, enough, s), allowed);
        if (enough) ck_assert_int_gt(enough, servers);
        free_trial(&trial);
    }
}

/* The second of two servers has too little: all workers hear it from there. */
TEST(a_part_that_does_not_fit_is_named) {
    struct trial trial;
    struct fleet fleet = {.count = 0};
    struct world world;
    uint64_t stream = 0;
    do draw_trial(&trial, 3, stream++);
    while (trial.terms.count < 4096 && (free_trial(&trial), true));
    trial.terms.replicas = 1;
    for (int s = 0; s < 2; s++) fleet_add(&fleet);
    size_t needed = ls_memory_check_needed(&trial.terms, trial.workers, 2, 1);
    ls_keeper_limit(fleet.keepers[1], (struct ls_memory_limit){needed - 1, 1});
    trial.generation++;
    fleet_begin(&fleet, trial.generation);
    const struct world_options options = {
        .size = trial.workers, .servers = 2, .keeping = fleet.keeping, .servers_fail = true};
    world_run(&options, work, &trial, &world);
    for (int i = 0; i < trial.workers; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_RESOURCE_EXHAUSTED);
        char text[96];
        (void)snprintf(text, sizeof(text), "rank %d, a parameter server of 2, needs %zu bytes", trial.workers + 1,
                       needed);
        ck_assert_msg(strstr(world.ranks[i].error, text), "%s", world.ranks[i].error);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "its cgroup allows"));
    }
    fleet_end(&fleet);
    free_trial(&trial);
}

TESTS("store/store", .seconds = 120)
