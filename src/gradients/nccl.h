/* Gradients added by NCCL: one group over the GPUs of all replicas of all workers, made for each generation and given
 * up when one of its workers is lost. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/device_group.h"

struct ls_nccl;
/* Collective. *nccl becomes the group. It stays NULL, for all workers alike, if the host adds. With a GPU a line in the
 * log tells which and why. */
ls_status ls_nccl_open(ls_strategy *strategy, struct ls_nccl **nccl);
void ls_nccl_free(struct ls_nccl *nccl); /* after abort */

/* Adds any vector in place and waits for the sums. It is no part of a step. arrays has one a local replica. */
ls_status ls_nccl_all_reduce(struct ls_nccl *nccl, ls_reduce_op op, ls_dtype dtype, void *const *arrays, size_t count);
/* Ops that are queued from now on see the sums. The thread that computes calls it. */
ls_status ls_nccl_settle(struct ls_nccl *nccl, int local);
/* Aborts collectives under way on this worker. They end after the devices' ops, and the group is of no more use. No
 * other thread may queue anything there. It returns in bounded time: calls that NCCL does not finish are left behind,
 * and a line in the log says so. NULL is nothing, here and
 * below. */
void ls_nccl_abort(struct ls_nccl *nccl);
/* Writes the adder's name into a fingerprint: "nccl 2.28.9", or "host" for a NULL nccl. */
#define LS_ADDER_TEXT 48
void ls_nccl_describe(const struct ls_nccl *nccl, char text[LS_ADDER_TEXT]);
bool ls_nccl_is_aborted(const struct ls_nccl *nccl);
/* True if the devices may still use the arrays that the group was given. The arrays then stay until the process ends.
 */
bool ls_nccl_is_left(const struct ls_nccl *nccl);

/* Ends a group of devices in bounded time. NCCL can be stuck in an abort: it waits for its own threads and for other
 * processes of the host, and has no limit of its own. */

/* Aborts the group, on a thread of its own. Returns true if it is aborted, and to be closed. After LS_ABORT_TIMEOUT it
 * returns false: the thread has the group now, and the devices may still use the arrays that it was given. */
bool ls_group_abort(const struct ls_device_group_ops *ops, struct ls_device_group *group);
