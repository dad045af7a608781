/* Pull: each server sends its ranges to the workers, part by part. */
#include "collective/servers/pull.h"

#include "collective/call.h"
#include "collective/group_private.h"

static void schedule_parts(struct ls_group *group, const struct ls_pull *pull) {
    int workers = group->executor.size - group->config.servers, server = group->executor.rank - workers;
    for (size_t i = 0; i < pull->count; i++) {
        const struct ls_pulled *part = &pull->parts[i];
        for (int step = 0; step < (server < 0 ? group->config.servers : workers); step++) {
            int other = server < 0 ? (group->executor.rank + step) % group->config.servers : (server + step) % workers;
            int worker = server < 0 ? group->executor.rank : other;
            if (pull->to >= 0 && pull->to != worker) continue;
            const struct ls_stripe *owned = &part->owned[server < 0 ? other : server];
            if (server < 0)
                (void)ls_schedule_receive(&group->schedule, workers + other, pull->array + owned->offset, owned->size);
            else
                (void)ls_schedule_send(&group->schedule, worker, part->from, owned->size);
        }
    }
}

/* A worker hears of every server that it has come so far, also of one that owns nothing of the array: what the others
 * own may be in its copies, and then it has them. */
static void pair_with_servers(struct ls_group *group, struct ls_call *call, int to) {
    int size = group->executor.size, workers = size - group->config.servers, rank = group->executor.rank;
    ls_call_one_way(group, call);
    for (int i = 0; i < size && to < 0; i++)
        if ((i < workers) != (rank < workers)) group->roles[i] = rank < workers ? LS_ROLE_SOURCE : LS_ROLE_SINK;
}

ls_status ls_group_pull(struct ls_group *group, const struct ls_pull *pull) {
    size_t bytes = 0;
    struct ls_call made = ls_call_begin(group, LS_KIND_PULL, pull->name, LS_UINT8, 0);
    made.frame.root = pull->to;
    for (size_t i = 0; i < pull->count; i++) {
        made.frame.layout = ls_call_digest(made.frame.layout, pull->parts[i].owned, group->config.servers);
        for (int s = 0; s < group->config.servers; s++) bytes += pull->parts[i].owned[s].size;
    }
    made.frame.count = bytes;
    pair_with_servers(group, &made, pull->to);
    schedule_parts(group, pull);
    return ls_call_finish(group, ls_call_run(group, &made));
}
