/* The state of this process as bytes, part by part. It is copied from the furthest member to members without it, and
 * kept here until each part is taken up (State in docs/protocol.md). */
#pragma once
#include "runtime/runtime.h"

/* Rounds a number of bytes up to whole words of 8. */
static inline size_t ls_state_transfer_round(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

/* Collective in the generation's group, before the generation is accepted. A member without the state inherits it. */
ls_status ls_state_transfer_copy(struct ls_runtime *runtime, const struct ls_generation *generation);
/* Compares the lines of the others' work ("training", "loop") with this process's own. INVALID_ARGUMENT for a process
 * that came back with other work. */
ls_status ls_state_transfer_compare(const struct ls_runtime *runtime, const char *what, const char *given,
                                    const char *own);
/* Counts one more committed transaction of this process. */
void ls_state_transfer_commit(struct ls_runtime *runtime);
/* This process has no state any more, as one that was just started. */
void ls_state_transfer_forget(struct ls_runtime *runtime);
/* Frees the inherited part, if there is one: its source gives this process's own from now on. */
void ls_state_transfer_drop(struct ls_runtime *runtime, enum ls_state_part part);
