/* A worker's stage of a pipeline (GPipe, Huang et al. 2019; PipeDream's 1F1B, Narayanan et al. 2019): it computes a
 * range of nodes for all micro-batches of a step, and updates their variables. The blobs of variables, gradients and
 * moments have the addresses of all, but take room where a stage touches them. Between two steps of an epoch a worker
 * knows its own stage alone. */
#pragma once
#include "device/norm.h"
#include "shard/layout.h"
#include "train/model.h"

/* Variables are trained, moved by sums, or frozen. A stage has one range of each. */
enum { LS_STAGE_RANGES = 3 };

/* A micro-batch between its forward and its backward. */
struct ls_stage_slot {
    struct ls_model_input input; /* owns its memory; of the first stage and of the last one */
    float *entry;                /* owns: what the stage before gives; NULL in the first stage */
    struct ls_input_room room;   /* of input and entry */
    struct ls_plan_stage stage;
    struct ls_arena arena;
    struct ls_plan *plans[2]; /* own: of the present rows, and of others */
    int64_t plan_rows[2];
    bool numbers, weighted; /* the targets of plans */
    int64_t rows;           /* of the present micro-batch */
};
struct ls_stages {
    int own, count;
    int first;             /* rank of stage 0 of this worker's replica */
    struct ls_group *crew; /* borrowed: the workers of this stage, one a replica */
    int replicas, replica;
    size_t *starts; /* owns: [count + 1] as of ls_stages_cut */
    struct ls_range ranges[LS_STAGE_RANGES];
    struct ls_range table;       /* of an embedding that a head of another stage takes too; empty: there is none */
    int table_stage, head_stage; /* whose */
    struct ls_stage_slot *slots; /* owns: [slot_count] */
    int slot_count;
    struct ls_norms norms;      /* of update */
    size_t *chunks;             /* owns: [count] those of each stage's variables */
    struct ls_blob_part *parts; /* owns: the variables of update */
    struct ls_op update, statistics;
    bool updates, moves; /* the ops are built */
    bool returns;        /* all workers can begin anew, from a checkpoint */
    bool whole;          /* the variables of all stages are here */
    bool moments;        /* and their moments */
};

/* True if the model's layers are divided over the workers. */
bool ls_staged_is(const ls_model *model);
/* True if what a copy of the variables, or of the moments, needs is here. */
bool ls_staged_is_here(const ls_model *model, bool moments);
/* FAILED_PRECONDITION where it is not. */
ls_status ls_staged_check(const ls_model *model, bool moments);
/* True if one of the own ranges begins or ends at the element. */
bool ls_staged_ends_at(const ls_model *model, size_t offset);
/* Elements of that kind that a stage has. */
struct ls_range ls_staged_range(const ls_model *model, int stage, int kind);
/* Adds arrays of all replicas of the stage, in place, in the tree over replica ids. */
ls_status ls_staged_add(const struct ls_stages *stages, ls_dtype dtype, void *values, size_t count);
/* Bytes of the blobs that the stage touches; before the cuts of one as large as the others. */
size_t ls_staged_bytes(const ls_model *model);
/* Of the arenas, of all micro-batches. */
size_t ls_staged_arenas(const ls_model *model);
