/* Broadcast. The hosts form a chain that starts at root's host. Each host passes on the bytes that it has received, so
 * the wire is crossed once for every other host. A small vector goes from root to all other hosts at once, or
 * along a binomial tree where they are many. On its own
 * host root gives the vector to the other ranks through shared memory; on another host the first rank does. Without
 * shared memory every rank is a host. */
#include "collective/collectives.h"

#include "base/status.h"
#include "collective/call.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shm_calls.h"
#include "collective/group_private.h"

enum { ONE_STEP = 64 * 1024 /* bytes to all other hosts together */ };

struct broadcast {
    struct ls_group *group;
    struct ls_call *call;
    unsigned char *data;
    size_t bytes;
    int giver; /* on this host */
};

/* The rank that sends and receives for the host at step of the chain; root's host is step 0. */
static int giver_of(const struct broadcast *broadcast, int step) {
    const struct ls_hosts *hosts = &broadcast->group->hosts;
    int root = broadcast->call->frame.root, host = (hosts->host[root] + step) % hosts->count;
    return step ? hosts->members[hosts->start[host]] : root;
}

static int send(const struct broadcast *broadcast, int peer) {
    broadcast->group->roles[peer] = LS_ROLE_PARTNER;
    return ls_schedule_send(&broadcast->group->schedule, peer, broadcast->data, broadcast->bytes);
}

static int receive_array(const struct broadcast *broadcast, int peer) {
    broadcast->group->roles[peer] = LS_ROLE_PARTNER;
    return ls_schedule_receive(&broadcast->group->schedule, peer, broadcast->data, broadcast->bytes);
}

static void schedule_star(const struct broadcast *broadcast, int step) {
    if (step)
        (void)receive_array(broadcast, giver_of(broadcast, 0));
    else
        for (int i = 1; i < broadcast->group->hosts.count; i++) (void)send(broadcast, giver_of(broadcast, i));
}

/* The send is gated by the receive byte by byte. The last host has all after the time of S bytes and h - 2 grains, and
 * not after h - 1 times S: the chain is a pipeline. */
static void pass_along_chain(const struct broadcast *broadcast, int step) {
    int received = step ? receive_array(broadcast, giver_of(broadcast, step - 1)) : -1;
    if (step + 1 == broadcast->group->hosts.count) return;
    ls_schedule_gate(&broadcast->group->schedule, send(broadcast, giver_of(broadcast, step + 1)), received);
}

/* Host v, counted from root's, hears from v without its lowest bit. */
static void pass_down_tree(const struct broadcast *broadcast, int step) {
    int count = broadcast->group->hosts.count, lowest = step ? step & -step : 1 << 30;
    int received = step ? receive_array(broadcast, giver_of(broadcast, step - lowest)) : -1;
    int farthest = 1;
    while (farthest < count && farthest < lowest) farthest *= 2;
    for (int bit = farthest / 2; bit >= 1; bit /= 2) {
        if (step + bit >= count) continue;
        ls_schedule_gate(&broadcast->group->schedule, send(broadcast, giver_of(broadcast, step + bit)), received);
    }
}

static void schedule(const struct broadcast *broadcast) {
    const struct ls_hosts *hosts = &broadcast->group->hosts;
    int from = hosts->host[broadcast->call->frame.root], own = hosts->host[broadcast->giver];
    int step = (own - from + hosts->count) % hosts->count;
    bool small = broadcast->bytes <= ONE_STEP / (size_t)(hosts->count - 1);
    (!small ? pass_along_chain : hosts->count <= LS_MEET_ALL ? schedule_star : pass_down_tree)(broadcast, step);
}

static ls_status pass_on(const struct broadcast *broadcast) {
    struct ls_group *group = broadcast->group;
    bool gives = group->executor.rank == broadcast->giver;
    if (group->hosts.count == 1) return LS_OK;
    ls_call_be_patient(group);
    if (!gives && !ls_call_is_speaker(group)) return LS_OK;
    ls_call_between_speakers(group, broadcast->call);
    if (!broadcast->bytes && ls_call_is_speaker(group)) ls_call_meet_speakers(group);
    if (gives) schedule(broadcast);
    return ls_call_run(group, broadcast->call);
}

static ls_status share_in_host(const struct broadcast *broadcast) {
    struct ls_group *group = broadcast->group;
    struct ls_shared_call opened;
    bool early = group->hosts.count == 1; /* with several hosts no rank may leave before the links are quiet */
    const struct ls_hand_out what = {group->hosts.index[broadcast->giver], early, broadcast->data, broadcast->bytes};
    ls_shared_call_begin(&opened, group->shared, broadcast->call, group->shared->size);
    ls_shm_broadcast_post(&opened, &what);
    ls_status status = ls_shared_call_open(&opened);
    if (!status) status = pass_on(broadcast);
    if (status) return status;
    ls_call_be_patient(group);
    return ls_shm_broadcast(&opened, &what);
}

static ls_status broadcast(struct ls_group *group, struct ls_call *call, void *data, size_t bytes) {
    const struct ls_hosts *hosts = &group->hosts;
    int own = hosts->host[group->executor.rank], root = call->frame.root;
    const struct broadcast made = {group, call, data, bytes,
                                   hosts->host[root] == own ? root : hosts->members[hosts->start[own]]};
    if (group->executor.size == 1) return ls_call_run(group, call);
    if (group->shared) return share_in_host(&made);
    ls_executor_begin(&group->executor, &group->schedule, call);
    return pass_on(&made);
}

ls_status ls_group_broadcast_check(const struct ls_group *group, const ls_broadcast_options *what) {
    ls_status status = ls_call_check_name(what->name);
    if (!status) status = ls_call_check_bytes(what->name, what->dtype, what->count);
    if (!status && (what->root < 0 || what->root >= group->executor.size))
        status = ls_fail(LS_INVALID_ARGUMENT, "broadcast '%s': root %d is no rank of a group of %d", what->name,
                         what->root, group->executor.size);
    if (!status && what->count && !what->data) status = ls_call_missing_memory(what->name, "data");
    return status;
}

ls_status ls_group_broadcast(struct ls_group *group, const ls_broadcast_options *what) {
    ls_status status = ls_group_broadcast_check(group, what);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct ls_call call = ls_call_begin(group, LS_KIND_BROADCAST, what->name, what->dtype, what->count);
    call.frame.root = what->root;
    return ls_call_finish(group, broadcast(group, &call, what->data, what->count * ls_dtype_size(what->dtype)));
}

/* Without shared memory. */
static void schedule_tell(struct ls_group *group, const struct ls_call *call, void *data, size_t bytes) {
    int rank = group->executor.rank, size = group->executor.size;
    if (rank) (void)ls_schedule_receive(&group->schedule, 0, data, bytes);
    for (int i = 1; i < size && rank == call->frame.root; i++) (void)ls_schedule_send(&group->schedule, i, data, bytes);
}

ls_status ls_group_broadcast_directly(struct ls_group *group, const char *name, ls_dtype dtype, void *data,
                                      size_t count) {
    ls_status status = ls_group_broadcast_check(group, LS_BROADCAST(name, data, count, dtype));
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct ls_call call = ls_call_begin(group, LS_KIND_BROADCAST, name, dtype, count);
    call.frame.root = 0;
    ls_call_one_way(group, &call);
    schedule_tell(group, &call, data, count * ls_dtype_size(dtype));
    return ls_call_finish(group, ls_call_run(group, &call));
}
