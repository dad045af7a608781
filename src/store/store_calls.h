/* The names of the calls between workers and servers, and the pull that both make. */
#pragma once
#include "collective/group.h"
#include "shard/holding.h"
#include "shard/part.h"

#define LS_STORE_TERMS "a model for the parameter servers"
#define LS_STORE_STEP  "a step for the parameter servers"
#define LS_STORE_FETCH "moments for a checkpoint"
/* The name of the push of a bucket: "model 1, bucket 3". */
void ls_store_calls_name(int64_t model, size_t bucket, char text[64]);
/* The model of such a name; -1 if it is none. */
int64_t ls_store_calls_model(const char *name);
/* A blob of the model, from all servers, to one worker or with -1 to all. The ranges of the first layers go first. */
struct ls_store_pull {
    struct ls_group *group;
    const struct ls_terms_model *terms;
    const struct ls_holding *holding; /* a server's */
    int blob, to;
    float *array; /* a worker's */
};
/* A range of the blob has come into the array. */
typedef void ls_store_arrived_fn(void *context, struct ls_range range);
/* Its variables in a call for each bucket. arrived may be NULL. */
ls_status ls_store_calls_pull_in_turn(const struct ls_store_pull *pull, ls_store_arrived_fn *arrived, void *context);
/* All moments, to rank 0 alone: into the copies of parts, a list, which it has. */
ls_status ls_store_calls_pull_moments(struct ls_store_pull pull, const struct ls_shard_part *parts);
