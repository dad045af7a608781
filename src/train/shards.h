/* The optimizer's moments, divided over the workers (ZeRO stages 1 and 2, Rajbhandari et al. 2020; torch's
 * ZeroRedundancyOptimizer): each owns stripes of them, and has copies of those of the workers before it. They are the
 * model's from one generation to the next, since no other worker has them. */
#pragma once
#include "shard/holding.h"
#include "shard/moves.h"
#include "store/store_norms.h"
#include "train/model.h"

/* One of the ranges that are held: the own one first. */
struct ls_shards_stripe {
    struct ls_held held;
    struct ls_blob_part *parts; /* borrowed: [part_count], within the range */
    size_t part_count;
    const size_t *variables; /* borrowed: [part_count] whose they are */
    struct ls_norms norms;
    struct ls_store_norms *all; /* borrowed */
    bool owned, built;
    struct ls_op op; /* its update, in place */
};
struct ls_shards {
    struct ls_terms_model terms;                /* of one bucket, whole; it borrows the model's list of variables */
    struct ls_range whole;                      /* the trained variables */
    struct ls_holding *kept[LS_DIVISIONS_KEPT]; /* own; the first is the generation's; the second, else NULL, is of a
                                                   generation that not all workers have come to */
    /* of the present generation: */
    struct ls_store_norms norms;
    struct ls_shards_stripe *stripes; /* owns: [stripe_count] */
    size_t stripe_count;
    size_t *shares; /* owns: as of struct ls_reducer_config; NULL: all sums go to all workers */
    float *own;     /* owns: memory for a step where the plans' is too small; NULL: it is not */
    struct {
        float *lent, *others; /* borrowed: memory of the plans for so many elements; the place of the others */
        size_t fit;
    } gathered; /* of the present step (gathered.h) */
};
/* One of the workers that divide a model. */
struct ls_shards_of {
    ls_sharding shard;
    int copies, workers, worker;
};

/* Returns true if workers own the moments of the model. */
bool ls_shards_are(const ls_model *model);
/* Returns true if the workers have not taken what has changed. */
bool ls_shards_lack(const ls_model *model);
/* Part of ls_bind_attach: workers take what they lack. Collective. UNAVAILABLE: nobody has some moments any more. */
ls_status ls_shards_attach(ls_model *model);
void ls_shards_detach(ls_model *model);
/* Keeps both versions of the moments, of which those before the newest step lie in the stripes' ops. */
ls_status ls_shards_keep(struct ls_shards *shards);
/* The model is released. */
void ls_shards_free(ls_model *model);
/* Brings the moments to rank 0, as they are after that step. Collective. */
ls_status ls_shards_fetch(ls_model *model, int64_t step);
/* This worker. */
struct ls_shards_of ls_shards_here(const ls_model *model);
/* The layout of the trained variables over the workers. It points to its neighbours. */
struct ls_shards_division {
    struct ls_range whole;
    struct ls_terms_model terms;
    struct ls_layout layout;
};
void ls_shards_divide(const ls_model *model, const struct ls_shards_of *of, struct ls_shards_division *division);
/* Bytes of the moments that the worker has; of what an update of count elements changes, before it. */
size_t ls_shards_bytes(const ls_model *model, const struct ls_shards_of *of);
size_t ls_shards_update_bytes(size_t count, int moments);
/* The two together, without the second where the plans' memory is large enough. */
size_t ls_shards_planned_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena);
/* Bytes of the plans' memory that an update leaves. */
size_t ls_shards_left_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena);
/* The promise of equal copies, checked: DATA_LOSS where a copy of moments is not its owner's. Collective. */
ls_status ls_shards_check(const ls_model *model);
