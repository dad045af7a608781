/* The all-reduces: one table. All but RING add in the order of the tree, so that the choice among them never changes
 * the bits. */
#pragma once
#include "collective/schedule/reduction.h"

struct ls_call;
struct ls_group;
struct ls_algorithm_info {
    const char *name;
    /* Runs a call that was begun, of any count. */
    ls_status (*run)(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction);
    /* True if the group's links and memory, and the layout of the leaves, let it run. */
    bool (*offers)(const struct ls_group *group, const struct ls_reduction *reduction);
    void (*schedule)(struct ls_schedule *schedule, const struct ls_reduction *reduction); /* of one over links */
    bool in_tree_order; /* of all leaves; otherwise a schedule's folds are over the local ones */
    bool compresses;    /* in tree order: each partial once, so that the choice changes no bit */
    const char *needs;  /* in words, of one that does not run everywhere */
};
const struct ls_algorithm_info *ls_algorithm_info(enum ls_algorithm algorithm);
/* The name of an algorithm; the number is below LS_ALGORITHM_COUNT. */
const char *ls_algorithm_name(int algorithm);
/* The algorithm of that name; LS_ALGORITHM_COUNT if there is none. */
enum ls_algorithm ls_algorithm_find(const char *name);
/* True if the algorithm can run a call of the group; false for AUTO. */
bool ls_algorithm_offers(enum ls_algorithm algorithm, const struct ls_group *group,
                         const struct ls_reduction *reduction);
/* Returns INVALID_ARGUMENT for the call of that name. The error names the conditions of the algorithm, the layout of
 * the group, and the algorithms to choose instead. */
ls_status ls_algorithm_refuse(enum ls_algorithm algorithm, const char *name, const struct ls_reduction *reduction);
/* Lays out a call of at least one element over links. */
void ls_algorithm_schedule(enum ls_algorithm algorithm, struct ls_schedule *schedule,
                           const struct ls_reduction *reduction);
