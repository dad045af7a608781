/* The calls that move rows of tables between workers and servers. */
#pragma once
#include "collective/group.h"
#include "shard/holding.h"
#include "shard/part.h"
#include "store/row_lists.h"

#define LS_STORE_ROWS "rows for the workers"

/* A worker brings the rows of its leaves, and sends their gradients. */
ls_status ls_row_calls_pull(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_row_leaf *leaves, int count);
ls_status ls_row_calls_push(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_row_leaf *leaves, int count);
/* A server's part: what the workers have asked for, and the gradients of it. */
struct ls_row_step {
    int32_t *words; /* to which lists points */
    struct ls_row_lists lists;
    float *gradients; /* of all workers */
    bool wanted;      /* rows were given, and no step has followed */
};
ls_status ls_row_calls_give(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_holding *holding, struct ls_row_step *step);
ls_status ls_row_calls_take(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_holding *holding, struct ls_row_step *step);
/* Adds them and runs the optimizer on the rows. No I/O. */
ls_status ls_row_calls_apply(const struct ls_terms_model *terms, struct ls_holding *holding, struct ls_device *device,
                             const struct ls_optimizer_step *rule, struct ls_row_step *step);
void ls_row_calls_free(struct ls_row_step *step);
/* All rows to rank 0, in pieces: into the copies of parts, a list, which rank 0 has. A server gives its holding. */
ls_status ls_row_calls_fetch(struct ls_group *group, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, const struct ls_shard_part *parts);
