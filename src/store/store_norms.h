/* Norms of variables that are cut over holders: servers, or workers that own moments. Every holder sends the sums of
 * its chunks to all ranks; each holder then adds the chunks of every variable in their order. */
#pragma once
#include "collective/group.h"
#include "device/norm.h"
#include "shard/holding.h"

struct ls_store_norms {
    struct ls_norms norms;  /* for a holder's op */
    struct ls_group *group; /* borrowed, as terms and holding */
    const struct ls_terms_model *terms;
    const struct ls_holding *holding; /* NULL on a rank that holds nothing */
    size_t *counts;                   /* [ranks] chunks that each rank gives */
    size_t total;                     /* of all */
};
/* The holders are the ranks from first on. */
ls_status ls_store_norms_new(struct ls_group *group, int first, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, struct ls_store_norms *norms);
void ls_store_norms_free(struct ls_store_norms *norms);
/* The part of a rank that holds nothing in the exchanges of a step: how many there are follows from the rule. */
ls_status ls_store_norms_pass(const struct ls_store_norms *norms, const struct ls_optimizer_step *step);
