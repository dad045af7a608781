/* One server's part of a model: the ranges that it owns, and copies of those of the servers before it, side by side in
 * blobs of its own. A worker that owns moments is a server of these alone. */
#pragma once
#include "shard/layout.h"
#include "shard/table.h"

struct ls_held {
    struct ls_range range; /* of the model's blob */
    size_t at;             /* of the own blobs */
};
struct ls_holding {
    int servers, server, replicas;
    struct ls_held *held; /* [held_count]: [replicas][buckets], the own ranges first */
    size_t held_count;
    size_t count;               /* elements of an own blob */
    struct ls_blob_part *parts; /* [part_count] pieces of variables, in the order of held */
    size_t *variables;          /* [part_count] whose they are */
    size_t part_count;
    float *blobs[2][1 + LS_MAX_MOMENTS]; /* [count] the variables and moments now, and before the newest step */
    float *gradients;                    /* [count] */
    struct ls_table **tables;            /* [table_count] the terms' */
    size_t table_count;
    int64_t version[2]; /* steps that are in them; -1: nothing is */
};
ls_status ls_holding_new(const struct ls_terms_model *terms, int servers, int server, struct ls_holding **holding);
/* Of a worker: moments now, which are zero, and nothing else. */
ls_status ls_holding_new_moments(const struct ls_terms_model *terms, int workers, int worker,
                                 struct ls_holding **holding);
void ls_holding_free(struct ls_holding *holding);
/* Takes elements of blob number blob, from range of the model's, as far as they are held. */
void ls_holding_put(struct ls_holding *holding, int blob, struct ls_range range, const float *values);
/* The place of range in blob number blob; NULL if it is not held. */
const float *ls_holding_find(const struct ls_holding *holding, int blob, struct ls_range range);
/* Keeps what is there as what was before. */
void ls_holding_keep(struct ls_holding *holding, int moments);
/* Room in blobs[1] for the moments before the newest step, which were of version. */
ls_status ls_holding_keep_moments(struct ls_holding *holding, int moments, int64_t version);
/* Frees what was before the newest step. */
void ls_holding_forget(struct ls_holding *holding);
/* Goes back to version: false if it has not got it. */
bool ls_holding_return(struct ls_holding *holding, int64_t version);
/* Elements of an own blob that ls_holding_new would make; bytes of all that it would make. */
size_t ls_holding_count(const struct ls_terms_model *terms, int servers, int server);
size_t ls_holding_measure(const struct ls_terms_model *terms, int servers, int server);
size_t ls_holding_bytes(const struct ls_holding *holding, int moments);
