/* A worker's part in an all-reduce with parameter servers. It runs in a second group, of workers and servers, with
 * links of its own. Before the first such call, and when the leaves have changed, the workers tell the servers how many
 * leaves each worker has: a server lays out the same schedule from that and from the frame of the lowest worker
 * (serve.c). */
#include "collective/servers/assist.h"

#include <string.h>

#include "base/clock.h"
#include "collective/algorithm.h"
#include "collective/collectives.h"
#include "collective/call.h"
#include "collective/group_private.h"

#define LEAST 64 /* bytes a rank: then no server's block is empty */

bool ls_assist_is_large(size_t count, size_t element, int size) {
    return count / LEAST * element >= (size_t)size;
}

static bool offers(const struct ls_group *group, const struct ls_reduction *reduction) {
    return ls_assist_is_large(reduction->count, reduction->element, group->assist->executor.size);
}

void ls_assist_lay_out(struct ls_group *assist, struct ls_call *made, struct ls_reduction *reduction) {
    made->frame.layout = 0;
    for (int i = 0; i <= assist->executor.size; i++)
        made->frame.layout = ls_frame_digest(made->frame.layout, (uint64_t)reduction->first[i]);
    reduction->rank = assist->executor.rank;
    reduction->size = assist->executor.size;
    reduction->servers = assist->config.servers;
    reduction->hosts = &assist->flat;
    ls_algorithm_schedule(LS_ALGORITHM_ASSIST, &assist->schedule, reduction);
}

ls_status ls_assist_tell_leaves(struct ls_group *assist, const int *first) {
    int workers = assist->executor.size - assist->config.servers;
    size_t count = (size_t)workers + 1;
    if (!memcmp(assist->leaves_told, first, count * sizeof(*first))) return LS_OK;
    memcpy(assist->leaves_told, first, count * sizeof(*first));
    for (int i = workers; i <= assist->executor.size; i++) assist->leaves_told[i] = first[workers];
    return ls_group_broadcast_directly(assist, LS_ASSIST_LEAVES, LS_INT32, assist->leaves_told, count);
}

static ls_status reduce_with_servers(struct ls_group *assist, const struct ls_call *call,
                                     const struct ls_reduction *reduction) {
    ls_status status = ls_assist_tell_leaves(assist, reduction->first);
    if (status) return status;
    struct ls_call made =
        ls_call_begin(assist, LS_KIND_ALL_REDUCE, call->frame.name, (ls_dtype)call->frame.dtype, reduction->count);
    struct ls_reduction wide = *reduction;
    made.combine = call->combine;
    made.conversion = call->conversion;
    made.frame.op = call->frame.op;
    made.frame.total = call->frame.total;
    made.frame.compression = (int32_t)reduction->compression;
    made.frame.algorithm = LS_ALGORITHM_ASSIST;
    made.frame.postscale = reduction->divide;
    wide.first = assist->leaves_told;
    ls_assist_lay_out(assist, &made, &wide);
    return ls_call_finish(assist, ls_call_run(assist, &made));
}

static ls_status run(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction) {
    ls_flight_start(&group->executor.flight, ls_now()); /* the call of this group; its executor does not run */
    return reduce_with_servers(group->assist, call, reduction);
}

const struct ls_assist_ops ls_assist_ops = {offers, run};
