/* The division of batches: TensorFlow's recorded behaviour, and what must hold for any numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/division.h"
#include "data/fixture.h"
#include "harness.h"

static struct ls_row_range share(const struct ls_division_plan *plan, int64_t step, int replica) {
    struct ls_row_range range = ls_division_share(plan, step, replica);
    require(range.count >= 0 && range.count <= ls_division_max_rows(plan));
    require(range.count == 0 || (range.first >= 0 && range.first + range.count <= plan->total));
    return range;
}

static int64_t sum_of_step(const struct ls_division_plan *plan, int64_t step) {
    int64_t sum = 0;
    for (int replica = 0; replica < plan->num_replicas; replica++) sum += share(plan, step, replica).count;
    return sum;
}

/* One line of the recording: the mini-batches of a worker, taken in turn by its replicas. */
static void check_worker(const struct ls_division_plan *plan, char *line) {
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    ck_assert_str_eq(word, "worker");
    int per_worker = plan->num_replicas / plan->num_workers, worker = atoi(strtok_r(NULL, " \n", &save));
    int64_t index = 0, steps = ls_division_steps(plan);
    for (; (word = strtok_r(NULL, " \n", &save)); index++) {
        long long first = 0, count = 0;
        ck_assert(sscanf(word, "%lld+%lld", &first, &count) == 2 || !strcmp(word, "-"));
        if (index / per_worker >= steps) {
            ck_assert_int_eq(count, 0); /* TensorFlow may go on with steps in which nobody has a row */
            continue;
        }
        struct ls_row_range range = share(plan, index / per_worker, worker * per_worker + (int)(index % per_worker));
        ck_assert_int_eq(range.count, count);
        if (count) ck_assert_int_eq(range.first, first);
    }
    for (; index / per_worker < steps; index++) /* TensorFlow gives an exhausted worker's replicas empty batches */
        ck_assert_int_eq(share(plan, index / per_worker, worker * per_worker + (int)(index % per_worker)).count, 0);
}

TEST(the_division_equals_tensorflow) {
    FILE *file = fopen(DIVISION_GOLDEN, "r");
    ck_assert_ptr_nonnull(file);
    char line[4096], policy[16];
    long long rows, batch;
    int workers, each, drop, cases = 0;
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#') continue;
        ck_assert_int_eq(sscanf(line, "case %lld %lld %d %d %d %15s", &rows, &batch, &workers, &each, &drop, policy),
                         6);
        struct ls_division_plan plan = {.total = drop ? rows - rows % batch : rows,
                                        .batch = batch,
                                        .num_replicas = workers * each,
                                        .num_workers = workers,
                                        .rule = LS_DIVIDE_TENSORFLOW,
                                        .shard = strcmp(policy, "OFF") ? LS_SHARD_DATA : LS_SHARD_OFF};
        for (int worker = 0; worker < workers; worker++) {
            ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
            check_worker(&plan, line);
        }
        cases++;
    }
    (void)fclose(file);
    ck_assert_int_eq(cases, 80);
}

/* The sizes of batch_sizes_for_worker, as its documentation gives them. */
TEST(worker_sizes_are_those_of_the_documentation) {
    static const struct {
        int64_t batch;
        int workers, each;
        int sizes[3][6];
    } rows[] = {
        {7, 2, 2, {{2, 2, 2, 1}, {2, 1, 2, 2}}},
        {8, 2, 2, {{2, 2, 2, 2}, {2, 2, 2, 2}}},
        {7, 3, 1, {{3, 2, 2}, {2, 2, 3}, {2, 3, 2}}},
        {8, 3, 2, {{2, 2, 1, 1, 1, 1}, {1, 1, 1, 1, 2, 2}, {1, 1, 2, 2, 1, 1}}},
        {2, 2, 2, {{1, 1, 0, 0}, {0, 0, 1, 1}}},
        {5, 1, 4, {{2, 1, 1, 1}}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int each = rows[i].each, all = rows[i].workers * each;
        struct ls_division_plan plan = {100 * rows[i].batch, rows[i].batch,        all,
                                        rows[i].workers,     LS_DIVIDE_TENSORFLOW, LS_SHARD_OFF};
        for (int worker = 0; worker < rows[i].workers; worker++)
            for (int m = 0; m < 3 * all; m++)
                ck_assert_int_eq(share(&plan, m / each, worker * each + m % each).count,
                                 rows[i].sizes[worker][m % all]);
    }
}

/* n rows over N replicas: contiguous by replica id, the first n mod N one more. */
TEST(shares_are_contiguous_and_even) {
    for (int replicas = 1; replicas <= 9; replicas++)
        for (int64_t batch = 1; batch <= 20; batch++)
            for (int64_t total = 1; total <= 45; total += 4) {
                struct ls_division_plan plan = {
                    .total = total, .batch = batch, .num_replicas = replicas, .num_workers = 1};
                int64_t next = 0, steps = ls_division_steps(&plan);
                require(steps == ((total + batch - 1) / batch));
                for (int64_t step = 0; step < steps; step++) {
                    int64_t rows = ls_division_global_rows(&plan, step);
                    require(rows == (step + 1 < steps ? batch : total - step * batch));
                    for (int replica = 0; replica < replicas; replica++) {
                        struct ls_row_range range = share(&plan, step, replica);
                        require(range.count == (rows / replicas + (replica < rows % replicas)));
                        require(range.first == next);
                        next += range.count;
                    }
                }
                require(next == total);
            }
}

/* The same under DATA, in TensorFlow's order: every row once. */
TEST(sharding_covers_every_row_once) {
    for (int workers = 1; workers <= 4; workers++)
        for (int each = 1; each <= 3; each++)
            for (int64_t batch = 1; batch <= 20; batch++)
                for (int64_t total = 1; total <= 45; total += 4) {
                    struct ls_division_plan plan = {total,        batch, workers * each, workers, LS_DIVIDE_TENSORFLOW,
                                                    LS_SHARD_DATA};
                    int seen[64] = {0};
                    for (int64_t step = 0; step < ls_division_steps(&plan); step++) {
                        require(sum_of_step(&plan, step) == ls_division_global_rows(&plan, step));
                        for (int replica = 0; replica < plan.num_replicas; replica++) {
                            struct ls_row_range range = share(&plan, step, replica);
                            for (int64_t i = 0; i < range.count; i++) seen[range.first + i]++;
                        }
                    }
                    for (int64_t row = 0; row < total; row++) require(seen[row] == 1);
                }
}

/* Every row of the epoch once on every worker, in order. */
static void check_worker_sees_all(const struct ls_division_plan *plan, int worker) {
    int each = plan->num_replicas / plan->num_workers;
    int64_t next = 0;
    for (int64_t step = 0; step < ls_division_steps(plan); step++)
        for (int local = 0; local < each; local++) {
            struct ls_row_range range = share(plan, step, worker * each + local);
            if (range.count) require(range.first == next);
            next += range.count;
        }
    require(next == plan->total);
}

/* Without sharding; no step is empty, and full steps have the global batch's size. */
TEST(each_worker_sees_all_without_sharding) {
    for (int workers = 1; workers <= 5; workers++)
        for (int each = 1; each <= 4; each++)
            for (int64_t batch = 1; batch <= 24; batch++)
                for (int64_t total = 1; total <= 50; total += 7) {
                    struct ls_division_plan plan = {total,       batch, workers * each, workers, LS_DIVIDE_TENSORFLOW,
                                                    LS_SHARD_OFF};
                    for (int worker = 0; worker < workers; worker++) check_worker_sees_all(&plan, worker);
                    int64_t steps = ls_division_steps(&plan), full = total / batch * workers;
                    for (int64_t step = 0; step < steps; step++) {
                        int64_t rows = ls_division_global_rows(&plan, step);
                        require(rows >= 1);
                        require(rows == sum_of_step(&plan, step));
                        if (step < full) require(rows == batch);
                    }
                }
}

/* Sizes near the limits do not overflow. */
TEST(large_sizes_do_not_overflow) {
    const int64_t most = INT64_C(1) << 48;
    for (int rule = 0; rule < 3; rule++) {
        struct ls_division_plan plan = {most,
                                        most,
                                        6,
                                        3,
                                        rule ? LS_DIVIDE_TENSORFLOW : LS_DIVIDE_LAYOUT_INVARIANT,
                                        rule == 2 ? LS_SHARD_OFF : LS_SHARD_DATA};
        ck_assert_int_eq(ls_division_steps(&plan), rule == 2 ? 3 : 1);
        ck_assert_int_eq(sum_of_step(&plan, 0), most);
        plan.batch = 1;
        ck_assert_int_eq(ls_division_steps(&plan), rule == 2 ? 3 * most : most);
        ck_assert_int_eq(sum_of_step(&plan, most - 1), 1);
    }
}

TESTS("division", .seconds = 60)
