/* Variables of the environment that look like settings and are none, such as LOCKSTEP_LGO. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define LS_UNKNOWN_NAME 96

struct ls_unknown {
    char name[LS_UNKNOWN_NAME];
    const char *nearest; /* a setting whose name is like it, or NULL */
};
/* The next such variable; *at begins with 0. Returns false at the end. Variables that Kubernetes sets for a service of
 * this name, and those of this project's tests, are not counted. */
bool ls_unknown_next(size_t *at, struct ls_unknown *unknown);
