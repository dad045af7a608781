/* The guard: a small process beside an agent that knows the workers' process groups and kills them when the agent is
 * gone without having ended them (SIGKILL, a crash), so that no worker's children outlive it, in whatever session they
 * are. A launcher with remote shells has one too, for these. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct ls_guard {
    pid_t pid;
    int pipe; /* the guard reads groups from it, and at its end it acts */
};

/* Starts the guard of up to count groups, whose processes have that variable with that value in their environment;
 * prints the error and returns false if it cannot. Call it before the first worker starts. */
bool ls_guard_start(int count, const char *name, const char *value, struct ls_guard *guard);
void ls_guard_add(const struct ls_guard *guard, pid_t group);
void ls_guard_remove(const struct ls_guard *guard, pid_t group);
/* Ends the guard; every group has been removed before. */
void ls_guard_stop(struct ls_guard *guard);
