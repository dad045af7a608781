/* Waiting for a device, which is asked again and again: the abort flag is seen within a millisecond, the limit is that
 * of a collective, and the log tells what is waited for. */
#pragma once
#include "strategy/membership.h"

struct ls_await {
    ls_status (*ask)(void *context, bool *done);
    void *context;
    char what[128]; /* "gpu:0 to compute bucket 3" */
    double limit;   /* seconds; 0: that of a collective */
    bool eager;     /* asks without pauses, for a measurement */
};
/* Until done; an error of ask, the abort flag's, or DEADLINE_EXCEEDED. */
ls_status ls_await(const struct ls_membership *membership, const struct ls_await *await);
