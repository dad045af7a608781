/* The steps that every collective takes. */
#include "collective/call.h"

#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/options.h"
#include "base/text.h"
#include "collective/group_private.h"
#include "collective/run/failure_frame.h"
#include "collective/run/wait.h"
#include "collective/schedule/schedules.h"
#include "collective/schedule/reduce.h"
#include "collective/shm/notice.h"

ls_status ls_call_check_name(const char *name) {
    return name ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "a collective needs a name");
}

ls_status ls_call_check_bytes(const char *name, ls_dtype dtype, size_t count) {
    ls_status status = ls_dtype_check(dtype);
    if (!status && count > PTRDIFF_MAX / ls_dtype_size(dtype))
        status =
            ls_fail(LS_INVALID_ARGUMENT, "count %zu of %s is more than memory can hold", count, ls_dtype_name(dtype));
    return status ? ls_fail_context(status, "collective '%s'", name) : LS_OK;
}

ls_status ls_call_check_op(const char *name, ls_reduce_op op, ls_dtype dtype) {
    ls_status status = ls_reduce_check(op, dtype);
    return status ? ls_fail_context(status, "collective '%s'", name) : LS_OK;
}

ls_status ls_call_sum_counts(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                             size_t *total) {
    size_t sum = 0;
    if (!counts) return ls_call_missing_memory(name, "counts");
    for (int i = 0; i < group->executor.size; i++)
        if (__builtin_add_overflow(sum, counts[i], &sum))
            return ls_fail(LS_INVALID_ARGUMENT, "collective '%s': the sum of counts overflows at rank %d", name, i);
    ls_status status = ls_call_check_bytes(name, dtype, sum);
    if (!status) *total = sum;
    return status;
}

size_t ls_call_bytes_before(const size_t *counts, int rank, size_t element) {
    size_t sum = 0;
    for (int i = 0; i < rank; i++) sum += counts[i];
    return sum * element;
}

ls_status ls_call_check_communication(const char *name, ls_communication communication) {
    if (communication == LS_AUTO || communication == LS_RING) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED, "collective '%s': communication %s is not for memory of the host", name,
                   ls_option_names_communication(communication));
}

ls_status ls_call_missing_memory(const char *name, const char *which) {
    return ls_fail(LS_INVALID_ARGUMENT, "collective '%s': %s is NULL", name, which);
}

struct ls_call ls_call_begin(struct ls_group *group, enum ls_collective_kind kind, const char *name, ls_dtype dtype,
                             size_t count) {
    struct ls_call call = {.frame = {.generation = group->config.generation,
                                     .sequence = group->sequence++,
                                     .count = count,
                                     .rank = group->executor.rank,
                                     .size = group->executor.size,
                                     .root = -1,
                                     .kind = (int32_t)kind,
                                     .dtype = (int32_t)dtype}};
    ls_frame_name(&call.frame, name);
    ls_flight_begin(&group->executor.flight, &call.frame);
    if (!group->executor.members && !group->executor.apart) ls_abort_count(group->executor.abort, group->sequence);
    ls_schedule_reset(&group->schedule, 1);
    return call;
}

void ls_call_be_patient(struct ls_group *group) {
    if (group->hosts.count > 1 && group->hosts.count < group->hosts.size) ls_wait_be_patient(&group->executor);
}

void ls_call_between_hosts(struct ls_group *group, struct ls_call *call) {
    const struct ls_hosts *hosts = &group->hosts;
    int own = hosts->host[group->executor.rank];
    for (int i = 0; i < hosts->size; i++) group->roles[i] = hosts->host[i] == own ? LS_ROLE_COMPANION : LS_ROLE_NONE;
    call->roles = group->roles;
    call->resumed = true;
}

uint64_t ls_call_digest(uint64_t digest, const struct ls_stripe *owned, int servers) {
    for (int i = 0; i < servers; i++) digest = ls_frame_digest(ls_frame_digest(digest, owned[i].offset), owned[i].size);
    return digest;
}

static void meet_nobody(struct ls_group *group, struct ls_call *call) {
    memset(group->roles, LS_ROLE_NONE, (size_t)group->executor.size);
    call->roles = group->roles;
}

void ls_call_along_edges(struct ls_group *group, struct ls_call *call) {
    if (group->executor.size > LS_MEET_ALL) meet_nobody(group, call);
}

void ls_call_one_way(struct ls_group *group, struct ls_call *call) {
    meet_nobody(group, call);
    call->one_way = true;
}

bool ls_call_is_speaker(const struct ls_group *group) {
    return group->hosts.index[group->executor.rank] == 0;
}

void ls_call_between_speakers(struct ls_group *group, struct ls_call *call) {
    const struct ls_hosts *hosts = &group->hosts;
    ls_call_between_hosts(group, call);
    if (!ls_call_is_speaker(group) || hosts->count > LS_MEET_ALL) return;
    for (int host = 0; host < hosts->count; host++)
        if (host != hosts->host[group->executor.rank])
            group->roles[hosts->members[hosts->start[host]]] = LS_ROLE_PARTNER;
}

void ls_call_meet_speakers(struct ls_group *group) {
    const struct ls_hosts *hosts = &group->hosts;
    if (hosts->count <= LS_MEET_ALL) return;
    int *speakers = ls_schedule_take(&group->schedule, (size_t)hosts->count * sizeof(*speakers));
    for (int host = 0; speakers && host < hosts->count; host++) speakers[host] = hosts->members[hosts->start[host]];
    if (speakers) ls_meet_schedule(&group->schedule, speakers, hosts->count, hosts->host[group->executor.rank]);
}

/* Of a call that moves no bytes nobody leaves before all have come, whose fingerprints are compared then. */
static void meet_all(struct ls_group *group, const struct ls_call *call) {
    int size = group->executor.size;
    if (!group->schedule.action_count && !call->roles && size > LS_MEET_ALL)
        ls_meet_schedule(&group->schedule, NULL, size, group->executor.rank);
}

ls_status ls_call_run(struct ls_group *group, const struct ls_call *call) {
    if (group->shared && !call->resumed) ls_notice_call(group->shared, &call->frame);
    if (group->config.record) ls_call_record_note(group->config.record, &call->frame);
    meet_all(group, call);
    if (group->schedule.out_of_memory) return ls_fail(LS_RESOURCE_EXHAUSTED, "no memory for a collective's schedule");
    return ls_executor_run(&group->executor, &group->schedule, call);
}

static void tell_host(const struct ls_group *group, ls_status status) {
    char cause[LS_ERROR_SIZE];
    if (!group->shared) return;
    if (group->executor.told)
        (void)snprintf(cause, sizeof(cause), "%s", ls_error());
    else
        (void)snprintf(cause, sizeof(cause), "rank %d: %.1000s", group->executor.rank, ls_error());
    ls_notice_end(group->shared, status, cause);
}

/* The ranks that an error of a set names are the set's own. */
static ls_status name_set(const struct ls_executor *executor, ls_status status) {
    char ranks[128] = "";
    for (int i = 0; i < executor->size; i++) ls_text_list(ranks, sizeof(ranks), executor->members[i]);
    return ls_fail_context(status, "process set of ranks %s", ranks);
}

ls_status ls_call_finish(struct ls_group *group, ls_status status) {
    ls_flight_end(&group->executor.flight, status != LS_OK);
    if (!status) return LS_OK;
    bool own = !group->executor.told && !ls_abort_raised(group->executor.abort);
    if (own && group->executor.members) (void)name_set(&group->executor, status);
    ls_abort_raise(group->executor.abort, status, ls_error());
    status = ls_abort_status(group->executor.abort);
    if (group->told) return status;
    group->told = true;
    tell_host(group, status);
    ls_failure_frame_send(&group->executor, group->config.generation, status, ls_error());
    if (group->config.hooks.failed) group->config.hooks.failed(group->config.hooks.context, status, own);
    return ls_abort_status(group->executor.abort);
}
