/* Random divisions of batches against an oracle that deals rows out one by one: any batch, replicas, workers, rows a
 * worker, rule and sharding, and steps that take several batches together. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/division.h"
#include "property/draw.h"

enum { MOST_REPLICAS = 48, MOST_STEPS = 4096 };

struct case_ {
    struct ls_division_plan plan;
    int64_t totals[MOST_REPLICAS];
    char text[512];
};

static int per_worker(const struct ls_division_plan *plan) {
    return plan->num_replicas / plan->num_workers;
}

/* ---- what is divided ---- */

static int64_t draw_rows(struct draw *draw) {
    static const size_t most[] = {1, 8, 100, 2000};
    return (int64_t)draw_below(draw, most[draw_below(draw, 4)] + 1);
}

static void draw_totals(struct draw *draw, struct case_ *one) {
    one->plan.total = 0;
    for (int worker = 0; worker < one->plan.num_workers; worker++) {
        one->totals[worker] = draw_rows(draw);
        if (one->totals[worker] > one->plan.total) one->plan.total = one->totals[worker];
    }
    one->plan.totals = one->totals;
}

static void describe(struct case_ *one, uint64_t seed) {
    const struct ls_division_plan *plan = &one->plan;
    int used = snprintf(one->text, sizeof(one->text),
                        "--seed %" PRIu64 ": %" PRId64 " rows, batch %" PRId64 ", %d replicas of %d workers, rule %d, "
                        "sharding %d, stride %" PRId64 ", rows a worker",
                        seed, plan->total, plan->batch, plan->num_replicas, plan->num_workers, (int)plan->rule,
                        (int)plan->shard, plan->stride);
    for (int i = 0; plan->totals && i < plan->num_workers && used < (int)sizeof(one->text) - 24; i++)
        used += snprintf(one->text + used, sizeof(one->text) - (size_t)used, " %" PRId64, plan->totals[i]);
    trial_note(one->text);
}

static void draw_case(uint64_t seed, struct case_ *one) {
    struct draw draw = draw_from(seed, 0);
    static const ls_auto_shard shards[] = {LS_SHARD_DATA, LS_SHARD_OFF, LS_SHARD_FILE, LS_SHARD_HINT};
    struct ls_division_plan *plan = &one->plan;
    memset(one, 0, sizeof(*one));
    plan->rule = draw_once_in(&draw, 3) ? LS_DIVIDE_LAYOUT_INVARIANT : LS_DIVIDE_TENSORFLOW;
    plan->num_workers = 1 + (int)draw_below(&draw, 8);
    plan->num_replicas = plan->num_workers * (1 + (int)draw_below(&draw, 6));
    plan->total = draw_rows(&draw);
    plan->batch = 1 + draw_rows(&draw);
    if (plan->rule == LS_DIVIDE_TENSORFLOW) plan->shard = shards[draw_below(&draw, 4)];
    if (plan->shard == LS_SHARD_FILE || plan->shard == LS_SHARD_HINT) draw_totals(&draw, one);
    if (plan->rule == LS_DIVIDE_LAYOUT_INVARIANT && draw_once_in(&draw, 4))
        plan->stride = 1 + (int64_t)draw_below(&draw, 5);
    if (draw_once_in(&draw, 4) && !plan->totals) plan->total -= plan->total % plan->batch; /* drop_remainder */
    describe(one, seed);
}

/* ---- the oracle ---- */

/* As many hands as sizes; cards are dealt one by one. */
static void deal(int64_t cards, int64_t *sizes, int hands) {
    memset(sizes, 0, (size_t)hands * sizeof(*sizes));
    for (int64_t card = 0; card < cards; card++) sizes[card % hands]++;
}

/* Layout-invariant, and DATA: one batch after the other, each cut into pieces in order. */
static void share_batch(const struct ls_division_plan *plan, int64_t step, struct ls_row_range *shares) {
    int64_t sizes[MOST_REPLICAS], first = step * plan->batch, rows = plan->batch * (plan->stride ? plan->stride : 1);
    if (rows > plan->total - first) rows = plan->total - first;
    deal(rows, sizes, plan->num_replicas);
    if (plan->rule == LS_DIVIDE_TENSORFLOW) /* pieces as large as the largest, until nothing is left */
        for (int64_t piece = 0, left = rows, most = sizes[0]; piece < plan->num_replicas;
             piece++, left -= most < left ? most : left)
            sizes[piece] = most < left ? most : left;
    for (int piece = 0; piece < plan->num_replicas; first += sizes[piece++]) {
        int worker = piece % plan->num_workers, local = piece / plan->num_workers;
        int replica = plan->rule == LS_DIVIDE_TENSORFLOW ? worker * per_worker(plan) + local : piece;
        shares[replica] = (struct ls_row_range){first, sizes[piece]};
    }
}

/* OFF, FILE, HINT: each worker takes mini-batches off its own rows, of sizes that go round. */
struct walk {
    int64_t place, row; /* in the cycle of sizes; of its rows */
};

static void share_walk(const struct ls_division_plan *plan, struct walk *walks, struct ls_row_range *shares) {
    int64_t sizes[MOST_REPLICAS];
    deal(plan->batch, sizes, plan->num_replicas);
    for (int replica = 0; replica < plan->num_replicas; replica++) {
        int worker = replica / per_worker(plan);
        struct walk *walk = &walks[worker];
        int64_t total = plan->totals ? plan->totals[worker] : plan->total,
                size = sizes[walk->place++ % plan->num_replicas];
        if (size > total - walk->row) size = total - walk->row;
        shares[replica] = (struct ls_row_range){walk->row, size};
        walk->row += size;
    }
}

static bool walks_end(const struct ls_division_plan *plan, const struct walk *walks) {
    for (int worker = 0; worker < plan->num_workers; worker++)
        if (walks[worker].row < (plan->totals ? plan->totals[worker] : plan->total)) return false;
    return true;
}

/* ---- the comparison ---- */

static void compare_step(const struct case_ *one, int64_t step, const struct ls_row_range *shares) {
    const struct ls_division_plan *plan = &one->plan;
    int64_t sum = 0;
    for (int replica = 0; replica < plan->num_replicas; replica++) {
        struct ls_row_range got = ls_division_share(plan, step, replica), right = shares[replica];
        if (got.count != right.count || (right.count && got.first != right.first))
            trial_fail("%s: step %" PRId64 ", replica %d: %" PRId64 " rows from %" PRId64 ", not %" PRId64
                       " from %" PRId64,
                       one->text, step, replica, got.count, got.first, right.count, right.first);
        if (got.count > ls_division_max_rows(plan))
            trial_fail("%s: step %" PRId64 ", replica %d: more than max_rows", one->text, step, replica);
        sum += right.count;
    }
    int64_t global = ls_division_global_rows(plan, step);
    if (global != sum)
        trial_fail("%s: step %" PRId64 ": global_rows %" PRId64 ", not %" PRId64, one->text, step, global, sum);
}

static bool walks(const struct ls_division_plan *plan) {
    return plan->rule == LS_DIVIDE_TENSORFLOW && plan->shard != LS_SHARD_DATA;
}

static bool ends(const struct ls_division_plan *plan, const struct walk *state, int64_t step) {
    return walks(plan) ? walks_end(plan, state) : step * plan->batch >= plan->total;
}

static long one_division(uint64_t seed) {
    struct case_ one;
    struct walk state[MOST_REPLICAS] = {{0}};
    struct ls_row_range shares[MOST_REPLICAS];
    draw_case(seed, &one);
    const struct ls_division_plan *plan = &one.plan;
    for (int worker = 0; worker < plan->num_workers; worker++) state[worker].place = worker * per_worker(plan);
    int64_t step = 0;
    for (; !ends(plan, state, step); step++) {
        if (walks(plan))
            share_walk(plan, state, shares);
        else
            share_batch(plan, step, shares);
        compare_step(&one, step, shares);
        if (step > MOST_STEPS) return 1; /* a batch of one of many rows: long, and all alike */
    }
    if (ls_division_steps(plan) != step)
        trial_fail("%s: %" PRId64 " steps, not %" PRId64, one.text, ls_division_steps(plan), step);
    return 1;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/division", one_division);
}
