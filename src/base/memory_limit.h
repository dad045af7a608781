/* The memory that this process may have: the least of what the user sets, its cgroups allow, and the machine has. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_memory_limit {
    size_t bytes;
    int of; /* for ls_memory_limit_name */
};
/* "LOCKSTEP_MEMORY_LIMIT", "its cgroup", "the machine"; that for any other number too. */
const char *ls_memory_limit_name(int64_t of);
/* set: what the user says, 0: nothing. root precedes the paths of /proc and /sys: "" but in tests. */
struct ls_memory_limit ls_memory_limit_find(int64_t set, const char *root);
