/* In which order the examples of a pass come, and which pass a row of an epoch lies in. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"

struct ls_order_config {
    const ls_dataset_options *options; /* borrowed: shuffle, shuffle_buffer, seed, repeat */
    const int64_t *examples; /* taken: the numbers of this worker's examples, freed with ls_free; NULL for all */
    int64_t count;           /* of them: the length of a pass */
    int64_t longest;         /* rows from the first to the last that one step can touch */
    uint64_t stream;         /* of pass 0 */
    /* The rows of an epoch are dealt in blocks of so many. This worker has those of the blocks worker, worker +
     * num_workers, ... A 0 means that all rows are its own. */
    int64_t block;
    int worker, num_workers;
};
struct ls_order;
ls_status ls_order_new(const struct ls_order_config *config, struct ls_order **order);
void ls_order_free(struct ls_order *order);

/* One row of an epoch. */
struct ls_row {
    int64_t example;
    int64_t pass; /* counted over all epochs: with it random stages draw other numbers */
};
/* This worker's rows first to first + count of an epoch; count up to the longest. */
void ls_order_rows(struct ls_order *order, int64_t epoch, int64_t first, int64_t count, struct ls_row *rows);
