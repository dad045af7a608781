/* A state as bytes: kept, and copied from the member that is furthest to those who lack it (State in docs/protocol.md).
 */
#pragma once
#include "strategy/membership.h"

/* Collective in the generation's group, before it is accepted: whoever lacks the state inherits it. */
ls_status ls_state_copy(struct ls_membership *membership, const struct ls_generation *generation);
