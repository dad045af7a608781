/* Few bytes go through the giver's small slot. More are read straight out of its memory if they lie in a region; then
 * it waits until all have read them. Otherwise they go through the two halves of its stage in turns: while the others
 * copy one out it fills the other. */
#include "collective/hand_out.h"

#include <string.h>

static bool gives(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    return call->shared->rank == what->giver;
}

static bool is_small(const struct ls_hand_out *what) {
    return what->bytes <= LS_SHARED_SMALL;
}

static void copy_small(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    if (what->bytes) memcpy(ls_shared_call_small(call, what->giver), what->data, what->bytes);
}

void ls_hand_out_post(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    struct ls_shared_post *post = ls_shared_call_post(call);
    if (!gives(call, what)) return;
    if (!is_small(what))
        (void)ls_shared_call_offer(call, post, 0, what->data, what->bytes);
    else if (what->early)
        copy_small(call, what);
}

static ls_status give_small(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    ls_status status = LS_OK;
    if (!what->early) {
        if (gives(call, what)) copy_small(call, what);
        status = ls_meet(&call->place, false);
    }
    if (!status && what->bytes && !gives(call, what))
        memcpy(what->data, ls_shared_call_small(call, what->giver), what->bytes);
    return status;
}

static ls_status give_region(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    unsigned char *given;
    ls_status status = ls_shared_call_find(call, what->giver, 0, what->bytes, &given);
    if (!status && !what->early) status = ls_meet(&call->place, false);
    if (!status && !gives(call, what)) memcpy(what->data, given, what->bytes);
    return status ? status : ls_meet(&call->place, false);
}

static ls_status give_staged(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    struct ls_control *control = ls_shared_control(call->shared, what->giver);
    ls_status status = LS_OK;
    int half = 0;
    for (size_t offset = 0; offset < what->bytes && !status; offset += LS_SHARED_STAGE, half ^= 1) {
        size_t left = what->bytes - offset, size = left < LS_SHARED_STAGE ? left : LS_SHARED_STAGE;
        unsigned char *place = (unsigned char *)what->data + offset;
        if (gives(call, what)) memcpy(control->stage[half], place, size);
        status = ls_meet(&call->place, false);
        if (!status && !gives(call, what)) memcpy(place, control->stage[half], size);
    }
    return status;
}

ls_status ls_hand_out(const struct ls_shared_call *call, const struct ls_hand_out *what) {
    if (is_small(what)) return give_small(call, what);
    return ls_shared_call_read(call, what->giver)->region < 0 ? give_staged(call, what) : give_region(call, what);
}
