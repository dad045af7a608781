/* The number of times that each task's process was started anew in this training. A process cannot see its own
 * restarts, so all members of a generation tell each other what they know. lockstep top shows it. */
#pragma once
#include "runtime/runtime.h"

/* A task's restarts: the generation that its newest process came into first (0 if unknown), and the number of its
 * processes before. */
struct ls_restart {
    int64_t since, count;
};
/* Adds another member's knowledge to known[tasks]. */
void ls_restarts_merge(struct ls_restart *known, const struct ls_restart *told, int tasks);
/* Notes that the task's present process came into that generation first. */
void ls_restarts_present(struct ls_restart *known, int64_t since);
/* Collective, after a generation has begun. */
ls_status ls_restarts_share(struct ls_runtime *runtime);
