/* A schedule is laid out and not run. Its actions point behind a place that nobody reads. */
#include "collective/servers/traffic.h"

#include "base/memory.h"
#include "base/status.h"
#include "collective/algorithm.h"
#include "collective/schedule/schedules.h"

/* As many places as the rank has leaves, or the result has copies. */
static ls_status lay_out_schedule(enum ls_algorithm algorithm, const struct ls_reduction *reduction,
                                  struct ls_schedule *schedule) {
    static const char nobody[LS_ALIGNMENT];
    size_t count = (size_t)(ls_reduction_leaves(reduction, reduction->rank) + reduction->copies + 1);
    LS_CLEANUP(ls_free_pointer) const void **inputs = ls_alloc_array(count, sizeof(*inputs));
    struct ls_hosts hosts;
    if (!inputs) return ls_fail_memory("a schedule", count * sizeof(*inputs));
    ls_status status = ls_hosts_init(&hosts, reduction->size, NULL);
    if (status) return status;
    for (size_t i = 0; i < count; i++) inputs[i] = nobody;
    struct ls_reduction made = *reduction;
    made.inputs = inputs;
    made.outputs = (void *const *)inputs;
    made.hosts = &hosts;
    ls_schedule_reset(schedule, reduction->first[reduction->size]);
    if (algorithm == LS_ALGORITHM_COUNT)
        ls_direct_schedule_push(schedule, &made);
    else
        ls_algorithm_schedule(algorithm, schedule, &made);
    ls_hosts_free(&hosts);
    return schedule->out_of_memory ? ls_fail_memory("a schedule", reduction->count * reduction->element) : LS_OK;
}

ls_status ls_traffic_add(enum ls_algorithm algorithm, const struct ls_reduction *reduction,
                         struct ls_traffic *traffic) {
    struct ls_schedule schedule;
    if (!reduction->count || reduction->size == 1) return LS_OK;
    ls_status status = ls_schedule_init(&schedule, reduction->size);
    if (status) return status;
    status = lay_out_schedule(algorithm, reduction, &schedule);
    for (int i = 0; !status && i < reduction->size; i++) {
        traffic->sent += schedule.sends[i].bytes;
        traffic->received += schedule.receives[i].bytes;
    }
    ls_schedule_free(&schedule);
    return status;
}
