/* Choice of the adder of gradients. Each worker tells in two exchanges what its devices can, so that all decide alike.
 */
#include "strategy/device_adders.h"

#include <stdio.h>

#include "base/new.h"
#include "device/gpu.h"
#include "strategy/strategy.h"

/* ---- in the node ---- */

static bool has_several(const ls_strategy *strategy) {
    for (int w = 0; w < strategy->runtime->size; w++)
        if (strategy->first[w + 1] - strategy->first[w] > 1) return true;
    return false;
}

/* The size of groups of replicas, counted from replica 0, that lie on one worker each and make up a subtree. The last
 * group of all may be smaller. starts collects the first replica ids of all workers. Its lowest bit that is set is the
 * largest power of two that divides all of them: groups of that size begin at multiples of it on every worker, and each
 * is a node of the tree. */
static int aligned_replicas(const ls_strategy *strategy) {
    int starts = LS_MAX_LOCAL_DEVICES; /* a power of two */
    for (int w = 1; w < strategy->runtime->size; w++) starts |= strategy->first[w];
    return starts & -starts;
}

static int replicas_of_group(const ls_strategy *strategy) {
    bool any = strategy->runtime->size == 1 || strategy->runtime->communication == LS_RING;
    return any ? LS_MAX_LOCAL_DEVICES : aligned_replicas(strategy);
}

/* Devices of one plugin. */
static bool can_add(const ls_strategy *strategy) {
    const struct ls_device_ops *ops = strategy->replicas[0].device->ops;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_device *device = strategy->replicas[i].device;
        if (device->host_memory || device->ops != ops) return false;
    }
    return true;
}

static ls_status agree_in_node(ls_strategy *strategy) {
    struct ls_runtime *runtime = strategy->runtime;
    strategy->node_replicas = 1;
    if (!has_several(strategy)) return LS_OK;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, can, (size_t)runtime->size, "offers");
    ls_status status = ls_runtime_exchange(runtime, "adds in the node", can_add(strategy), can);
    bool all = !status;
    for (int w = 0; all && w < runtime->size; w++) all = can[w];
    if (all) strategy->node_replicas = replicas_of_group(strategy);
    return status;
}

/* ---- NCCL ---- */

enum use { HOST, IF_POSSIBLE, ALWAYS };

/* The option that chooses the adder: communication between workers, the cross-device ops within one worker, unless they
 * are not chosen for it. */
static enum use use_of(const ls_strategy *strategy) {
    ls_cross_device_ops local = strategy->options.cross_device_ops;
    ls_communication communication = strategy->options.communication;
    bool alone = strategy->runtime->size == 1;
    if (alone && local == LS_NCCL_ALL_REDUCE) return ALWAYS;
    if (alone && local != LS_CROSS_DEVICE_AUTO) return HOST;
    if (communication == LS_NCCL) return ALWAYS;
    return alone || communication == LS_AUTO ? IF_POSSIBLE : HOST;
}

const char *ls_device_adders_require_nccl(const ls_strategy *strategy) {
    if (use_of(strategy) != ALWAYS) return NULL;
    return strategy->options.communication == LS_NCCL ? "communication NCCL" : "cross-device ops NCCL";
}

/* A worker's offer: the version of its NCCL, or a reason against it. The reason is one of these, or the first device
 * that is no GPU, counted from -1 downwards. */
enum { HAS_NO_NCCL = 0, SHARES_DEVICES = -1000 };

static int64_t own_offer(const ls_strategy *strategy) {
    const char *why;
    for (int i = 0; i < strategy->local_count; i++)
        if (strategy->replicas[i].device->host_memory) return -1 - i;
    if (strategy->local_count > strategy->device_count) return SHARES_DEVICES;
    const struct ls_device_group_ops *ops = ls_gpu_group(&why);
    return ops ? ops->version() : HAS_NO_NCCL;
}

struct ls_adder_version ls_device_adders_version(int64_t offer) {
    struct ls_adder_version version;
    int number = (int)offer;
    (void)snprintf(version.text, sizeof(version.text), "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    return version;
}

static const char *why_none(const struct ls_runtime *runtime, int rank) {
    const char *why = "its lockstep info says why";
    if (rank == runtime->rank) (void)ls_gpu_group(&why);
    return why;
}

/* Writes why the offers do not fit together. Returns false if they do. */
static bool find_fault(const struct ls_runtime *runtime, const int64_t *offers, char *text, size_t size) {
    for (int w = 0; w < runtime->size; w++) {
        if (offers[w] == SHARES_DEVICES)
            (void)snprintf(text, size, "rank %d holds several replicas on one GPU", w);
        else if (offers[w] < 0)
            (void)snprintf(text, size, "device %d of rank %d is no GPU", (int)(-1 - offers[w]), w);
        else if (offers[w] == HAS_NO_NCCL)
            (void)snprintf(text, size, "rank %d has no NCCL: %s", w, why_none(runtime, w));
        else if (offers[w] != offers[0])
            (void)snprintf(text, size, "rank 0 has NCCL %s and rank %d has %s",
                           ls_device_adders_version(offers[0]).text, w, ls_device_adders_version(offers[w]).text);
        else
            continue;
        return true;
    }
    return false;
}

/* True if a device of this worker has no host memory and has work for NCCL or the host. */
static bool is_worth_telling(const ls_strategy *strategy) {
    bool gpu = false;
    for (int i = 0; i < strategy->local_count; i++) gpu = gpu || !strategy->replicas[i].device->host_memory;
    return gpu && strategy->total_count > 1;
}

void ls_device_adders_tell_host(const ls_strategy *strategy, const char *why) {
    const char *who = strategy->node_replicas > 1 ? "not added by NCCL" : "added by the host";
    if (is_worth_telling(strategy)) ls_runtime_tell(strategy->runtime, "gradients of the GPUs are %s: %s", who, why);
}

static ls_status agree_on_nccl(ls_strategy *strategy) {
    struct ls_runtime *runtime = strategy->runtime;
    char fault[400];
    strategy->nccl = false;
    if (use_of(strategy) == HOST) return LS_OK;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, offers, (size_t)runtime->size, "offers");
    ls_status status = ls_runtime_exchange(runtime, "nccl", own_offer(strategy), offers);
    if (status) return status;
    strategy->nccl = !find_fault(runtime, offers, fault, sizeof(fault));
    if (strategy->nccl) return LS_OK;
    const char *required = ls_device_adders_require_nccl(strategy);
    if (required) return ls_fail(LS_INVALID_ARGUMENT, "%s: %s", required, fault);
    ls_device_adders_tell_host(strategy, fault);
    return LS_OK;
}

ls_status ls_device_adders_agree(ls_strategy *strategy) {
    if (strategy->local.sync_every) { /* the host adds a worker's gradients */
        strategy->node_replicas = 1;
        return LS_OK;
    }
    ls_status status = agree_in_node(strategy);
    return status ? status : agree_on_nccl(strategy);
}
