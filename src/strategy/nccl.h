/* Gradients added by NCCL: one group over the GPUs of all replicas of all workers, made for each generation and given
 * up when one of its workers is lost. */
#pragma once
#include <lockstep/lockstep.h>

/* Collective, in each generation, when it is known who holds which replicas: whether NCCL can add for all of them. An
 * error naming worker and device where it must. */
ls_status ls_nccl_agree(ls_strategy *strategy);

struct ls_nccl;
/* Collective: *nccl becomes the group, or stays NULL, for all workers alike, where the host adds. A line in the log
 * tells which and why, if there is a GPU. */
ls_status ls_nccl_open(ls_strategy *strategy, struct ls_nccl **nccl);
void ls_nccl_free(struct ls_nccl *nccl); /* after abort */

/* Buckets are numbered in their order. By the thread that computes on a local replica's device: what it has queued up
 * to now is its part of the bucket. */
ls_status ls_nccl_give(struct ls_nccl *nccl, int local, size_t bucket);
/* When all local replicas have: begins to add, in place on the devices; arrays has one a local replica. One thread. */
ls_status ls_nccl_add(struct ls_nccl *nccl, size_t bucket, void *const *arrays, size_t count);
/* Until all of it is added. */
ls_status ls_nccl_finish(struct ls_nccl *nccl);
/* Any vector, in place, until it is done: no part of a step. arrays has one a local replica. */
ls_status ls_nccl_all_reduce(struct ls_nccl *nccl, ls_reduce_op op, ls_dtype dtype, void *const *arrays, size_t count);
/* By the thread that computes: ops that are queued from now on see the sums. */
ls_status ls_nccl_settle(struct ls_nccl *nccl, int local);
/* What is under way ends, on this worker, when the devices' ops have; the group is of no more use. Nobody else queues
 * anything there. In bounded time: what NCCL does not get done is left behind, and a line in the log says so. */
void ls_nccl_abort(struct ls_nccl *nccl);
/* Who adds, as a fingerprint has it: "nccl 2.28.9"; NULL: "host". */
#define LS_ADDER_TEXT 48
void ls_nccl_describe(const struct ls_nccl *nccl, char text[LS_ADDER_TEXT]);
bool ls_nccl_is_aborted(const struct ls_nccl *nccl);
/* The devices may still use the arrays that were given to it: they stay until the process ends. */
bool ls_nccl_is_left(const struct ls_nccl *nccl);
