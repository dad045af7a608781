/* The parts of a model: all arrays of floats that a training changes, each with its owners. */
#pragma once
#include "base/status.h"

/* A set of them says which parts are meant. No worker has a part that is away, but for a copy. */
enum ls_owners {
    LS_OWNED_BY_ALL = 1,      /* each worker has it */
    LS_OWNED_WITH_COPIES = 2, /* servers have stripes of it, and each worker a copy */
    LS_OWNED_IN_STRIPES = 4,  /* servers have stripes of it */
    LS_OWNED_IN_ROWS = 8,     /* servers have rows of it */
    LS_OWNED_BY_WORKERS = 16, /* workers have stripes of it */
    LS_PARTS_HERE = LS_OWNED_BY_ALL | LS_OWNED_WITH_COPIES,
    LS_PARTS_ON_SERVERS = LS_OWNED_WITH_COPIES | LS_OWNED_IN_STRIPES | LS_OWNED_IN_ROWS,
    LS_PARTS_AWAY = LS_OWNED_IN_STRIPES | LS_OWNED_IN_ROWS | LS_OWNED_BY_WORKERS,
    LS_PARTS_IN_BLOBS = LS_PARTS_HERE | LS_OWNED_IN_STRIPES | LS_OWNED_BY_WORKERS,
    LS_PARTS_ALL = LS_PARTS_HERE | LS_PARTS_AWAY
};
/* Says where a worker has a part from. If it is not from steps, the owners are to take it. */
enum ls_origin {
    LS_FROM_STEPS,
    LS_FROM_PROGRAM, /* drawn, loaded or set */
    LS_FROM_WORKER   /* copied from another worker, which may know what the owners have */
};
#define LS_PART_NOWHERE   (-1)
#define LS_PART_ELSEWHERE (-2)
struct ls_shard_part {
    enum ls_owners owners;
    enum ls_origin origin;
    int blob;        /* 0: variables; then the optimizer's moments, then others */
    int table;       /* of that table; -1: of the model's blob */
    size_t count;    /* elements */
    float *copy;     /* [count] owns: host memory; NULL: none, or devices have it */
    int64_t version; /* of a copy of what is away: the steps in it; or another worker has one, or nobody has */
};
/* A list begins with the variables and moments, then has those of tables, a blob of all tables after the other. */
static inline size_t ls_part_of_table(int moments, size_t tables, size_t table, int blob) {
    return 1 + (size_t)moments + (size_t)blob * tables + table;
}
/* Returns true if the replicas of a worker have it in blobs of theirs. */
static inline bool ls_part_is_on_devices(const struct ls_shard_part *part) {
    return part->owners & LS_PARTS_HERE && !part->copy;
}
void ls_parts_free(struct ls_shard_part *parts, size_t count);
/* Elements of the parts with such owners. */
size_t ls_parts_floats(const struct ls_shard_part *parts, size_t count, unsigned owners);
/* Copies of what is away are to come: they are those of no step until all have come. */
ls_status ls_parts_expect(struct ls_shard_part *parts, size_t count);
void ls_parts_arrived(struct ls_shard_part *parts, size_t count, int64_t version);
/* Returns true if copies of all that is away are those of that version. */
bool ls_parts_are_here(const struct ls_shard_part *parts, size_t count, int64_t version);
/* Owners have taken all. Without keep the copies of what is away are forgotten. */
void ls_parts_settle(struct ls_shard_part *parts, size_t count, bool keep);
/* Returns true if the owners of a part are to take it. */
bool ls_parts_are_new(const struct ls_shard_part *parts, size_t count);
/* The copy becomes one of those elements. values NULL: another worker has them. */
ls_status ls_part_set(struct ls_shard_part *part, const float *values);
/* The words of a message for the loss of a part that nobody else has. returns: a checkpoint takes its place, and the
 * processes stay. */
const char *ls_part_way_back(bool returns);
