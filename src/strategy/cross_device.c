/* Cross-device ops within one worker (tf.distribute.CrossDeviceOps) decide which device adds which part. All fold the
 * same tree, so the choice never changes the bits. Any device count is right, odd ones too. */
#include "strategy/strategy.h"

#include "base/denormal.h"
#include "collective/schedule/fold.h"
#include "collective/schedule/reduce.h"

#include <string.h>

/* Elements [begin, end) of all arrays: folded into owner's array, then copied to the others. */
static void reduce_range(const struct ls_cross_device_call *call, int owner, size_t begin, size_t end) {
    if (begin == end) return;
    size_t width = ls_dtype_size(call->dtype), offset = begin * width;
    const void *leaves[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < call->participants; i++) leaves[i] = (char *)call->arrays[i] + offset;
    char *result = (char *)call->arrays[owner] + offset;
    const struct ls_fold fold = {.n = call->participants, .count = call->participants, .data = leaves};
    ls_fold_tree(call->op, call->dtype, fold, result, end - begin);
    if (call->op == LS_MEAN) ls_reduce_divide(call->dtype, result, end - begin, call->participants);
    for (int i = 0; i < call->participants; i++)
        if (i != owner) memcpy((char *)call->arrays[i] + offset, result, (end - begin) * width);
}

/* ReductionToOneDevice. */
static void share_one_device(const struct ls_cross_device_call *call, int participant) {
    if (participant == 0) reduce_range(call, 0, 0, call->count);
}

/* HierarchicalCopyAllReduce spreads the work over the devices. Here it has no halves: participant i owns the i-th of n
 * equal parts. Parts begin at multiples of 16 elements, so that no two threads write one cache line. */
static void share_hierarchical(const struct ls_cross_device_call *call, int participant) {
    size_t blocks = (call->count + 15) / 16, n = (size_t)call->participants, i = (size_t)participant;
    size_t begin = blocks * i / n * 16, end = blocks * (i + 1) / n * 16;
    reduce_range(call, participant, begin, end < call->count ? end : call->count);
}

static const struct ls_cross_device table[] = {
    [LS_CROSS_DEVICE_AUTO] = {"hierarchical copy (auto)", share_hierarchical},
    [LS_REDUCTION_TO_ONE_DEVICE] = {"reduction to one device", share_one_device},
    [LS_HIERARCHICAL_COPY] = {"hierarchical copy", share_hierarchical},
    [LS_NCCL_ALL_REDUCE] = {"NCCL all-reduce", share_hierarchical}, /* of what NCCL has no part in */
};

const struct ls_cross_device *ls_cross_device_find(ls_cross_device_ops ops) {
    return (size_t)ops < sizeof(table) / sizeof(table[0]) ? &table[ops] : NULL;
}

/* The first meeting makes sure that all arrays are written, the second that all parts are added. Between them each
 * thread writes only the part that it owns, in the arrays of all. */
ls_status ls_cross_device_all_reduce(struct ls_replica *replica, const struct ls_cross_device_call *call) {
    ls_status status = ls_replicas_meet(replica, NULL, NULL);
    if (status) return status;
    unsigned denormals = ls_denormals_keep(); /* as between workers */
    ls_cross_device_find(replica->strategy->options.cross_device_ops)->share(call, replica->local_id);
    ls_denormals_restore(denormals);
    return ls_replicas_meet(replica, NULL, NULL);
}
