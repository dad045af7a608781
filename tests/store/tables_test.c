/* Tables whose rows are on servers, as threads, against one plain update of whole tables: random tables, ids with
 * duplicates, optimizers, workers and leaves, over generations whose servers are others. The bits are equal after every
 * step. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "collective/schedule/tree.h"
#include "collective/world.h"
#include "device/rule.h"
#include "property/draw.h"
#include "store/fleet.h"
#include "store/store.h"

enum { CASES = SANITIZED ? 5 : 12, GENERATIONS = 4, STEPS = 3, MOST_TABLES = 3, MOST_WORKERS = 4, MOST_SERVERS = 5 };
enum { MOST_LEAVES = 2 * MOST_WORKERS, MOST_IDS = 40, MOST_ROWS = 60, MOST_WIDTH = 9, DENSE = 16 };
enum { MOST_PARTS = (1 + LS_MAX_MOMENTS) * (1 + MOST_TABLES) };

struct trial {
    struct draw draw;
    struct ls_terms_model terms;
    struct ls_range range;
    struct ls_blob_part part;
    struct ls_terms_table tables[MOST_TABLES];
    struct ls_optimizer_step step;
    int workers, first[MOST_WORKERS + MOST_SERVERS + 1];
    /* the present step's batches, and the gradient of each id's row where it occurs */
    size_t counts[MOST_LEAVES];
    float ids[MOST_LEAVES][MOST_IDS], gradients[MOST_LEAVES][MOST_TABLES][MOST_IDS * MOST_WIDTH];
    float copies[MOST_WORKERS][DENSE];
    float *fetched;          /* [table][1 + moments][rows][width] */
    float *whole[2], *given; /* the same, now and before the newest step; and where a worker gives them */
    int64_t generation;
    enum ls_origin origin;
};

static ls_optimizer draw_rule(struct draw *draw) {
    const ls_optimizer rules[] = {
        {LS_OPTIMIZER_SGD, 0.1F},
        {LS_OPTIMIZER_SGD, 0.1F, .momentum = 0.9F},
        {LS_OPTIMIZER_SGD, 0.1F, .momentum = 0.9F, .nesterov = true},
        {LS_OPTIMIZER_ADAM, 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F},
        {LS_OPTIMIZER_RMSPROP, 0.01F, .rho = 0.9F, .epsilon = 1e-7F},
        {LS_OPTIMIZER_RMSPROP, 0.01F, .momentum = 0.5F, .centered = true, .rho = 0.9F, .epsilon = 1e-7F},
    };
    ls_optimizer rule = rules[draw_below(draw, sizeof(rules) / sizeof(rules[0]))];
    if (draw_once_in(draw, 3)) rule.weight_decay = 0.01F;
    if (draw_once_in(draw, 3)) rule.clipvalue = 0.5F;
    return rule;
}

static int moments_of(const ls_optimizer *rule) {
    if (rule->kind == LS_OPTIMIZER_SGD) return rule->momentum > 0;
    if (rule->kind == LS_OPTIMIZER_ADAM) return 2;
    return 1 + rule->centered + (rule->momentum > 0);
}

static int32_t op_of(const ls_optimizer *rule) {
    return rule->kind == LS_OPTIMIZER_SGD ? LS_OP_SGD : rule->kind == LS_OPTIMIZER_ADAM ? LS_OP_ADAM : LS_OP_RMSPROP;
}

static float *new_floats(size_t count) {
    float *made = ls_alloc_aligned((count + 1) * sizeof(float));
    ck_assert_ptr_nonnull(made);
    return made;
}

static size_t floats_of(const struct trial *trial) {
    return ls_terms_table_floats(&trial->terms);
}

/* One blob of a table in whole. */
static float *blob_of(const struct trial *trial, float *whole, size_t table, int blob) {
    for (size_t t = 0; t < table; t++)
        whole += (size_t)(trial->tables[t].rows * trial->tables[t].width) * (1 + (size_t)trial->terms.moments);
    return whole + (size_t)blob * (size_t)(trial->tables[table].rows * trial->tables[table].width);
}

static void draw_trial(struct trial *trial, uint64_t seed, uint64_t stream) {
    *trial = (struct trial){.draw = draw_from(seed, stream), .origin = LS_FROM_PROGRAM};
    struct draw *draw = &trial->draw;
    trial->step.rule = draw_rule(draw);
    trial->range = (struct ls_range){0, DENSE};
    trial->part = (struct ls_blob_part){.count = DENSE};
    size_t dense = !draw_once_in(draw, 3); /* or tables are all that servers keep */
    trial->terms = (struct ls_terms_model){.model = 1 + (int64_t)draw_below(draw, 3),
                                           .count = dense * DENSE,
                                           .kind = op_of(&trial->step.rule),
                                           .moments = moments_of(&trial->step.rule),
                                           .buckets = &trial->range,
                                           .bucket_count = dense,
                                           .parts = &trial->part,
                                           .part_count = dense,
                                           .tables = trial->tables,
                                           .table_count = 1 + draw_below(draw, MOST_TABLES)};
    int64_t rows = 1 + (int64_t)draw_below(draw, MOST_ROWS);
    for (size_t t = 0; t < trial->terms.table_count; t++)
        trial->tables[t] =
            (struct ls_terms_table){.rows = rows + (int64_t)draw_below(draw, 3) * (t > 0),
                                    .width = 1 + (int64_t)draw_below(draw, MOST_WIDTH),
                                    .fill = {(enum ls_fill_kind)draw_below(draw, LS_FILL_KINDS), 0.5, seed, stream + t},
                                    .decays = draw_once_in(draw, 2)};
    trial->workers = 1 + (int)draw_below(draw, MOST_WORKERS);
    for (int i = 0; i < trial->workers; i++) trial->first[i + 1] = trial->first[i] + 1 + (int)draw_below(draw, 2);
    for (int i = 0; i < 2; i++) trial->whole[i] = new_floats(floats_of(trial));
    trial->fetched = new_floats(floats_of(trial));
    for (size_t t = 0; t < trial->terms.table_count; t++)
        ls_fill(&trial->tables[t].fill, 0, blob_of(trial, trial->whole[0], t, 0),
                (size_t)(trial->tables[t].rows * trial->tables[t].width));
}

static void free_trial(struct trial *trial) {
    for (int i = 0; i < 2; i++) ls_free(trial->whole[i]);
    ls_free(trial->fetched);
    ls_free(trial->given);
}

/* ---- the whole ---- */

static void draw_batches(struct trial *trial) {
    struct draw *draw = &trial->draw;
    for (int leaf = 0; leaf < trial->first[trial->workers]; leaf++) {
        trial->counts[leaf] = draw_once_in(draw, 5) ? 0 : draw_below(draw, MOST_IDS + 1);
        for (size_t i = 0; i < trial->counts[leaf]; i++)
            trial->ids[leaf][i] = (float)draw_below(draw, (size_t)trial->tables[0].rows);
        for (size_t t = 0; t < trial->terms.table_count; t++)
            for (size_t i = 0; i < MOST_IDS * MOST_WIDTH; i++)
                trial->gradients[leaf][t][i] = (float)((double)draw_below(draw, 2001) - 1000) / 300;
    }
}

/* A leaf's gradient of one row: false, if it has not got the row. */
static bool leaf_gradient(const struct trial *trial, int leaf, size_t t, int64_t row, float *sum) {
    size_t width = (size_t)trial->tables[t].width;
    bool there = false;
    memset(sum, 0, width * sizeof(*sum));
    for (size_t i = 0; i < trial->counts[leaf]; i++) {
        if ((int64_t)trial->ids[leaf][i] != row) continue;
        there = true;
        for (size_t k = 0; k < width; k++) sum[k] += trial->gradients[leaf][t][i * width + k];
    }
    return there;
}

/* Of the leaves [low, high), in the order of the tree. */
static bool tree_gradient(const struct trial *trial, int low, int high, size_t t, int64_t row, float *sum) {
    float right[MOST_WIDTH];
    if (high - low == 1) return leaf_gradient(trial, low, t, row, sum);
    int middle = low + ls_tree_split(high - low);
    bool left_there = tree_gradient(trial, low, middle, t, row, sum);
    if (!tree_gradient(trial, middle, high, t, row, right)) return left_there;
    for (int64_t k = 0; k < trial->tables[t].width; k++) sum[k] = left_there ? sum[k] + right[k] : right[k];
    return true;
}

/* Keras' formulas, an element at a time. m: its moments. */
static void update_element(const struct ls_optimizer_step *step, float *w, float g, float *m[LS_MAX_MOMENTS]) {
    const ls_optimizer *rule = &step->rule;
    float rate = rule->learning_rate, increment;
    if (rule->kind == LS_OPTIMIZER_ADAM) {
        *m[0] += (g - *m[0]) * ls_rule_rest(rule->beta_1);
        *m[1] += (g * g - *m[1]) * ls_rule_rest(rule->beta_2);
        *w -= *m[0] * ls_rule_adam(rule, step->iteration) / (sqrtf(*m[1]) + rule->epsilon);
    } else if (rule->kind == LS_OPTIMIZER_RMSPROP) {
        float *average = rule->centered ? m[1] : NULL, *velocity = m[1 + rule->centered];
        *m[0] = rule->rho * *m[0] + ls_rule_rest(rule->rho) * (g * g);
        if (average) *average = rule->rho * *average + ls_rule_rest(rule->rho) * g;
        increment = rate * g / sqrtf(*m[0] - (average ? *average * *average : 0) + rule->epsilon);
        if (rule->momentum > 0) increment = *velocity = rule->momentum * *velocity + increment;
        *w -= increment;
    } else if (rule->momentum > 0) {
        *m[0] = *m[0] * rule->momentum - g * rate;
        *w += rule->nesterov ? *m[0] * rule->momentum - g * rate : *m[0];
    } else {
        *w -= g * rate;
    }
}

static void update_row(struct trial *trial, size_t t, int64_t row, const float *sum) {
    const ls_optimizer *rule = &trial->step.rule;
    for (int64_t k = 0; k < trial->tables[t].width; k++) {
        float *at[1 + LS_MAX_MOMENTS] = {NULL}, g = sum[k];
        for (int b = 0; b <= trial->terms.moments; b++)
            at[b] = blob_of(trial, trial->whole[0], t, b) + row * trial->tables[t].width + k;
        if (rule->clipvalue > 0)
            g = g > rule->clipvalue ? rule->clipvalue : g < -rule->clipvalue ? -rule->clipvalue : g;
        if (rule->weight_decay > 0 && trial->tables[t].decays)
            *at[0] -= *at[0] * rule->weight_decay * rule->learning_rate;
        update_element(&trial->step, at[0], g, at + 1);
    }
}

static void update_whole(struct trial *trial) {
    float sum[MOST_WIDTH];
    memcpy(trial->whole[1], trial->whole[0], floats_of(trial) * sizeof(float));
    for (size_t t = 0; t < trial->terms.table_count; t++)
        for (int64_t row = 0; row < trial->tables[t].rows; row++)
            if (tree_gradient(trial, 0, trial->first[trial->workers], t, row, sum)) update_row(trial, t, row, sum);
}

/* ---- a worker ---- */

struct batch {
    struct ls_row_leaf leaves[2];
    int count;
    int32_t ids[2][MOST_IDS], places[2][MOST_IDS];
    float *rows[2][MOST_TABLES], *gradients[2][MOST_TABLES];
};

static void make_batch(const struct trial *trial, int rank, int servers, struct batch *batch) {
    *batch = (struct batch){.count = trial->first[rank + 1] - trial->first[rank]};
    for (int l = 0; l < batch->count; l++) {
        int leaf = trial->first[rank] + l;
        batch->leaves[l] = (struct ls_row_leaf){batch->ids[l], 0, batch->rows[l], batch->gradients[l], 0};
        for (size_t t = 0; t < trial->terms.table_count; t++) {
            batch->rows[l][t] = new_floats(MOST_IDS * MOST_WIDTH);
            batch->gradients[l][t] = new_floats(MOST_IDS * MOST_WIDTH);
        }
        const struct ls_tensor ids = {(void *)(uintptr_t)trial->ids[leaf], LS_FLOAT32,
                                      LS_SHAPE(1, (int64_t)trial->counts[leaf]), 0};
        assert_ok(ls_row_lists_unique(&ids, servers, &batch->leaves[l], batch->places[l]));
        for (size_t i = 0; i < trial->counts[leaf]; i++)
            ck_assert_int_eq(batch->ids[l][(size_t)batch->places[l][i]], (int32_t)trial->ids[leaf][i]);
        for (size_t t = 0; t < trial->terms.table_count; t++)
            for (size_t i = 0; i < batch->leaves[l].count; i++)
                ck_assert(leaf_gradient(trial, leaf, t, batch->ids[l][i],
                                        batch->gradients[l][t] + i * (size_t)trial->tables[t].width));
    }
}

static void free_batch(struct batch *batch) {
    for (int i = 0; i < 2 * MOST_TABLES; i++) {
        ls_free(batch->rows[i % 2][i / 2]);
        ls_free(batch->gradients[i % 2][i / 2]);
    }
}

static void check_rows(const struct trial *trial, const struct batch *batch) {
    for (int l = 0; l < batch->count; l++)
        for (size_t t = 0; t < trial->terms.table_count; t++)
            for (size_t i = 0; i < batch->leaves[l].count; i++) {
                size_t width = (size_t)trial->tables[t].width;
                const float *want = blob_of(trial, trial->whole[0], t, 0) + (size_t)batch->ids[l][i] * width;
                ck_assert_msg(!memcmp(batch->rows[l][t] + i * width, want, width * sizeof(float)),
                              "row %d of table %zu", batch->ids[l][i], t);
            }
}

static void list_parts(struct trial *trial, float *moments, float *tables, struct ls_shard_part *parts) {
    int blobs = 1 + trial->terms.moments;
    for (int b = 0; b < blobs; b++)
        parts[b] = (struct ls_shard_part){.origin = trial->origin, .copy = b && moments ? moments + b * DENSE : NULL};
    for (size_t t = 0; t < trial->terms.table_count; t++)
        for (int b = 0; b < blobs; b++)
            parts[ls_part_of_table(trial->terms.moments, trial->terms.table_count, t, b)] =
                (struct ls_shard_part){.origin = trial->origin,
                                       .copy = tables ? blob_of(trial, tables, t, b) : NULL,
                                       .version = trial->given ? LS_PART_ELSEWHERE : LS_PART_NOWHERE};
}

/* Sometimes rows are asked for twice, as an evaluation between two steps does. */
static ls_status step_once(struct rank *rank, struct ls_store *store, struct batch *batch, bool last) {
    struct trial *trial = rank->context;
    const float *zeros[2];
    float none[DENSE] = {0};
    bool fetches = last && !rank->rank;
    struct ls_shard_part parts[MOST_PARTS];
    LS_CLEANUP(ls_free_pointer) float *moments = fetches ? new_floats((1 + LS_MAX_MOMENTS) * DENSE) : NULL;
    ls_status status = ls_store_pull_rows(store, batch->leaves, batch->count);
    if (!status && trial->step.iteration % 3 == 0) status = ls_store_pull_rows(store, batch->leaves, batch->count);
    if (!status) check_rows(trial, batch);
    for (int l = 0; l < 2; l++) zeros[l] = none;
    if (!status && trial->terms.count) status = ls_store_push(store, 0, trial->first, zeros, LS_COMPRESS_NONE);
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) {
        trial->step.iteration++;
        update_whole(trial);
    }
    (void)pthread_barrier_wait(rank->barrier);
    if (fetches) list_parts(trial, moments, trial->fetched, parts);
    const struct ls_store_stepping stepping = {
        .step = &trial->step, .keep = true, .array = trial->copies[rank->rank], .parts = fetches ? parts : NULL};
    if (!status) status = ls_store_step(store, &stepping);
    (void)pthread_barrier_wait(rank->barrier);
    if (status || !fetches) return status;
    ck_assert_msg(!memcmp(trial->fetched, trial->whole[0], floats_of(trial) * sizeof(float)), "the tables");
    return LS_OK;
}

static ls_status work(struct rank *rank) {
    struct trial *trial = rank->context;
    struct ls_store *store = NULL;
    struct batch batch;
    bool lost = false;
    struct ls_shard_part parts[MOST_PARTS];
    list_parts(trial, NULL, rank->rank ? NULL : trial->given, parts);
    const struct ls_store_config config = {.group = ls_group_assisted(rank->group),
                                           .terms = trial->terms,
                                           .generation = trial->generation,
                                           .version = trial->step.iteration,
                                           .parts = parts,
                                           .lost = &lost,
                                           .variables = trial->copies[rank->rank]};
    ls_status status = ls_store_open(&config, &store);
    ck_assert(!lost || status == LS_UNAVAILABLE);
    for (int i = 0; i < STEPS; i++) {
        (void)pthread_barrier_wait(rank->barrier);
        if (!rank->rank) draw_batches(trial);
        (void)pthread_barrier_wait(rank->barrier);
        make_batch(trial, rank->rank, ls_group_serving(config.group), &batch);
        if (!status) status = step_once(rank, store, &batch, i + 1 == STEPS);
        (void)pthread_barrier_wait(rank->barrier);
        free_batch(&batch);
        if (status) return status;
    }
    ls_store_free(store);
    return status;
}

/* ---- generations ---- */

static void change_servers(struct trial *trial, struct fleet *fleet, int copies) {
    struct draw *draw = &trial->draw;
    if (fleet->count > 1 && copies > 1 && draw_once_in(draw, 2)) fleet_lose(fleet, draw);
    while (!fleet->count || (fleet->count < MOST_SERVERS && draw_once_in(draw, 2))) fleet_add(fleet);
}

static void start_generation(struct trial *trial, struct fleet *fleet, struct world *world) {
    trial->generation++;
    fleet_begin(fleet, trial->generation);
    const struct world_options options = {.size = trial->workers,
                                          .servers = fleet->count,
                                          .keeping = fleet->keeping,
                                          .wire = (enum wire)draw_below(&trial->draw, WIRE_SHARED)};
    world_run(&options, work, trial, world);
}

static void run_generation(struct trial *trial, struct fleet *fleet) {
    struct world world;
    start_generation(trial, fleet, &world);
    world_expect_ok(&world, trial->workers);
    trial->origin = LS_FROM_STEPS;
}

/* The newest step is no worker's; or a checkpoint has taken the place of all. */
static void go_back(struct trial *trial) {
    if (draw_once_in(&trial->draw, 2)) {
        memcpy(trial->whole[0], trial->whole[1], floats_of(trial) * sizeof(float));
        trial->step.iteration--;
    } else if (draw_once_in(&trial->draw, 3)) {
        if (!trial->given) trial->given = new_floats(floats_of(trial));
        for (size_t i = 0; i < floats_of(trial); i++)
            trial->whole[0][i] = trial->given[i] = (float)draw_below(&trial->draw, 1000) / 500;
        trial->step.iteration = (int64_t)draw_below(&trial->draw, 100);
        trial->origin = LS_FROM_PROGRAM;
    }
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
        if (g) go_back(&trial);
        run_generation(&trial, &fleet);
    }
    fleet_end(&fleet);
    free_trial(&trial);
}

TEST(rows_have_the_bits_of_one_plain_update) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) run_trial(seed, i);
}

/* Without moments too, as no worker has a table. */
TEST(lost_rows_are_named) {
    struct trial trial;
    struct fleet fleet = {.count = 0};
    struct world world;
    uint64_t stream = 0;
    do draw_trial(&trial, 1, stream++);
    while (trial.terms.moments && (free_trial(&trial), true));
    trial.terms.replicas = 1;
    fleet_add(&fleet);
    run_generation(&trial, &fleet);
    fleet_lose(&fleet, &trial.draw);
    fleet_add(&fleet);
    start_generation(&trial, &fleet, &world);
    for (int i = 0; i < trial.workers; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
        ck_assert_msg(strstr(world.ranks[i].error, "the only copy of rows of its tables"), "%s", world.ranks[i].error);
    }
    fleet_lose(&fleet, &trial.draw);
    free_trial(&trial);
}

TESTS("store/tables", .seconds = 120)
