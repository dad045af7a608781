/* Barrier: fingerprints alone. The ranks of a host meet in memory; between hosts the first of each speak. */
#include "collective/collectives.h"

#include "collective/call.h"
#include "collective/shm/shared_call.h"
#include "collective/group_private.h"

static ls_status speak(struct ls_group *group, struct ls_call *call) {
    if (group->hosts.count == 1) return LS_OK;
    ls_call_be_patient(group);
    if (!ls_call_is_speaker(group)) return LS_OK;
    ls_call_between_speakers(group, call);
    ls_call_meet_speakers(group);
    return ls_call_run(group, call);
}

static ls_status barrier(struct ls_group *group, struct ls_call *call) {
    struct ls_shared_call opened;
    if (group->hosts.count == group->hosts.size) return ls_call_run(group, call);
    if (!group->shared) {
        ls_executor_begin(&group->executor, &group->schedule, call);
        return speak(group, call);
    }
    ls_shared_call_begin(&opened, group->shared, call, group->shared->size);
    (void)ls_shared_call_post(&opened);
    ls_status status = ls_shared_call_open(&opened);
    if (!status) status = speak(group, call);
    if (status || group->hosts.count == 1) return status;
    ls_call_be_patient(group);
    return ls_shm_barrier(&opened.place, false);
}

ls_status ls_group_barrier(struct ls_group *group, const char *name) {
    ls_status status = ls_call_check_name(name);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct ls_call call = ls_call_begin(group, LS_KIND_BARRIER, name, LS_FLOAT32, 0);
    return ls_call_finish(group, barrier(group, &call));
}
