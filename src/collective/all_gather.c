/* All-gather. Over links each rank of a few sends its part to all other ranks; the parts of many go round a ring. In
 * the memory of one host each rank reads all parts. Small parts lie in slots; larger parts lie in regions, or go
 * through the stages, chunk by chunk. */
#include "collective/collectives.h"

#include <string.h>

#include "base/status.h"
#include "collective/call.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shared_call.h"
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

/* ---- in shared memory ---- */

struct gathering {
    struct ls_shared_call opened;
    struct ls_shared *shared;
    const size_t *counts;
    size_t element;
    const unsigned char *input;
    unsigned char *output;
};

static size_t part_bytes(const struct gathering *gathering, int rank) {
    return gathering->counts[rank] * gathering->element;
}

static bool parts_are_small(const struct gathering *gathering) {
    for (int i = 0; i < gathering->shared->size; i++)
        if (part_bytes(gathering, i) > gathering->shared->board.small) return false;
    return true;
}

static bool is_part_staged(const struct gathering *gathering, int rank) {
    return part_bytes(gathering, rank) && ls_shared_call_read(&gathering->opened, rank)->region < 0;
}

static void post_part(const struct gathering *gathering, bool small) {
    const struct ls_shared *shared = gathering->shared;
    struct ls_shared_post *post = ls_shared_call_post(&gathering->opened);
    size_t own = part_bytes(gathering, shared->rank);
    if (!own) return;
    if (small)
        memcpy(ls_shared_call_small(&gathering->opened, shared->rank), gathering->input, own);
    else
        (void)ls_shared_call_offer(&gathering->opened, post, 0, gathering->input, own);
}

/* Every part that lies whole in memory of its rank, and the own one. */
static ls_status copy_whole(const struct gathering *gathering, bool small) {
    unsigned char *to = gathering->output;
    for (int i = 0; i < gathering->shared->size; i++) {
        size_t bytes = part_bytes(gathering, i);
        unsigned char *from = small ? ls_shared_call_small(&gathering->opened, i) : NULL;
        ls_status status = LS_OK;
        if (i != gathering->shared->rank && bytes && !small && !is_part_staged(gathering, i))
            status = ls_shared_call_find(&gathering->opened, i, 0, bytes, &from);
        if (status) return status;
        const unsigned char *source = i == gathering->shared->rank ? gathering->input : from;
        if (bytes && source && source != to) memcpy(to, source, bytes);
        if (bytes) to += bytes;
    }
    return LS_OK;
}

/* The bytes of rank's part that go through its stage in this round. */
static size_t staged_bytes(const struct gathering *gathering, int rank, size_t offset) {
    size_t bytes = is_part_staged(gathering, rank) ? part_bytes(gathering, rank) : 0;
    size_t left = offset < bytes ? bytes - offset : 0, most = gathering->shared->board.stage;
    return left < most ? left : most;
}

static void copy_gathered(const struct gathering *gathering, size_t offset, int half) {
    unsigned char *to = gathering->output;
    for (int i = 0; i < gathering->shared->size; i++) {
        size_t bytes = part_bytes(gathering, i), staged = staged_bytes(gathering, i, offset);
        if (staged && i != gathering->shared->rank)
            memcpy(to + offset, ls_shared_stage(gathering->shared, i, half), staged);
        if (bytes) to += bytes;
    }
}

/* Meets at least once; no rank reads another's memory after the last meeting. Ranks with a region have no bytes here
 * but come to every meeting: their number follows from most, which all know from the posts. A half is written again
 * behind a meeting to which all came after they had read it. */
static ls_status gather_staged(const struct gathering *gathering) {
    const struct ls_shared *shared = gathering->shared;
    size_t most = 0;
    for (int i = 0; i < shared->size; i++)
        if (is_part_staged(gathering, i) && part_bytes(gathering, i) > most) most = part_bytes(gathering, i);
    ls_status status = most ? LS_OK : ls_shm_barrier(&gathering->opened.place, false);
    int half = 0;
    for (size_t offset = 0; offset < most && !status; offset += shared->board.stage, half ^= 1) {
        size_t own = staged_bytes(gathering, shared->rank, offset);
        if (own) memcpy(ls_shared_stage(shared, shared->rank, half), gathering->input + offset, own);
        status = ls_shm_barrier(&gathering->opened.place, false);
        if (!status) copy_gathered(gathering, offset, half);
    }
    return status;
}

static ls_status gather_in_memory(struct ls_group *group, const struct ls_call *call, size_t element, const void *input,
                                  void *output) {
    struct gathering gathering = {
        .shared = group->shared, .counts = call->counts, .element = element, .input = input, .output = output};
    bool small = parts_are_small(&gathering);
    ls_shared_call_begin(&gathering.opened, group->shared, call, group->shared->size);
    post_part(&gathering, small);
    ls_status status = ls_shared_call_open(&gathering.opened);
    if (!status) status = copy_whole(&gathering, small);
    return status || small ? status : gather_staged(&gathering);
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
    if (ls_group_is_one_host(group))
        return ls_call_finish(group, gather_in_memory(group, &call, element, what->input, what->output));
    bool flat = group->executor.size <= LS_MEET_ALL;
    if (total) (flat ? schedule_flat : schedule_round)(group, counts, element, what->input, what->output);
    return ls_call_finish(group, ls_call_run(group, &call));
}
