/* The division of an epoch's rows over steps and replicas, as arithmetic only. Rows are numbered from 0 in the epoch's
 * order. Every share is a range of them. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_division_plan {
    int64_t total;    /* rows in the epoch; with drop_remainder a multiple of batch */
    int64_t batch;    /* the global batch, 1 or more */
    int num_replicas; /* of all workers */
    int num_workers;  /* divides num_replicas under LS_DIVIDE_TENSORFLOW */
    ls_division rule;
    ls_auto_shard shard; /* not AUTO */
    const int64_t
        *totals;    /* borrowed: the rows that each worker has, with FILE and HINT; total is their greatest then */
    int64_t stride; /* batches that a step takes together, under LS_DIVIDE_LAYOUT_INVARIANT; 0: one */
};
struct ls_row_range {
    int64_t first, count;
};
/* Steps in the epoch: up to the last at which any replica has a row. */
int64_t ls_division_steps(const struct ls_division_plan *plan);
/* The share of a replica, numbered over all workers, at a step. Its count is 0 if it gets nothing. */
struct ls_row_range ls_division_share(const struct ls_division_plan *plan, int64_t step, int replica);
/* Of a step that is not short: the batches that it takes together. Not for sharding OFF. */
int64_t ls_division_rows_a_step(const struct ls_division_plan *plan);
/* Rows of all replicas at a step. */
int64_t ls_division_global_rows(const struct ls_division_plan *plan, int64_t step);
/* The most rows that one replica gets at any step. */
int64_t ls_division_max_rows(const struct ls_division_plan *plan);
