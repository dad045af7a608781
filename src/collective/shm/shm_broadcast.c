/* Broadcast in shared memory. A small vector goes through the giver's small slot. A larger one is read straight out of
 * the giver's memory if it lies in a region; the giver then waits until all workers have read it. Otherwise the vector
 * goes through the two halves of the giver's stage in turns: the giver fills one half while the other workers copy the
 * other half out. */
#include "collective/shm/shm_calls.h"

#include <string.h>

static bool gives(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    return call->shared->rank == what->giver;
}

static bool is_small_copy(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    return what->bytes <= call->shared->board.small;
}

static void copy_small(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    if (what->bytes) memcpy(ls_shared_call_small(call, what->giver), what->data, what->bytes);
}

void ls_shm_broadcast_post(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    struct ls_shared_post *post = ls_shared_call_post(call);
    if (!gives(call, what)) return;
    if (!is_small_copy(call, what))
        (void)ls_shared_call_offer(call, post, 0, what->data, what->bytes);
    else if (what->early)
        copy_small(call, what);
}

static ls_status give_small(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    ls_status status = LS_OK;
    if (!what->early) {
        if (gives(call, what)) copy_small(call, what);
        status = ls_shm_barrier(&call->place, false);
    }
    if (!status && what->bytes && !gives(call, what))
        memcpy(what->data, ls_shared_call_small(call, what->giver), what->bytes);
    return status;
}

static ls_status give_region(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    unsigned char *given;
    ls_status status = ls_shared_call_find(call, what->giver, 0, what->bytes, &given);
    if (!status && !what->early) status = ls_shm_barrier(&call->place, false);
    if (!status && !gives(call, what)) memcpy(what->data, given, what->bytes);
    return status ? status : ls_shm_barrier(&call->place, false);
}

/* The giver may be one piece ahead. It fills a half again behind the meeting of the other half, and all came there
 * after they had copied the first one out. */
static ls_status give_staged(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    size_t most = call->shared->board.stage;
    ls_status status = LS_OK;
    int half = 0;
    for (size_t offset = 0; offset < what->bytes && !status; offset += most, half ^= 1) {
        size_t left = what->bytes - offset, size = left < most ? left : most;
        unsigned char *place = (unsigned char *)what->data + offset;
        unsigned char *stage = ls_shared_stage(call->shared, what->giver, half);
        if (gives(call, what)) memcpy(stage, place, size);
        status = ls_shm_barrier(&call->place, false);
        if (!status && !gives(call, what)) memcpy(place, stage, size);
    }
    return status;
}

ls_status ls_shm_broadcast(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    if (is_small_copy(call, what)) return give_small(call, what);
    return ls_shared_call_read(call, what->giver)->region < 0 ? give_staged(call, what) : give_region(call, what);
}
