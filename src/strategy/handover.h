/* A state as bytes: kept, and copied from the member that is furthest to those who lack it (State in docs/protocol.md).
 */
#pragma once
#include "strategy/membership.h"

/* Bytes of so many, rounded up to whole words of 8. */
static inline size_t ls_state_round(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

/* Collective in the generation's group, before it is accepted: whoever lacks the state inherits it. */
ls_status ls_state_copy(struct ls_membership *membership, const struct ls_generation *generation);
/* Compares the lines of what the others do ("training", "loop") with this process' own: INVALID_ARGUMENT for a process
 * that came back as another one. */
ls_status ls_state_compare(const struct ls_membership *membership, const char *what, const char *given,
                           const char *own);
