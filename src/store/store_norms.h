/* Norms of variables that are cut over servers. Every server sends the sums of its chunks to all ranks; each server
 * then adds the chunks of every variable in their order. */
#pragma once
#include "collective/group.h"
#include "device/norm.h"
#include "shard/holding.h"

struct ls_store_norms {
    struct ls_norms norms;  /* for a server's op */
    struct ls_group *group; /* borrowed, as terms and holding */
    const struct ls_terms_model *terms;
    const struct ls_holding *holding; /* NULL on a worker */
    size_t *counts;                   /* [ranks] chunks that each rank gives */
    size_t total;                     /* of all */
};
ls_status ls_store_norms_new(struct ls_group *group, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, struct ls_store_norms *norms);
void ls_store_norms_free(struct ls_store_norms *norms);
/* A worker's part in the exchanges of a step: how many there are follows from the rule. */
ls_status ls_store_norms_pass(const struct ls_store_norms *norms, const struct ls_optimizer_step *step);
