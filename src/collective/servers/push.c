/* Push: direct exchange whose owners are servers alone, and which ends with them. A worker is done when its bytes have
 * left: it hears of the servers in a pull. */
#include "collective/servers/push.h"

#include "collective/servers/assist.h"
#include "collective/call.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"

/* A server that owns nothing of the array hears of the call from rank 0 all the same. */
static void meet_servers(struct ls_group *group, struct ls_call *call) {
    int size = group->executor.size, workers = size - group->config.servers, rank = group->executor.rank;
    ls_call_one_way(group, call);
    for (int i = workers; i < size && !rank; i++) group->roles[i] = LS_ROLE_SINK;
    if (rank >= workers) group->roles[0] = LS_ROLE_SOURCE;
}

static ls_status push_call(struct ls_group *group, const struct ls_push *push, const int *first) {
    struct ls_call made = ls_call_begin(group, LS_KIND_PUSH, push->name, LS_FLOAT32, push->count);
    const struct ls_reduction reduction = {.rank = group->executor.rank,
                                           .size = group->executor.size,
                                           .servers = group->config.servers,
                                           .owned = push->owned,
                                           .copies = push->copies,
                                           .element = sizeof(float),
                                           .count = push->count,
                                           .compression = push->compression,
                                           .first = first,
                                           .inputs = push->inputs,
                                           .outputs = push->outputs,
                                           .hosts = &group->flat};
    made.combine = ls_reduce_combine(LS_SUM, LS_FLOAT32);
    made.conversion = ls_convert_find(push->compression);
    made.frame.op = LS_SUM;
    made.frame.total = (uint64_t)first[group->executor.size];
    made.frame.compression = (int32_t)push->compression;
    made.frame.root = push->copies;
    for (int i = 0; i <= group->executor.size; i++)
        made.frame.layout = ls_frame_digest(made.frame.layout, (uint64_t)first[i]);
    made.frame.layout = ls_call_digest(made.frame.layout, push->owned, group->config.servers);
    ls_schedule_reset(&group->schedule, first[group->executor.size]);
    ls_direct_schedule_push(&group->schedule, &reduction);
    meet_servers(group, &made);
    return ls_call_run(group, &made);
}

ls_status ls_group_push(struct ls_group *group, const struct ls_push *push) {
    bool works = group->executor.rank < group->executor.size - group->config.servers;
    ls_status status = works ? ls_assist_tell_leaves(group, push->first) : LS_OK;
    if (status) return status;
    return ls_call_finish(group, push_call(group, push, works ? group->leaves_told : group->first));
}
