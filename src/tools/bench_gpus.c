/* Vectors on the GPUs of all workers, for lockstep bench: a strategy's devices and its NCCL, without a model. */
#include <lockstep/tools.h>

#include "base/need.h"
#include "base/new.h"
#include "runtime/communicator.h"
#include "gradients/nccl.h"
#include "strategy/strategy.h"

struct ls_tools_gpus {
    ls_strategy *strategy;               /* owns */
    ls_communicator workers;             /* the strategy's */
    struct ls_nccl *nccl;                /* owns */
    void *vectors[LS_MAX_LOCAL_DEVICES]; /* device memory; own */
};

static struct ls_device *device_of(const ls_tools_gpus *gpus, int index) {
    return gpus->strategy->replicas[index].device;
}

static ls_status open_all(ls_tools_gpus *gpus, const ls_strategy_options *options, size_t size) {
    ls_status status = ls_multi_worker_mirrored_strategy_new(options, &gpus->strategy);
    if (status) return status;
    if (gpus->strategy->total_count == 1)
        return ls_fail(LS_FAILED_PRECONDITION, "communication NCCL: one GPU alone has nobody to add with");
    gpus->workers.runtime = gpus->strategy->runtime;
    gpus->workers.ranks = &gpus->strategy->runtime->ranks;
    status = ls_nccl_open(gpus->strategy, &gpus->nccl);
    for (int i = 0; !status && i < gpus->strategy->local_count; i++)
        status = device_of(gpus, i)->ops->allocate(device_of(gpus, i), size, &gpus->vectors[i]);
    return status;
}

ls_status ls_tools_gpus_new(const ls_strategy_options *options, size_t size, ls_tools_gpus **gpus) {
    LS_NEED(gpus);
    LS_NEW(ls_tools_gpus, made, "GPUs");
    ls_status status = open_all(made, options, size);
    if (status) return ls_tools_gpus_close(made, status);
    *gpus = made;
    return LS_OK;
}

static void release_vectors(ls_tools_gpus *gpus) {
    for (int i = 0; i < gpus->strategy->local_count; i++)
        if (gpus->vectors[i]) device_of(gpus, i)->ops->release(device_of(gpus, i), gpus->vectors[i]);
}

ls_status ls_tools_gpus_close(ls_tools_gpus *gpus, ls_status status) {
    if (!gpus) return status;
    ls_nccl_abort(gpus->nccl);
    bool used = ls_nccl_is_left(gpus->nccl); /* by NCCL, which was left behind with the vectors */
    ls_nccl_free(gpus->nccl);
    if (gpus->strategy && !used) release_vectors(gpus);
    status = ls_strategy_close(gpus->strategy, status);
    ls_free(gpus);
    return status;
}

ls_communicator *ls_tools_gpus_workers(ls_tools_gpus *gpus) {
    LS_NEED_OR(NULL, gpus);
    return &gpus->workers;
}

void ls_tools_gpus_count(const ls_tools_gpus *gpus, int *first, int *here, int *total) {
    LS_NEED_OR(, gpus, first, here, total);
    *first = gpus->strategy->replicas[0].id;
    *here = gpus->strategy->local_count;
    *total = gpus->strategy->total_count;
}

static ls_status check_index(const ls_tools_gpus *gpus, int index) {
    if (index >= 0 && index < gpus->strategy->local_count) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "GPU %d: here are %d", index, gpus->strategy->local_count);
}

ls_status ls_tools_gpus_write(ls_tools_gpus *gpus, int index, const void *data, size_t size) {
    LS_NEED(gpus, data);
    ls_status status = check_index(gpus, index);
    if (status) return status;
    return device_of(gpus, index)->ops->copy_in(device_of(gpus, index), gpus->vectors[index], data, size);
}

ls_status ls_tools_gpus_read(ls_tools_gpus *gpus, int index, void *data, size_t size) {
    LS_NEED(gpus, data);
    ls_status status = check_index(gpus, index);
    if (!status) status = ls_nccl_settle(gpus->nccl, index);
    return status ? status
                  : device_of(gpus, index)->ops->copy_out(device_of(gpus, index), data, gpus->vectors[index], size);
}

ls_status ls_tools_gpus_all_reduce(ls_tools_gpus *gpus, ls_reduce_op op, ls_dtype dtype, size_t count) {
    LS_NEED(gpus);
    return ls_nccl_all_reduce(gpus->nccl, op, dtype, gpus->vectors, count);
}
