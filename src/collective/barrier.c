/* Barrier: fingerprints alone. The ranks of a host meet in memory; between hosts the first of each speak. */
#include "collective/shared_call.h"
#include "collective/state.h"

static ls_status speak(struct ls_group *group, struct ls_call *call) {
    if (group->hosts.count == 1) return LS_OK;
    ls_group_be_patient(group);
    if (!ls_group_is_speaker(group)) return LS_OK;
    ls_group_between_speakers(group, call);
    return ls_group_run(group, call);
}

static ls_status barrier(struct ls_group *group, struct ls_call *call) {
    struct ls_shared_call opened;
    if (group->hosts.count == group->hosts.size) return ls_group_run(group, call);
    if (!group->shared) {
        ls_executor_begin(&group->executor, &group->schedule, call);
        return speak(group, call);
    }
    ls_shared_call_begin(&opened, group->shared, &group->executor, &group->schedule, call, group->shared->size);
    (void)ls_shared_call_post(&opened);
    ls_status status = ls_shared_call_open(&opened);
    if (!status) status = speak(group, call);
    if (status || group->hosts.count == 1) return status;
    ls_group_be_patient(group);
    return ls_meet(&opened.place, false);
}

ls_status ls_group_barrier(struct ls_group *group, const char *name) {
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = ls_group_check_name(name);
    if (status) return ls_group_finish(group, status);
    struct ls_call call = ls_group_begin(group, LS_KIND_BARRIER, name, LS_FLOAT32, 0);
    return ls_group_finish(group, barrier(group, &call));
}
