/* Notices in the control blocks. A frame is written between two values of `called`, 0 and its sequence + 1. A
 * reader looks at `called` before and after, so it never compares half of one call and half of another. */
#include "collective/shm/notice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "collective/run/wait.h"

void ls_notice_call(const struct ls_shared *shared, const struct ls_frame *frame) {
    struct ls_notice *notice = &ls_shared_control(shared, shared->rank)->notice;
    atomic_store(&notice->called, 0);
    atomic_thread_fence(memory_order_seq_cst);
    notice->frame = *frame;
    atomic_store(&notice->called, frame->sequence + 1);
}

void ls_notice_end(const struct ls_shared *shared, ls_status status, const char *cause) {
    struct ls_notice *notice = &ls_shared_control(shared, shared->rank)->notice;
    if (atomic_load(&notice->ended)) return;
    (void)snprintf(notice->cause, sizeof(notice->cause), "%s", cause);
    atomic_store(&notice->ended, status ? (int32_t)status : LS_NOTICE_GONE);
}

/* Returns true if *frame is of the call with that sequence. */
static bool read_call(const struct ls_notice *notice, uint64_t sequence, struct ls_frame *frame) {
    if (atomic_load(&notice->called) != sequence + 1) return false;
    *frame = notice->frame;
    atomic_thread_fence(memory_order_seq_cst);
    frame->name[LS_FRAME_NAME - 1] = 0;
    return atomic_load(&notice->called) == sequence + 1;
}

static void note_end(struct ls_executor *executor, struct ls_executor_peer *peer, const struct ls_notice *notice) {
    int32_t ended = atomic_load(&notice->ended);
    char cause[LS_ERROR_SIZE];
    if (!ended) return;
    if (ended == LS_NOTICE_GONE) {
        peer->read_error = ECONNRESET;
        ls_wait_trouble(executor, peer, LS_OK);
        return;
    }
    memcpy(cause, notice->cause, sizeof(cause));
    cause[sizeof(cause) - 1] = 0;
    executor->told = true;
    if (ended == (int32_t)LS_UNAVAILABLE) atomic_store(&executor->severed, true);
    ls_wait_trouble(executor, peer, ls_fail((ls_status)ended, "%s", cause));
}

ls_status ls_notice_look(const struct ls_shared *shared, struct ls_executor *executor, int place) {
    const struct ls_notice *notice = &ls_shared_control(shared, place)->notice;
    const struct ls_call *call = executor->call;
    int rank = shared->members[place];
    struct ls_frame got, expected = call->frame;
    note_end(executor, &executor->peers[rank], notice);
    if (!read_call(notice, call->frame.sequence, &got)) return LS_OK;
    expected.rank = rank;
    if (call->counts) expected.count = call->counts[rank];
    return ls_frame_compare(&expected, &got, executor->rank, rank, executor->algorithm_name);
}
