/* All-to-all. Over links each pair exchanges its two parts; every rank begins with the rank after it. n - 1 messages,
 * and the bytes of all parts but the own one. In the memory of one host each rank reads its parts. */
#include "collective/collectives.h"

#include "base/status.h"
#include "collective/call.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shm_calls.h"

/* Parts without bytes have no place. */
static void schedule_pair(struct ls_group *group, const struct ls_all_to_all *what, int to, int from) {
    size_t element = ls_dtype_size(what->dtype), send = what->send_counts[to] * element;
    size_t receive = what->receive_counts[from] * element;
    int rank = group->executor.rank;
    const unsigned char *input = what->input;
    unsigned char *output = what->output;
    if (send) input += ls_call_bytes_before(what->send_counts, to, element);
    if (receive) output += ls_call_bytes_before(what->receive_counts, from, element);
    if (to == rank) {
        (void)ls_schedule_copy(&group->schedule, output, input, send);
        return;
    }
    (void)ls_schedule_send(&group->schedule, to, input, send);
    (void)ls_schedule_receive(&group->schedule, from, output, receive);
}

/* Of few ranks all pairs compare their calls; of many, or one way, those that exchange bytes. */
static ls_status exchange_over_links(struct ls_group *group, struct ls_call *call, const struct ls_all_to_all *what) {
    int size = group->executor.size, rank = group->executor.rank;
    for (int i = 0; i < size; i++) schedule_pair(group, what, (rank + i) % size, (rank + size - i) % size);
    (what->one_way ? ls_call_one_way : ls_call_along_edges)(group, call);
    return ls_call_run(group, call);
}

static ls_status run_in_memory(struct ls_group *group, const struct ls_call *call, const struct ls_all_to_all *what) {
    struct ls_shared_call opened;
    const struct ls_shm_parts parts = {what->input, what->send_counts, what->output, what->receive_counts,
                                       ls_dtype_size(what->dtype)};
    ls_shared_call_begin(&opened, group->shared, call, group->shared->size);
    return ls_shm_all_to_all(&opened, &parts);
}

static ls_status check_counts(const struct ls_group *group, const struct ls_all_to_all *call, size_t *sent) {
    size_t received = 0;
    int rank = group->executor.rank;
    ls_status status = ls_call_check_name(call->name);
    if (!status) status = ls_call_sum_counts(group, call->name, call->dtype, call->send_counts, sent);
    if (!status) status = ls_call_sum_counts(group, call->name, call->dtype, call->receive_counts, &received);
    if (!status && ((*sent && !call->input) || (received && !call->output)))
        status = ls_call_missing_memory(call->name, "input or output");
    if (!status && call->send_counts[rank] != call->receive_counts[rank])
        status = ls_fail(LS_INVALID_ARGUMENT, "all_to_all '%s': rank %d sends itself %zu elements and expects %zu",
                         call->name, rank, call->send_counts[rank], call->receive_counts[rank]);
    return status;
}

/* The counts differ from rank to rank, so the fingerprint has none; each link's frame says how many bytes follow. */
ls_status ls_group_all_to_all(struct ls_group *group, const struct ls_all_to_all *what) {
    size_t sent = 0;
    ls_status status = check_counts(group, what, &sent);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct ls_call call = ls_call_begin(group, LS_KIND_ALL_TO_ALL, what->name, what->dtype, sent);
    call.frame.count = 0;
    if (ls_group_is_one_host(group) && ls_shm_all_to_all_fits(group->shared))
        return ls_call_finish(group, run_in_memory(group, &call, what));
    return ls_call_finish(group, exchange_over_links(group, &call, what));
}
