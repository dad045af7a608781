/* Broadcast. Between hosts it goes along a chain from root's on, each passing on what has come, so that the wire is
 * crossed once for every other host; few bytes go from root to all other hosts at once. On root's host root gives to
 * the others through their memory, on others the first rank does. Where no memory is shared every rank is a host. */
#include "base/dtype.h"
#include "base/status.h"
#include "collective/hand_out.h"
#include "collective/state.h"

enum { ONE_STEP = 64 * 1024 /* bytes to all other hosts together */ };

struct broadcast {
    struct ls_group *group;
    struct ls_call *call;
    unsigned char *data;
    size_t bytes;
    int giver; /* on this host */
};

/* Who speaks for host, counted from root's on. */
static int giver_of(const struct broadcast *broadcast, int step) {
    const struct ls_hosts *hosts = &broadcast->group->hosts;
    int root = broadcast->call->frame.root, host = (hosts->host[root] + step) % hosts->count;
    return step ? hosts->members[hosts->start[host]] : root;
}

static int send(const struct broadcast *broadcast, int peer) {
    broadcast->group->roles[peer] = LS_ROLE_PARTNER;
    return ls_schedule_add(
        &broadcast->group->schedule,
        (struct ls_action){.kind = LS_ACTION_SEND, .peer = peer, .from = broadcast->data, .size = broadcast->bytes});
}

static int receive(const struct broadcast *broadcast, int peer) {
    broadcast->group->roles[peer] = LS_ROLE_PARTNER;
    return ls_schedule_add(
        &broadcast->group->schedule,
        (struct ls_action){.kind = LS_ACTION_RECEIVE, .peer = peer, .to = broadcast->data, .size = broadcast->bytes});
}

static void schedule_star(const struct broadcast *broadcast, int step) {
    if (step)
        (void)receive(broadcast, giver_of(broadcast, 0));
    else
        for (int i = 1; i < broadcast->group->hosts.count; i++) (void)send(broadcast, giver_of(broadcast, i));
}

static void schedule_chain(const struct broadcast *broadcast, int step) {
    int received = step ? receive(broadcast, giver_of(broadcast, step - 1)) : -1;
    if (step + 1 == broadcast->group->hosts.count) return;
    ls_schedule_gate(&broadcast->group->schedule, send(broadcast, giver_of(broadcast, step + 1)), received);
}

static void schedule(const struct broadcast *broadcast) {
    const struct ls_hosts *hosts = &broadcast->group->hosts;
    int from = hosts->host[broadcast->call->frame.root], own = hosts->host[broadcast->giver];
    int step = (own - from + hosts->count) % hosts->count;
    if (broadcast->bytes <= ONE_STEP / (size_t)(hosts->count - 1))
        schedule_star(broadcast, step);
    else
        schedule_chain(broadcast, step);
}

static ls_status pass_on(const struct broadcast *broadcast) {
    struct ls_group *group = broadcast->group;
    bool gives = group->executor.rank == broadcast->giver;
    if (group->hosts.count == 1) return LS_OK;
    ls_group_be_patient(group);
    if (!gives && !ls_group_is_speaker(group)) return LS_OK;
    ls_group_between_speakers(group, broadcast->call);
    if (gives) schedule(broadcast);
    return ls_group_run(group, broadcast->call);
}

static ls_status share(const struct broadcast *broadcast) {
    struct ls_group *group = broadcast->group;
    struct ls_shared_call opened;
    bool early = group->hosts.count == 1; /* else nobody must leave before the links are quiet */
    const struct ls_hand_out what = {group->hosts.index[broadcast->giver], early, broadcast->data, broadcast->bytes};
    ls_shared_call_begin(&opened, group->shared, &group->executor, &group->schedule, broadcast->call,
                         group->shared->size);
    ls_hand_out_post(&opened, &what);
    ls_status status = ls_shared_call_open(&opened);
    if (!status) status = pass_on(broadcast);
    if (status) return status;
    ls_group_be_patient(group);
    return ls_hand_out(&opened, &what);
}

static ls_status broadcast(struct ls_group *group, struct ls_call *call, void *data, size_t bytes) {
    const struct ls_hosts *hosts = &group->hosts;
    int own = hosts->host[group->executor.rank], root = call->frame.root;
    const struct broadcast made = {group, call, data, bytes,
                                   hosts->host[root] == own ? root : hosts->members[hosts->start[own]]};
    if (group->executor.size == 1) return ls_group_run(group, call);
    if (group->shared) return share(&made);
    ls_executor_begin(&group->executor, &group->schedule, call);
    return pass_on(&made);
}

static ls_status check_broadcast(const struct ls_group *group, const char *name, int root, ls_dtype dtype,
                                 size_t count) {
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = ls_group_check_name(name);
    if (!status) status = ls_group_check_bytes(name, dtype, count);
    if (!status && (root < 0 || root >= group->executor.size))
        status = ls_fail(LS_INVALID_ARGUMENT, "broadcast '%s': root %d is no rank of a group of %d", name, root,
                         group->executor.size);
    return status;
}

ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count) {
    ls_status status = check_broadcast(group, name, root, dtype, count);
    if (!status && count && !data) status = ls_group_missing_memory(name, "data");
    if (status) return ls_group_finish(group, status);
    struct ls_call call = ls_group_begin(group, LS_KIND_BROADCAST, name, dtype, count);
    call.frame.root = root;
    return ls_group_finish(group, broadcast(group, &call, data, count * ls_dtype_size(dtype)));
}
