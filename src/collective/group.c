/* Making and freeing a group, and the memory that its workers share. */
#include "collective/group.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "collective/algorithm.h"
#include "collective/collectives.h"
#include "collective/call.h"
#include "collective/run/mailbox.h"
#include "collective/schedule/reduction.h"
#include "collective/shm/notice.h"
#include "collective/shm/shared.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"

enum { MIN_SEGMENT = 64, DEFAULT_SEGMENT = 256 * 1024, DEFAULT_DIRECT = 32 };
#define MAX_SEGMENT ((size_t)1 << 30)

static ls_status check_config(const struct ls_group_config *config) {
    if (config->size < 1 || config->rank < 0 || config->rank >= config->size)
        return ls_fail(LS_INVALID_ARGUMENT, "rank %d of a group of %d: rank must be 0 to size - 1", config->rank,
                       config->size);
    if (config->algorithm >= LS_ALGORITHM_COUNT || !ls_algorithm_info(config->algorithm)->in_tree_order)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "algorithm %d does not add in the order of AUTO: ask for communication RING",
                       (int)config->algorithm);
    if (config->servers < 0 || config->servers >= config->size)
        return ls_fail(LS_INVALID_ARGUMENT, "%d parameter servers in a group of %d", config->servers, config->size);
    if (!config->abort) return ls_fail(LS_INVALID_ARGUMENT, "a group needs an abort flag");
    if (config->size == 1) return LS_OK;
    return config->source ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "a group of %d needs a source of links", config->size);
}

static size_t segment_of(const struct ls_group_config *config) {
    if (!config->segment) return DEFAULT_SEGMENT;
    if (config->segment < MIN_SEGMENT) return MIN_SEGMENT;
    return config->segment < MAX_SEGMENT ? config->segment : MAX_SEGMENT;
}

static bool allocate_peers(struct ls_group *group) {
    struct ls_executor *executor = &group->executor;
    size_t size = (size_t)executor->size;
    executor->peers = ls_alloc_array(size, sizeof(*executor->peers));
    executor->polls = ls_alloc_array(size, sizeof(*executor->polls));
    executor->heeded = ls_alloc_array(size, sizeof(*executor->heeded));
    executor->staging = ls_alloc_aligned(executor->segment + sizeof(double));
    group->first = ls_alloc_array(size + 1, sizeof(*group->first));
    group->roles = ls_alloc(size);
    return executor->peers && executor->polls && executor->heeded && executor->staging && group->first &&
           group->roles && !ls_schedule_init(&group->schedule, executor->size) &&
           !ls_hosts_init(&group->flat, executor->size, NULL) && !ls_hosts_init(&group->hosts, executor->size, NULL);
}

ls_status ls_group_new(const struct ls_group_config *config, struct ls_group **group) {
    ls_status status = check_config(config);
    if (status) return status;
    LS_NEW(struct ls_group, made, "a group");
    made->config = *config;
    if (!config->direct_limit) made->config.direct_limit = DEFAULT_DIRECT;
    if (config->size <= LS_MEET_ALL) made->config.record = NULL;
    made->executor = (struct ls_executor){.rank = config->rank,
                                          .size = config->size,
                                          .members = config->members,
                                          .apart = config->servers > 0,
                                          .abort = config->abort,
                                          .log = config->log,
                                          .algorithm_name = ls_algorithm_name,
                                          .timeout = config->timeout,
                                          .report_interval = config->report_interval,
                                          .segment = segment_of(config),
                                          .stalled = made->config.record ? config->hooks.stalled : NULL,
                                          .context = config->hooks.context};
    if (!allocate_peers(made) || ls_flight_init(&made->executor.flight, config->flight_record, config->activity)) {
        ls_group_free(made);
        return ls_fail_memory("a group", (size_t)config->size * sizeof(struct ls_executor_peer));
    }
    int workers = config->size - config->servers;
    for (int i = 0; i <= config->size; i++) made->first[i] = i < workers ? i : workers;
    const struct ls_mailbox mailbox = {.rank = config->rank,
                                       .size = config->size,
                                       .generation = config->generation,
                                       .source = config->mail,
                                       .limit = config->mail_limit};
    status = ls_mailbox_new(&mailbox, &made->mailbox);
    if (!status) made->executor.source = config->source;
    return LS_HAND_OVER(status, group, made, ls_group_free(made));
}

ls_status ls_group_assist(struct ls_group *group, struct ls_group *assist, const struct ls_assist_ops *ops) {
    size_t size = (size_t)assist->executor.size + 1;
    assist->leaves_told = ls_alloc_array(size, sizeof(*assist->leaves_told));
    group->assist = assist;
    group->assisting = ops;
    if (!assist->leaves_told) return ls_fail_memory("the leaves of the workers", size * sizeof(*assist->leaves_told));
    memcpy(assist->leaves_told, assist->first, size * sizeof(*assist->leaves_told));
    return LS_OK;
}

int ls_group_servers(const struct ls_group *group) {
    return group->assist ? group->assist->config.servers : 0;
}

struct ls_group *ls_group_assisted(const struct ls_group *group) {
    return group->assist;
}

int ls_group_serving(const struct ls_group *group) {
    return group->config.servers;
}

void ls_group_free(struct ls_group *group) {
    if (!group) return;
    struct ls_executor *executor = &group->executor;
    for (int i = 0; executor->peers && i < executor->size; i++)
        if (executor->peers[i].link) executor->peers[i].link->ops->close(executor->peers[i].link);
    if (executor->source) executor->source->ops->close(executor->source);
    ls_mailbox_free(group->mailbox);
    ls_free(executor->peers);
    ls_free(executor->polls);
    ls_free(executor->heeded);
    ls_free(executor->staging);
    ls_schedule_free(&group->schedule);
    ls_free(group->first);
    ls_free(group->leaves_told);
    ls_group_free(group->assist);
    ls_free(group->roles);
    ls_free(group->fusion);
    ls_hosts_free(&group->flat);
    ls_hosts_free(&group->hosts);
    if (group->shared) ls_notice_end(group->shared, LS_OK, "");
    ls_shared_free(group->shared);
    ls_flight_free(&executor->flight);
    ls_free(group);
}

bool ls_group_is_severed(const struct ls_group *group) {
    if (group->assist && atomic_load(&group->assist->executor.severed)) return true;
    return atomic_load(&group->executor.severed);
}

void ls_group_sever(struct ls_group *group) {
    atomic_store(&group->executor.severed, true);
}

ls_status ls_group_fail(struct ls_group *group, ls_status status) {
    return ls_call_finish(group, status);
}

int ls_group_rank(const struct ls_group *group) {
    return group->executor.rank;
}

const struct ls_flight *ls_group_flight(const struct ls_group *group) {
    return &group->executor.flight;
}

int ls_group_host(const struct ls_group *group, int rank) {
    return group->hosts.host[rank];
}

int ls_group_size(const struct ls_group *group) {
    return group->executor.size;
}

/* ---- shared memory ---- */

bool ls_group_is_one_host(const struct ls_group *group) {
    return group->shared && group->hosts.count == 1;
}

const char *ls_group_links(const struct ls_group *group) {
    return group->executor.source ? group->executor.source->name : "none";
}

const char *ls_group_describe(const struct ls_group *group) {
    return *group->description ? group->description : ls_group_links(group);
}

const char *ls_group_transport(const struct ls_group *group) {
    return *group->transport_name ? group->transport_name : ls_group_links(group);
}

static ls_status find_factor(struct ls_group *group) {
    size_t size = (size_t)group->executor.size;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_subtree, ranges, size, "a list of leaves");
    const struct ls_reduction reduction = {.size = group->executor.size, .first = group->first, .hosts = &group->hosts};
    for (int host = 0; host < group->hosts.count; host++) {
        int parts = ls_direct_host_parts(&reduction, host, ranges, NULL, 0);
        if (parts > group->factor) group->factor = parts;
    }
    return LS_OK;
}

/* "shared memory in 2 hosts of 1 to 3 and tcp between them" */
static void describe_hosts(struct ls_group *group) {
    const struct ls_hosts *hosts = &group->hosts;
    int least = hosts->size, most = 0;
    if (hosts->count == hosts->size) return;
    for (int host = 0; host < hosts->count; host++) {
        int members = ls_hosts_members(hosts, host);
        if (members < least) least = members;
        if (members > most) most = members;
    }
    char range[32] = "";
    bool one = hosts->count == 1;
    if (least < most) (void)snprintf(range, sizeof(range), "%d to ", least);
    (void)snprintf(group->transport_name, sizeof(group->transport_name), "shm%s%s", one ? "" : "+",
                   one ? "" : ls_group_links(group));
    if (one)
        (void)snprintf(group->description, sizeof(group->description), "shared memory");
    else
        (void)snprintf(group->description, sizeof(group->description),
                       "shared memory in %d hosts of %s%d and %s between them", hosts->count, range, most,
                       ls_group_links(group));
}

static ls_status gather_all(void *context, const ls_all_gather_options *call) {
    return ls_group_all_gather(context, call);
}

static struct ls_discover_ranks ranks_of(struct ls_group *group) {
    return (struct ls_discover_ranks){group->executor.rank, group->executor.size, &group->hosts, gather_all, group};
}

static ls_status connect_shared(struct ls_group *group) {
    struct ls_shared_reason reason = {""};
    const struct ls_executor *executor = &group->executor;
    const struct ls_discover_ranks ranks = ranks_of(group);
    const struct ls_shared_options options = {.wanted = group->config.transport != LS_TRANSPORT_TCP,
                                              .pretended_host = group->config.pretended_host,
                                              .executor = &group->executor,
                                              .schedule = &group->schedule};
    ls_status status = ls_shared_open(&ranks, &options, &group->shared, &reason);
    if (!status) status = find_factor(group);
    if (status) return status;
    describe_hosts(group);
    if (group->hosts.count > 1 && group->config.transport == LS_TRANSPORT_SHM)
        return ls_fail(
            LS_FAILED_PRECONDITION,
            "LOCKSTEP_TRANSPORT is shm, but there is no shared memory between all workers: %s; set it to auto "
            "or tcp",
            reason.text);
    ls_log_shared(executor->log, !executor->rank && !executor->members, LS_LOG_INFO,
                  "workers exchange gradients through %s%s%s%s", ls_group_describe(group), *reason.text ? " (" : "",
                  reason.text, *reason.text ? ")" : "");
    return LS_OK;
}

ls_status ls_group_connect(struct ls_group *group) {
    if (group->executor.size == 1) return LS_OK;
    return ls_call_finish(group, connect_shared(group));
}

/* *memory stays NULL where it cannot be shared. */
static ls_status share_memory(struct ls_group *group, size_t size, void **memory) {
    struct ls_shared_reason reason = {""};
    if (group->hosts.count == group->hosts.size) return LS_OK;
    const struct ls_discover_ranks ranks = ranks_of(group);
    ls_status status = ls_shared_allocate(group->shared, &ranks, size, memory, &reason);
    if (!status && group->shared && !*memory)
        ls_log_shared(group->executor.log, group->executor.size <= LS_LOG_FEW || ls_call_is_speaker(group),
                      LS_LOG_WARNING, "%zu bytes are not shared: %s", size, reason.text);
    return status;
}

ls_status ls_group_share(struct ls_group *group, size_t size, void **memory) {
    void *made = NULL;
    ls_status status = size ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "shared memory of 0 bytes");
    if (!status) status = share_memory(group, size, &made);
    if (!status && !made && !(made = ls_alloc_aligned(size))) status = ls_fail_memory("memory to be shared", size);
    if (!status) *memory = made;
    return ls_call_finish(group, status);
}

void ls_group_unshare(struct ls_group *group, void *memory) {
    if (!group->shared || !memory || !ls_shared_release(group->shared, memory)) ls_free(memory);
}
