/* The ops that a replica runs in a step beside forward and backward. */
#pragma once
#include "device/device.h"

/* PENALTY reads no gradients, so it lives as long as the variables. The others go with the gradients. */
enum ls_update_kind {
    LS_UPDATE_PENALTY,    /* of the regularisers -> numbers->penalty */
    LS_UPDATE_FINITE,     /* how many gradients are not -> numbers->not_finite; float16 */
    LS_UPDATE_STORED,     /* of what servers own */
    LS_UPDATE_OPTIMIZER,  /* of the variables that are the worker's own */
    LS_UPDATE_STATISTICS, /* adds to the variables that are not trained what the step changes in them */
    LS_UPDATE_REPORT,     /* the extras; the first kind that is no part of an update */
    LS_UPDATE_GATHER,     /* gathered = gradients; gradient accumulation */
    LS_UPDATE_KINDS
};
struct ls_model_replica;
struct ls_update {
    struct ls_op op;
    bool built;
    /* Behind the op. *goes_on: the kinds after it run too. NULL: they do. */
    ls_status (*look)(const struct ls_model_replica *replica, bool *goes_on);
};

/* Builds op on the replica's device. */
ls_status ls_update_add(struct ls_model_replica *replica, enum ls_update_kind kind, const struct ls_op *op);
bool ls_update_has(const struct ls_model_replica *replica, enum ls_update_kind kind);
/* In the replica's thread. A kind that was not added does nothing. */
ls_status ls_update_run(const struct ls_model_replica *replica, enum ls_update_kind kind);
/* The report and all that is built of an update, in the order of a step in which nothing is looked at: so many. */
size_t ls_update_list(const struct ls_model_replica *replica, const struct ls_op *ops[LS_UPDATE_KINDS]);
/* All that is built of an update, in the order of the kinds. A replica that shares variables has none of it. */
ls_status ls_update_apply(const struct ls_model_replica *replica);
/* Discards that kind and all after it. */
void ls_update_discard(struct ls_model_replica *replica, enum ls_update_kind first);
