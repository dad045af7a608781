/* The algorithms of all-reduce: one table, a name and a schedule each. All but RING add in the order of the tree, so
 * that choosing among them never changes the bits. */
#pragma once
#include "collective/reduction.h"

enum ls_algorithm {
    LS_ALGORITHM_AUTO, /* chosen for each call */
    LS_ALGORITHM_SHARED,
    LS_ALGORITHM_TWO_LEVEL,
    LS_ALGORITHM_EXCHANGE,
    LS_ALGORITHM_DIRECT,
    LS_ALGORITHM_RING,
    LS_ALGORITHM_HALVING,
    LS_ALGORITHM_COUNT
};

struct ls_algorithm_info {
    const char *name;
    void (*schedule)(struct ls_schedule *schedule, const struct ls_reduction *reduction); /* NULL: not over links */
    bool in_tree_order; /* of all leaves; otherwise a schedule's folds are over the local ones */
    bool compresses;    /* in tree order: each partial once, so that the choice changes no bit */
    bool (*fits)(const struct ls_reduction *reduction); /* the layout of leaves; NULL: any */
    const char *needs;                                  /* what it is for, in words; NULL: anything */
};
const struct ls_algorithm_info *ls_algorithm_info(enum ls_algorithm algorithm);
/* The algorithm of that name; LS_ALGORITHM_COUNT if there is none. */
enum ls_algorithm ls_algorithm_find(const char *name);
/* INVALID_ARGUMENT for the call of that name: what the algorithm needs, what is there, what to choose instead. */
ls_status ls_algorithm_refuse(enum ls_algorithm algorithm, const char *name, const struct ls_reduction *reduction);
/* Lays out a call of at least one element. */
void ls_algorithm_schedule(enum ls_algorithm algorithm, struct ls_schedule *schedule,
                           const struct ls_reduction *reduction);
