/* Who can, who has it, and a step. Whatever is decided is decided alike on all workers: by exchanges, in which each
 * tells what it has. */
#include "strategy/nccl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "collective/group.h"
#include "device/gpu.h"
#include "strategy/abandon.h"
#include "strategy/await.h"
#include "strategy/strategy.h"

#define TRIED 1024 /* numbers */

struct ls_nccl {
    const struct ls_device_group_ops *ops;
    struct ls_device_group *group;                   /* owns */
    struct ls_membership *membership;                /* borrowed */
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES]; /* [count], borrowed */
    void *tried[LS_MAX_LOCAL_DEVICES];               /* device memory of the first sum; owns */
    int count;
    bool aborted, left; /* left: the group is with a thread that aborts it still */
};

/* ---- who can ---- */

enum use { HOST, IF_POSSIBLE, ALWAYS };

/* Between workers communication says it, within one worker the cross-device ops, where they are not chosen for it. */
static enum use use_of(const ls_strategy *strategy) {
    ls_cross_device_ops local = strategy->options.cross_device_ops;
    ls_communication communication = strategy->options.communication;
    bool alone = strategy->membership->size == 1;
    if (alone && local == LS_NCCL_ALL_REDUCE) return ALWAYS;
    if (alone && local != LS_CROSS_DEVICE_AUTO) return HOST;
    if (communication == LS_NCCL) return ALWAYS;
    return alone || communication == LS_AUTO ? IF_POSSIBLE : HOST;
}

static const char *what_must(const ls_strategy *strategy) {
    return strategy->options.communication == LS_NCCL ? "communication NCCL" : "cross-device ops NCCL";
}

/* What a worker can bring: the version of its NCCL, or why it has nothing: these, or the first device that is no GPU,
 * counted from -1 downwards. */
enum { HAS_NO_NCCL = 0, SHARES_DEVICES = -1000 };

static int64_t own_offer(const ls_strategy *strategy) {
    const char *why;
    for (int i = 0; i < strategy->local_count; i++)
        if (strategy->replicas[i].device->host_memory) return -1 - i;
    if (strategy->local_count > strategy->device_count) return SHARES_DEVICES;
    const struct ls_device_group_ops *ops = ls_gpu_group(&why);
    return ops ? ops->version() : HAS_NO_NCCL;
}

struct version {
    char text[40]; /* "2.28.9" */
};

static struct version version_of(int64_t offer) {
    struct version version;
    int number = (int)offer;
    (void)snprintf(version.text, sizeof(version.text), "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    return version;
}

static const char *why_none(const struct ls_membership *membership, int rank) {
    const char *why = "its lockstep info says why";
    if (rank == membership->rank) (void)ls_gpu_group(&why);
    return why;
}

/* Why the offers do not fit together; false: they do. */
static bool find_fault(const struct ls_membership *membership, const int64_t *offers, char *text, size_t size) {
    for (int w = 0; w < membership->size; w++) {
        if (offers[w] == SHARES_DEVICES)
            (void)snprintf(text, size, "rank %d holds several replicas on one GPU", w);
        else if (offers[w] < 0)
            (void)snprintf(text, size, "device %d of rank %d is no GPU", (int)(-1 - offers[w]), w);
        else if (offers[w] == HAS_NO_NCCL)
            (void)snprintf(text, size, "rank %d has no NCCL: %s", w, why_none(membership, w));
        else if (offers[w] != offers[0])
            (void)snprintf(text, size, "rank 0 has NCCL %s and rank %d has %s", version_of(offers[0]).text, w,
                           version_of(offers[w]).text);
        else
            continue;
        return true;
    }
    return false;
}

/* On this worker, where a device without host memory has work for NCCL or the host. */
static bool is_worth_telling(const ls_strategy *strategy) {
    bool gpu = false;
    for (int i = 0; i < strategy->local_count; i++) gpu = gpu || !strategy->replicas[i].device->host_memory;
    return gpu && strategy->total_count > 1;
}

static void tell_host(const ls_strategy *strategy, const char *why) {
    const char *who = strategy->node_replicas > 1 ? "not added by NCCL" : "added by the host";
    if (is_worth_telling(strategy))
        ls_log_info(&strategy->membership->log, "gradients of the GPUs are %s: %s", who, why);
}

ls_status ls_nccl_agree(ls_strategy *strategy) {
    struct ls_membership *membership = strategy->membership;
    enum use use = use_of(strategy);
    char fault[400];
    strategy->nccl = false;
    if (use == HOST) return LS_OK;
    LS_CLEANUP(ls_free_pointer) int64_t *offers = ls_alloc_array((size_t)membership->size, sizeof(*offers));
    if (!offers) return ls_fail_memory("offers", (size_t)membership->size * sizeof(*offers));
    ls_status status = ls_membership_exchange(membership, "nccl", own_offer(strategy), offers);
    if (status) return status;
    strategy->nccl = !find_fault(membership, offers, fault, sizeof(fault));
    if (strategy->nccl) return LS_OK;
    if (use == ALWAYS) return ls_fail(LS_INVALID_ARGUMENT, "%s: %s", what_must(strategy), fault);
    tell_host(strategy, fault);
    return LS_OK;
}

/* ---- making the group ---- */

struct ticket {
    int64_t made;
    char id[LS_DEVICE_GROUP_ID];
};
_Static_assert(sizeof(struct ticket) % sizeof(int64_t) == 0, "it is broadcast as words");

static ls_status hand_out_id(const struct ls_nccl *nccl, struct ticket *ticket) {
    ls_status made = nccl->membership->rank == 0 ? nccl->ops->new_id(ticket->id) : LS_OK;
    char error[LS_ERROR_SIZE];
    (void)memcpy(error, ls_error(), strlen(ls_error()) + 1);
    ticket->made = !made;
    ls_status status =
        ls_group_broadcast(nccl->membership->group, "nccl id", 0, LS_INT64, ticket, sizeof(*ticket) / sizeof(int64_t));
    if (made) return ls_fail(made, "%s", error);
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

/* Who waits for a worker where NCCL fails still comes to the exchange of results in time. */
static struct ls_await patience(struct ls_nccl *nccl, ls_status (*ask)(void *context, bool *done), const char *what) {
    struct ls_await await = {.ask = ask, .context = nccl, .limit = nccl->membership->settings.collective_timeout / 2};
    (void)snprintf(await.what, sizeof(await.what), "%s", what);
    return await;
}

static void release_tried(struct ls_nccl *nccl) {
    for (int i = 0; i < nccl->count; i++) {
        if (nccl->tried[i]) nccl->devices[i]->ops->release(nccl->devices[i], nccl->tried[i]);
        nccl->tried[i] = NULL;
    }
}

/* NCCL connects GPUs when they first have to do with each other: so that they can is known only after a sum. */
static ls_status try_sum(struct ls_nccl *nccl) {
    const struct ls_await await = patience(nccl, is_finished, "NCCL to add a first vector");
    ls_status status = LS_OK;
    for (int i = 0; !status && i < nccl->count; i++) {
        status = nccl->devices[i]->ops->allocate(nccl->devices[i], TRIED * sizeof(float), &nccl->tried[i]);
        if (!status) status = nccl->ops->after(nccl->group, i, 0);
    }
    if (!status) status = nccl->ops->wait(nccl->group, 0);
    if (!status) status = nccl->ops->all_reduce(nccl->group, LS_SUM, LS_FLOAT32, nccl->tried, TRIED);
    if (!status) status = ls_await(nccl->membership, &await);
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
    const struct ls_await await = patience(nccl, is_ready, "NCCL to connect the GPUs of all workers");
    ls_status status = nccl->ops->open(&config, &nccl->group);
    if (!status) status = ls_await(nccl->membership, &await);
    return status ? status : try_sum(nccl);
}

/* Whether all have it: *missing is the first rank that has not, or -1. */
static ls_status compare_results(const struct ls_nccl *nccl, bool works, int *missing) {
    struct ls_membership *membership = nccl->membership;
    LS_CLEANUP(ls_free_pointer) int64_t *works_there = ls_alloc_array((size_t)membership->size, sizeof(*works_there));
    if (!works_there) return ls_fail_memory("results", (size_t)membership->size * sizeof(*works_there));
    ls_status status = ls_membership_exchange(membership, "nccl works", works, works_there);
    *missing = -1;
    for (int w = membership->size; !status && w-- > 0;)
        if (!works_there[w]) *missing = w;
    return status;
}

/* Together, whatever happens here: unless the group of workers itself has an end. *works: on all of them; else this
 * thread's message says why not. */
static ls_status try(const ls_strategy *strategy, struct ls_nccl *nccl, bool *works) {
    struct ticket ticket = {0};
    char error[LS_ERROR_SIZE];
    int missing = -1;
    ls_status own = hand_out_id(nccl, &ticket);
    if (!own) own = connect_devices(strategy, nccl, ticket.id);
    (void)memcpy(error, ls_error(), strlen(ls_error()) + 1);
    if (own && ls_abort_raised(nccl->membership->abort)) return own;
    ls_status status = compare_results(nccl, !own, &missing);
    *works = !status && missing < 0;
    if (status || *works) return status;
    if (own)
        (void)ls_fail(own, "%s", error);
    else
        (void)ls_fail(LS_UNKNOWN, "NCCL does not work on rank %d", missing);
    return LS_OK;
}

static ls_status open_group(ls_strategy *strategy, struct ls_nccl *made, bool *works) {
    const struct ls_log *log = &strategy->membership->log;
    ls_status status = try(strategy, made, works);
    if (status) return status;
    if (*works)
        ls_log_info(log, "gradients of %d GPUs are added by NCCL %s", strategy->total_count,
                    version_of(made->ops->version()).text);
    else if (use_of(strategy) == ALWAYS)
        return ls_fail_context(LS_FAILED_PRECONDITION, "%s", what_must(strategy)); /* nobody is lost */
    else
        tell_host(strategy, ls_error());
    return LS_OK;
}

ls_status ls_nccl_open(ls_strategy *strategy, struct ls_nccl **nccl) {
    const char *why;
    bool works = false;
    if (!strategy->nccl || strategy->total_count == 1) return LS_OK;
    struct ls_nccl *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a group of GPUs", sizeof(*made));
    made->ops = ls_gpu_group(&why);
    made->membership = strategy->membership;
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
    if (nccl->aborted) return;
    nccl->aborted = true;
    if (!nccl->group) return;
    for (int i = 0; i < nccl->count; i++) ls_device_drain(nccl->devices[i]); /* NCCL's abort comes behind their ops */
    int64_t begun = ls_now();
    nccl->left = !ls_abandon(nccl->ops, nccl->group);
    for (int i = 0; nccl->left && i < nccl->count; i++) nccl->devices[i]->left = true;
    if (nccl->left)
        ls_log_warning(&nccl->membership->log,
                       "rank %d: NCCL has not aborted its communicator for %.1f s: it is left behind, with the memory "
                       "of the GPUs that it uses",
                       nccl->membership->rank, ls_seconds_since(begun));
}

void ls_nccl_describe(const struct ls_nccl *nccl, char text[LS_ADDER_TEXT]) {
    (void)snprintf(text, LS_ADDER_TEXT, nccl ? "nccl %s" : "host", nccl ? version_of(nccl->ops->version()).text : "");
}

bool ls_nccl_is_aborted(const struct ls_nccl *nccl) {
    return nccl->aborted;
}

bool ls_nccl_is_left(const struct ls_nccl *nccl) {
    return nccl->left;
}

void ls_nccl_free(struct ls_nccl *nccl) {
    if (!nccl) return;
    if (nccl->group && !nccl->left) nccl->ops->close(nccl->group);
    if (!nccl->left) release_tried(nccl);
    ls_free(nccl);
}

/* ---- a step ---- */

/* Where numbers meet again in one mark, what waits for the earlier bucket waits for the later one too. */
static int mark_of(size_t bucket) {
    return (int)(bucket % LS_DEVICE_MARKS);
}

ls_status ls_nccl_give(struct ls_nccl *nccl, int local, size_t bucket) {
    return nccl->ops->after(nccl->group, local, mark_of(bucket));
}

ls_status ls_nccl_add(struct ls_nccl *nccl, size_t bucket, void *const *arrays, size_t count) {
    if (ls_abort_raised(nccl->membership->abort)) return ls_abort_status(nccl->membership->abort);
    ls_status status = nccl->ops->wait(nccl->group, mark_of(bucket));
    return status ? status : nccl->ops->all_reduce(nccl->group, LS_SUM, LS_FLOAT32, arrays, count);
}

/* NCCL may notice a lost worker before the cluster does, which knows who it is. */
static ls_status name_the_lost(const struct ls_nccl *nccl, ls_status status) {
    char error[LS_ERROR_SIZE];
    if (status != LS_UNAVAILABLE || nccl->membership->size == 1) return status;
    (void)memcpy(error, ls_error(), strlen(ls_error()) + 1);
    for (int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT; ls_now() < deadline;) {
        if (ls_abort_raised(nccl->membership->abort)) return ls_abort_status(nccl->membership->abort);
        (void)nanosleep(&(const struct timespec){.tv_nsec = LS_MILLISECOND}, NULL);
    }
    return ls_fail(status, "%s", error);
}

ls_status ls_nccl_finish(struct ls_nccl *nccl) {
    const struct ls_await await = {
        .ask = is_finished, .context = nccl, .what = "NCCL to add the gradients of all workers"};
    return name_the_lost(nccl, ls_await(nccl->membership, &await));
}

ls_status ls_nccl_all_reduce(struct ls_nccl *nccl, ls_reduce_op op, ls_dtype dtype, void *const *arrays, size_t count) {
    const struct ls_await await = {
        .ask = is_finished, .context = nccl, .what = "NCCL to add a vector of all GPUs", .eager = true};
    ls_status status = nccl->ops->all_reduce(nccl->group, op, dtype, arrays, count);
    if (!status) status = ls_await(nccl->membership, &await);
    return name_the_lost(nccl, status);
}

ls_status ls_nccl_settle(struct ls_nccl *nccl, int local) {
    return nccl->ops->settle(nccl->group, local);
}
