/* Ends a group of devices in bounded time. NCCL can be stuck in an abort: it waits for its own threads and for other
 * processes of the host, and has no limit of its own. */
#pragma once
#include "device/device_group.h"

/* Aborts the group, on a thread of its own. Returns true if it is aborted, and to be closed. After LS_ABORT_TIMEOUT it
 * returns false: the thread has the group now, and the devices may still use the arrays that it was given. */
bool ls_group_abort(const struct ls_device_group_ops *ops, struct ls_device_group *group);
