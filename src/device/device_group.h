/* Collectives over the memory of devices, of one process or of several, as NCCL has them. Devices have ranks in the
 * group; those of a process have consecutive ones. Every process makes the same calls in the same order, from one
 * thread at a time, but for after and settle. Calls are queued beside the ops, and in order. Nothing here waits.
 * Callers poll for readiness, so that they can keep a deadline and give up when a peer is lost. */
#pragma once
#include "device/device.h"

#define LS_DEVICE_GROUP_ID 128 /* bytes */
struct ls_device_group;
struct ls_device_group_config {
    struct ls_device *const *devices; /* [count], of this process, borrowed */
    int count, first, total;          /* ranks first to first + count - 1, of total */
    const char *id;                   /* LS_DEVICE_GROUP_ID bytes, the same for all */
};
struct ls_device_group_ops {
    int (*version)(void);                             /* of what runs: 22809 for NCCL 2.28.9 */
    ls_status (*new_id)(char id[LS_DEVICE_GROUP_ID]); /* for one process, which hands it to the others */
    ls_status (*open)(const struct ls_device_group_config *config, struct ls_device_group **group);
    /* *done is true when the devices of all processes are connected and no error is known. The first call begins to
     * connect. An error of the others shows here too. */
    ls_status (*ready)(struct ls_device_group *group, bool *done);
    /* Marks are as a device's. From the thread that queues on the index-th device: what it has queued up to now is
     * meant by mark; ... */
    ls_status (*after)(struct ls_device_group *group, int index, int mark);
    /* ... what is asked for from now on begins when that is done on all of the process's devices. */
    ls_status (*wait)(struct ls_device_group *group, int mark);
    /* From the thread that queues on that device: ops that are queued from now on see what was asked for up to now. */
    ls_status (*settle)(struct ls_device_group *group, int index);
    /* In place on every device: arrays[i] of devices[i]. */
    ls_status (*all_reduce)(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype, void *const *arrays,
                            size_t count);
    ls_status (*broadcast)(struct ls_device_group *group, int root, ls_dtype dtype, void *const *arrays, size_t count);
    /* counts equal on all: count elements from each rank, into total * count. */
    ls_status (*all_gather)(struct ls_device_group *group, ls_dtype dtype, const void *const *inputs,
                            void *const *outputs, size_t count);
    ls_status (*reduce_scatter)(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype,
                                const void *const *inputs, void *const *outputs, size_t count);
    /* *done is true when all calls of the group are done on this process's devices. */
    ls_status (*finished)(struct ls_device_group *group, bool *done);
    /* Ends what is under way; only close may follow, or forget. It comes behind the ops that marks mean, so these are
     * waited for before. It touches no device of ours, may be called by a thread of its own, and may never return. */
    void (*abort)(struct ls_device_group *group);
    void (*close)(struct ls_device_group *group);  /* after abort, or where ready was never asked */
    void (*forget)(struct ls_device_group *group); /* in place of close, where the devices may be closed already */
};
