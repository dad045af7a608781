/* How often each task's process has been started anew in this training. No process sees that of itself, so all members
 * of a generation tell each other what they know (lockstep top shows it). */
#pragma once
#include "strategy/membership.h"

/* Of one task: the generation that its newest process came into first, 0 where none is known, and how many there were
 * before. */
struct ls_restart {
    int64_t since, count;
};
/* Into known[tasks] what another member knows. */
void ls_restarts_merge(struct ls_restart *known, const struct ls_restart *told, int tasks);
/* The task's present process came into that generation first. */
void ls_restarts_present(struct ls_restart *known, int64_t since);
/* Collective, after a generation has begun. */
ls_status ls_restarts_share(struct ls_membership *membership);
