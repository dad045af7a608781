/* The ways, one a file, and what they have in common. A user of servers' lanes, of meetings or of sessions finds it in
 * the way's file. */
#pragma once
#include "train/sync_ops.h"

extern const struct ls_sync_ops ls_sync_servers, ls_sync_delayed, ls_sync_local, ls_sync_async, ls_sync_sharded,
    ls_sync_stages;
/* A step of this worker has failed, and others may wait for it: they hear the cause. Returns the failure. */
ls_status ls_sync_give_up(const struct ls_runtime *runtime, ls_status status);
/* A commit of a step whose sums and requests are those of all workers. */
ls_status ls_sync_commit(ls_model *model, struct ls_loss_sums *sums);
