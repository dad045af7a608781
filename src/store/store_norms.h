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
    double
        *whole[2]; /* owns: [variables][kinds] of the newest join with so many kinds, 1 and 2; NULL: there was none */
    double sums[2][2]; /* likewise, of all variables */
};
/* The holders are the ranks from first on. */
ls_status ls_store_norms_new(struct ls_group *group, int first, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, struct ls_store_norms *norms);
void ls_store_norms_free(struct ls_store_norms *norms);
/* Collective. chunks: [the own chunks][kinds], those of the ranges that this holder owns; NULL: there are none. */
ls_status ls_store_norms_join(struct ls_store_norms *norms, const double *chunks, int kinds);
/* Finds the newest join's sums of these variables: squares and total as of struct ls_norms. */
void ls_store_norms_find(const struct ls_store_norms *norms, int kinds, const size_t *variables, size_t count,
                         double *squares, double *total);
/* The part of a rank that owns nothing in the exchanges of a step: how many there are follows from the rule. */
ls_status ls_store_norms_pass(struct ls_store_norms *norms, const struct ls_optimizer_step *step);
