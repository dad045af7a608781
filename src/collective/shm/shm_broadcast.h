/* One worker's bytes to all workers of its host, in shared memory. */
#pragma once
#include "collective/shm/shared_call.h"

struct ls_hand_out {
    int giver;  /* within the host */
    bool early; /* the giver has the bytes before the call is opened, and all may leave as soon as they have them */
    void *data;
    size_t bytes;
};
/* Before the call is opened. */
void ls_shm_broadcast_post(const struct ls_shared_call *call, const struct ls_hand_out *what);
/* After it was, and the giver has the bytes. */
ls_status ls_shm_broadcast(const struct ls_shared_call *call, const struct ls_hand_out *what);
