/* The group of GPUs over all workers, and its part in a step. The workers exchange what they have, so that all decide
 * alike. */
#include "gradients/nccl.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "collective/collectives.h"
#include "collective/group.h"
#include "device/gpu.h"
#include "gradients/adder.h"
#include "runtime/wait_for_device.h"
#include "strategy/device_adders.h"

#define TRIED 1024 /* numbers */

struct ls_nccl {
    const struct ls_device_group_ops *ops;
    struct ls_device_group *group;                   /* owns */
    struct ls_runtime *runtime;                      /* borrowed */
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES]; /* [count], borrowed */
    void *tried[LS_MAX_LOCAL_DEVICES];               /* device memory of the first sum; owns */
    int count;
    bool aborted, left; /* left means that a thread still aborts the group */
};

/* ---- making the group ---- */

struct ticket {
    int64_t made;
    char id[LS_DEVICE_GROUP_ID];
};
_Static_assert(sizeof(struct ticket) % sizeof(int64_t) == 0, "it is broadcast as words");

/* The id is that of ncclGetUniqueId, which one process makes for all. Rank 0 broadcasts also when it has none (made is
 * 0): the others then fail at once instead of waiting for a group that nobody opens. */
static ls_status hand_out_id(const struct ls_nccl *nccl, struct ticket *ticket) {
    ls_status made = nccl->runtime->rank == 0 ? nccl->ops->new_id(ticket->id) : LS_OK;
    struct ls_kept_error kept = ls_kept_error_of(made);
    ticket->made = !made;
    ls_status status = ls_group_broadcast(nccl->runtime->group,
                                          LS_BROADCAST("nccl id", ticket, sizeof(*ticket) / sizeof(int64_t), LS_INT64));
    if (made) return ls_kept_error_raise(&kept);
    if (!status && !ticket->made) return ls_fail(LS_UNAVAILABLE, "rank 0 could not make an id for NCCL");
    return status;
}

static ls_status is_ready(void *context, bool *done) {
    const struct ls_nccl *nccl = context;
    return nccl->ops->ready(nccl->group, done);
}

static ls_status is_finished(void *context, bool *done) {
    const struct ls_nccl *nccl = context;
    return nccl->ops->finished(nccl->group, done);
}

/* Half of the timeout, so that a worker whose NCCL fails comes to the exchange of results in time. */
static struct ls_wait_for_device patience(struct ls_nccl *nccl, ls_status (*ask)(void *context, bool *done),
                                          const char *what) {
    struct ls_wait_for_device await = {
        .ask = ask, .context = nccl, .limit = nccl->runtime->settings.collective_timeout / 2};
    (void)snprintf(await.what, sizeof(await.what), "%s", what);
    return await;
}

static void release_tried(struct ls_nccl *nccl) {
    for (int i = 0; i < nccl->count; i++) {
        if (nccl->tried[i]) nccl->devices[i]->ops->release(nccl->devices[i], nccl->tried[i]);
        nccl->tried[i] = NULL;
    }
}

/* Adds once, since NCCL connects GPUs at their first collective. Only a sum proves that it works. */
static ls_status try_sum(struct ls_nccl *nccl) {
    const struct ls_wait_for_device await = patience(nccl, is_finished, "NCCL to add a first vector");
    ls_status status = LS_OK;
    for (int i = 0; !status && i < nccl->count; i++) {
        status = nccl->devices[i]->ops->allocate(nccl->devices[i], TRIED * sizeof(float), &nccl->tried[i]);
        if (!status) status = nccl->ops->after(nccl->group, i, 0);
    }
    if (!status) status = nccl->ops->wait(nccl->group, 0);
    if (!status) status = nccl->ops->all_reduce(nccl->group, LS_SUM, LS_FLOAT32, nccl->tried, TRIED);
    if (!status) status = ls_wait_for_device(nccl->runtime, &await);
    if (status)
        ls_nccl_abort(nccl);
    else
        release_tried(nccl);
    return status;
}

static ls_status connect_devices(const ls_strategy *strategy, struct ls_nccl *nccl, const char *id) {
    nccl->count = strategy->local_count;
    for (int i = 0; i < nccl->count; i++) nccl->devices[i] = strategy->replicas[i].device;
    const struct ls_device_group_config config = {nccl->devices, nccl->count, strategy->replicas[0].id,
                                                  strategy->total_count, id};
    const struct ls_wait_for_device await = patience(nccl, is_ready, "NCCL to connect the GPUs of all workers");
    ls_status status = nccl->ops->open(&config, &nccl->group);
    if (!status) status = ls_wait_for_device(nccl->runtime, &await);
    return status ? status : try_sum(nccl);
}

/* Compares the workers' results. *missing is the first rank without success, or -1. */
static ls_status compare_results(const struct ls_nccl *nccl, bool works, int *missing) {
    struct ls_runtime *runtime = nccl->runtime;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, works_there, (size_t)runtime->size, "results");
    ls_status status = ls_runtime_exchange(runtime, "nccl works", works, works_there);
    *missing = -1;
    for (int w = runtime->size; !status && w-- > 0;)
        if (!works_there[w]) *missing = w;
    return status;
}

/* Collective, also after a failure here, unless the group of workers itself has ended. *works is true if NCCL works on
 * all of them. Otherwise this thread's message tells the reason. */
static ls_status try(const ls_strategy *strategy, struct ls_nccl *nccl, bool *works) {
    struct ticket ticket = {0};
    int missing = -1;
    ls_status own = hand_out_id(nccl, &ticket);
    if (!own) own = connect_devices(strategy, nccl, ticket.id);
    struct ls_kept_error kept = ls_kept_error_of(own);
    if (own && ls_abort_raised(nccl->runtime->abort)) return own;
    ls_status status = compare_results(nccl, !own, &missing);
    *works = !status && missing < 0;
    if (status || *works) return status;
    if (own)
        (void)ls_kept_error_raise(&kept);
    else
        (void)ls_fail(LS_UNKNOWN, "NCCL does not work on rank %d", missing);
    return LS_OK;
}

static ls_status open_group(ls_strategy *strategy, struct ls_nccl *made, bool *works) {
    ls_status status = try(strategy, made, works);
    if (status) return status;
    if (*works)
        ls_runtime_tell(strategy->runtime, "gradients of %d GPUs are added by NCCL %s", strategy->total_count,
                        ls_device_adders_version(made->ops->version()).text);
    else if (ls_device_adders_require_nccl(strategy))
        return ls_fail_context(LS_FAILED_PRECONDITION, "%s",
                               ls_device_adders_require_nccl(strategy)); /* nobody is lost */
    else
        ls_device_adders_tell_host(strategy, ls_error());
    return LS_OK;
}

ls_status ls_nccl_open(ls_strategy *strategy, struct ls_nccl **nccl) {
    const char *why;
    bool works = false;
    if (!strategy->nccl || strategy->total_count == 1) return LS_OK;
    LS_NEW(struct ls_nccl, made, "a group of GPUs");
    made->ops = ls_gpu_group(&why);
    made->runtime = strategy->runtime;
    ls_status status = open_group(strategy, made, &works);
    if (!status && works) {
        *nccl = made;
        return LS_OK;
    }
    ls_nccl_abort(made);
    ls_nccl_free(made);
    return status;
}

void ls_nccl_abort(struct ls_nccl *nccl) {
    if (!nccl || nccl->aborted) return;
    nccl->aborted = true;
    if (!nccl->group) return;
    for (int i = 0; i < nccl->count; i++) ls_device_drain(nccl->devices[i]); /* NCCL's abort comes behind their ops */
    int64_t begun = ls_now();
    nccl->left = !ls_group_abort(nccl->ops, nccl->group);
    for (int i = 0; nccl->left && i < nccl->count; i++) nccl->devices[i]->left = true;
    if (nccl->left)
        ls_log_warning(&nccl->runtime->log,
                       "rank %d: NCCL has not aborted its communicator for %.1f s: it is left behind, with the memory "
                       "of the GPUs that it uses",
                       nccl->runtime->rank, ls_seconds_since(begun));
}

void ls_nccl_describe(const struct ls_nccl *nccl, char text[LS_ADDER_TEXT]) {
    (void)snprintf(text, LS_ADDER_TEXT, nccl ? "nccl %s" : "host",
                   nccl ? ls_device_adders_version(nccl->ops->version()).text : "");
}

bool ls_nccl_is_aborted(const struct ls_nccl *nccl) {
    return nccl && nccl->aborted;
}

bool ls_nccl_is_left(const struct ls_nccl *nccl) {
    return nccl && nccl->left;
}

void ls_nccl_free(struct ls_nccl *nccl) {
    if (!nccl) return;
    if (nccl->group && !nccl->left) nccl->ops->close(nccl->group);
    if (!nccl->left) release_tried(nccl);
    ls_free(nccl);
}

/* ---- a step ---- */

/* Bucket numbers share marks. A wait for the earlier bucket of a shared mark lasts until the later one is there. */
static int mark_of_nccl(size_t bucket) {
    return (int)(bucket % LS_DEVICE_MARKS);
}

/* Tells an error that NCCL blames on others as a loss, like a broken connection. */
static ls_status note_others(const struct ls_nccl *nccl, ls_status status) {
    if (status == LS_UNAVAILABLE) ls_group_sever(nccl->runtime->group);
    return status;
}

/* NCCL may notice a lost worker before the cluster does. The cluster knows its name: it is waited for. */
static ls_status name_the_lost(const struct ls_nccl *nccl, ls_status status) {
    if (note_others(nccl, status) != LS_UNAVAILABLE || nccl->runtime->size == 1) return status;
    struct ls_kept_error kept = ls_kept_error_of(status);
    for (int64_t deadline = ls_now() + LS_NAMING_TIMEOUT; ls_now() < deadline;) {
        if (ls_abort_raised(nccl->runtime->abort)) return ls_abort_status(nccl->runtime->abort);
        (void)nanosleep(&(const struct timespec){.tv_nsec = LS_MILLISECOND}, NULL);
    }
    return ls_kept_error_raise(&kept);
}

static ls_status give_nccl(const struct ls_adder *adder, int local, size_t bucket) {
    const struct ls_nccl *nccl = adder->by;
    return nccl->ops->after(nccl->group, local, mark_of_nccl(bucket));
}

/* In place on the devices. */
static ls_status begin_nccl(const struct ls_adder *adder, size_t bucket) {
    struct ls_nccl *nccl = adder->by;
    const struct ls_bucket *range = &adder->buckets[bucket];
    void *arrays[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < adder->replicas; i++) arrays[i] = adder->routes[i].gradients + range->begin;
    if (ls_abort_raised(nccl->runtime->abort)) return ls_abort_status(nccl->runtime->abort);
    ls_status status = nccl->ops->wait(nccl->group, mark_of_nccl(bucket));
    if (!status) status = nccl->ops->all_reduce(nccl->group, LS_SUM, LS_FLOAT32, arrays, range->end - range->begin);
    return name_the_lost(nccl, status);
}

static ls_status finish_nccl(const struct ls_adder *adder, bool failed) {
    struct ls_nccl *nccl = adder->by;
    const struct ls_wait_for_device await = {
        .ask = is_finished, .context = nccl, .what = "NCCL to add the gradients of all workers"};
    ls_status status = failed ? LS_OK : name_the_lost(nccl, ls_wait_for_device(nccl->runtime, &await));
    struct ls_kept_error kept = ls_kept_error_of(status);
    if (failed || status) ls_nccl_abort(nccl);
    return ls_kept_error_raise(&kept);
}

ls_status ls_nccl_all_reduce(struct ls_nccl *nccl, ls_reduce_op op, ls_dtype dtype, void *const *arrays, size_t count) {
    const struct ls_wait_for_device await = {
        .ask = is_finished, .context = nccl, .what = "NCCL to add a vector of all GPUs", .eager = true};
    ls_status status = nccl->ops->all_reduce(nccl->group, op, dtype, arrays, count);
    if (!status) status = ls_wait_for_device(nccl->runtime, &await);
    return name_the_lost(nccl, status);
}

ls_status ls_nccl_settle(struct ls_nccl *nccl, int local) {
    return nccl->ops->settle(nccl->group, local);
}

static ls_status settle_nccl(const struct ls_adder *adder, int local) {
    return ls_nccl_settle(adder->by, local);
}

/* No bucket comes to the host. */
const struct ls_adder_ops ls_nccl_adds = {
    .give = give_nccl, .begin = begin_nccl, .finish = finish_nccl, .settle = settle_nccl};
