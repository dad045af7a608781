/* Division of global batches. Three rules:
 *
 * Layout-invariant: batch t is rows [t G, (t + 1) G), the last one shorter; n rows over N replicas are n / N each and
 * one more for the first n mod N, contiguous by replica id. Nothing depends on which worker holds a replica.
 *
 * TensorFlow, sharding DATA: each batch is cut into N pieces of ceil(n / N) rows, the last ones shorter or empty, and
 * piece p goes to worker p mod W. (With that policy tf.data replaces the sizes below by this older rule, so that all
 * workers cut alike; recorded in tests/golden/division.txt.)
 *
 * TensorFlow, sharding OFF, FILE and HINT: every worker goes through all its rows in mini-batches of the sizes of
 * batch_sizes_for_worker, a cycle of N sizes that sum to G, larger ones first, begun at worker * R. */
#include "data/division.h"

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* The rows before part i when n rows are divided over parts, larger parts first. */
static int64_t rows_before(int64_t n, int64_t parts, int64_t i) {
    return n / parts * i + minimum(i, n % parts);
}

int64_t ls_division_rows_a_step(const struct ls_division_plan *plan) {
    return plan->stride ? plan->stride * plan->batch : plan->batch;
}

static struct ls_row_range batch_at(const struct ls_division_plan *plan, int64_t step) {
    int64_t first = step * plan->batch;
    return (struct ls_row_range){first, minimum(ls_division_rows_a_step(plan), plan->total - first)};
}

static struct ls_row_range share_invariant(const struct ls_division_plan *plan, int64_t step, int replica) {
    struct ls_row_range batch = batch_at(plan, step);
    int64_t before = rows_before(batch.count, plan->num_replicas, replica);
    int64_t after = rows_before(batch.count, plan->num_replicas, replica + 1);
    return (struct ls_row_range){batch.first + before, after - before};
}

static int replicas_per_worker(const struct ls_division_plan *plan) {
    return plan->num_replicas / plan->num_workers;
}

static struct ls_row_range share_sharded(const struct ls_division_plan *plan, int64_t step, int replica) {
    struct ls_row_range batch = batch_at(plan, step);
    int per_worker = replicas_per_worker(plan);
    int64_t piece = (int64_t)(replica % per_worker) * plan->num_workers + replica / per_worker;
    int64_t size = ceil_divide(batch.count, plan->num_replicas);
    int64_t before = minimum(piece * size, batch.count), after = minimum((piece + 1) * size, batch.count);
    return (struct ls_row_range){batch.first + before, after - before};
}

/* The rows before mini-batch i of the endless cycle of sizes that begins at 0. */
static int64_t rows_before_mini_batch(const struct ls_division_plan *plan, int64_t i) {
    int64_t parts = plan->num_replicas;
    return i / parts * plan->batch + rows_before(plan->batch, parts, i % parts);
}

static int64_t total_of(const struct ls_division_plan *plan, int worker) {
    return plan->totals ? plan->totals[worker] : plan->total;
}

static struct ls_row_range share_unsharded(const struct ls_division_plan *plan, int64_t step, int replica) {
    int per_worker = replicas_per_worker(plan);
    int64_t index =
        step * per_worker + replica; /* in the cycle, which this worker began at its first replica's number */
    int64_t origin = rows_before_mini_batch(plan, replica - replica % per_worker);
    int64_t total = total_of(plan, replica / per_worker);
    int64_t first = minimum(rows_before_mini_batch(plan, index) - origin, total);
    int64_t end = minimum(rows_before_mini_batch(plan, index + 1) - origin, total);
    return (struct ls_row_range){first, end - first};
}

struct ls_row_range ls_division_share(const struct ls_division_plan *plan, int64_t step, int replica) {
    if (plan->rule == LS_DIVIDE_LAYOUT_INVARIANT) return share_invariant(plan, step, replica);
    return plan->shard == LS_SHARD_DATA ? share_sharded(plan, step, replica) : share_unsharded(plan, step, replica);
}

static bool divides_each_batch(const struct ls_division_plan *plan) {
    return plan->rule == LS_DIVIDE_LAYOUT_INVARIANT || plan->shard == LS_SHARD_DATA;
}

/* The mini-batch of the endless cycle that holds a row. The inverse of rows_before_mini_batch. A cycle has larger sizes
 * of small + 1 rows first. With batch below num_replicas small is 0, and every row lies in a larger one: in_larger is
 * batch then, and nothing is divided by 0. */
static int64_t mini_batch_of(const struct ls_division_plan *plan, int64_t row) {
    int64_t parts = plan->num_replicas, small = plan->batch / parts, larger = plan->batch % parts;
    int64_t cycle = row / plan->batch, rest = row % plan->batch, in_larger = larger * (small + 1);
    int64_t part = rest < in_larger ? rest / (small + 1) : larger + (rest - in_larger) / small;
    return cycle * parts + part;
}

/* The steps that a worker needs to come to the last row. Workers run out of rows at different steps, since their
 * mini-batches differ in size. All take part in as many steps as the longest needs; the others have empty shares then.
 */
static int64_t steps_unsharded(const struct ls_division_plan *plan, int worker) {
    int per_worker = replicas_per_worker(plan);
    int64_t offset = (int64_t)worker * per_worker, origin = rows_before_mini_batch(plan, offset);
    int64_t total = total_of(plan, worker);
    return total ? (mini_batch_of(plan, origin + total - 1) - offset) / per_worker + 1 : 0;
}

int64_t ls_division_steps(const struct ls_division_plan *plan) {
    int64_t steps = 0;
    if (plan->total < 1) return 0;
    if (divides_each_batch(plan)) return ceil_divide(plan->total, plan->batch);
    for (int worker = 0; worker < plan->num_workers; worker++) {
        int64_t needed = steps_unsharded(plan, worker);
        if (needed > steps) steps = needed;
    }
    return steps;
}

int64_t ls_division_global_rows(const struct ls_division_plan *plan, int64_t step) {
    int64_t rows = 0;
    if (divides_each_batch(plan)) return batch_at(plan, step).count;
    for (int replica = 0; replica < plan->num_replicas; replica++) rows += ls_division_share(plan, step, replica).count;
    return rows;
}

int64_t ls_division_max_rows(const struct ls_division_plan *plan) {
    if (divides_each_batch(plan))
        return ceil_divide(minimum(ls_division_rows_a_step(plan), plan->total), plan->num_replicas);
    return minimum(ceil_divide(plan->batch, plan->num_replicas), plan->total);
}
