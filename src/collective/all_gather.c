/* All-gather. Over links each rank of a few sends its part to all other ranks; the parts of many go round a ring. In
 * the memory of one host each rank reads all parts. */
#include "collective/collectives.h"

#include "collective/call.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shm_calls.h"
#include "collective/group_private.h"

/* ---- over links ---- */

static void schedule_flat(struct ls_group *group, const size_t *counts, size_t element, const void *input,
                          unsigned char *output) {
    struct ls_schedule *schedule = &group->schedule;
    int rank = group->executor.rank;
    size_t own = counts[rank] * element;
    for (int i = 0; i < group->executor.size; i++) {
        size_t bytes = counts[i] * element;
        if (i != rank) {
            (void)ls_schedule_send(schedule, i, input, own);
            (void)ls_schedule_receive(schedule, i, output, bytes);
        } else if (input != output) {
            (void)ls_schedule_copy(schedule, output, input, bytes);
        }
        if (bytes) output += bytes;
    }
}

/* Each part goes round the ring, and each rank passes on what it has received. */
static void schedule_round(struct ls_group *group, const size_t *counts, size_t element, const void *input,
                           unsigned char *output) {
    struct ls_schedule *schedule = &group->schedule;
    int size = group->executor.size, rank = group->executor.rank, next = (rank + 1) % size, part = rank;
    unsigned char *at = output + ls_call_bytes_before(counts, rank, element);
    if (input != at) (void)ls_schedule_copy(schedule, at, input, counts[rank] * element);
    const unsigned char *from = input;
    for (int step = 1, made = -1; step < size; step++) {
        int sent = ls_schedule_send(schedule, next, from, counts[part] * element);
        ls_schedule_gate(schedule, sent, made);
        if (!part) at = output + ls_call_bytes_before(counts, size, element);
        part = (part + size - 1) % size;
        at -= counts[part] * element;
        made = ls_schedule_receive(schedule, (rank + size - 1) % size, at, counts[part] * element);
        from = at;
    }
}

/* ---- the call ---- */

ls_status ls_group_all_gather_check(const struct ls_group *group, const ls_all_gather_options *what) {
    size_t total = 0;
    ls_status status = ls_call_check_name(what->name);
    if (!status) status = ls_call_sum_counts(group, what->name, what->dtype, what->counts, &total);
    if (!status && ((what->counts[group->executor.rank] && !what->input) || (total && !what->output)))
        status = ls_call_missing_memory(what->name, "input or output");
    return status;
}

ls_status ls_group_all_gather(struct ls_group *group, const ls_all_gather_options *what) {
    size_t total = 0, element = ls_dtype_size(what->dtype);
    const size_t *counts = what->counts;
    ls_status status = ls_group_all_gather_check(group, what);
    if (!status) status = ls_call_sum_counts(group, what->name, what->dtype, counts, &total);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct ls_call call =
        ls_call_begin(group, LS_KIND_ALL_GATHER, what->name, what->dtype, counts[group->executor.rank]);
    call.counts = counts;
    call.frame.total = total;
    for (int i = 0; i < group->executor.size; i++) call.frame.layout = ls_frame_digest(call.frame.layout, counts[i]);
    const struct ls_shm_parts parts = {what->input, NULL, what->output, counts, element};
    if (ls_group_is_one_host(group)) return ls_call_finish(group, ls_shm_all_to_all(group->shared, &call, &parts));
    bool flat = group->executor.size <= LS_MEET_ALL;
    if (total) (flat ? schedule_flat : schedule_round)(group, counts, element, what->input, what->output);
    return ls_call_finish(group, ls_call_run(group, &call));
}
