/* Polling of a device. The abort flag is seen within a millisecond. The limit is that of a collective. The log tells
 * the reason for the wait. */
#pragma once
#include "runtime/runtime.h"

struct ls_wait_for_device {
    ls_status (*ask)(void *context, bool *done);
    void *context;
    char what[128]; /* "gpu:0 to compute bucket 3" */
    double limit;   /* seconds; 0: that of a collective */
    bool eager;     /* asks without pauses, for a measurement */
};
/* Waits until done. Returns an error of ask, the abort flag's, or DEADLINE_EXCEEDED. */
ls_status ls_wait_for_device(const struct ls_runtime *runtime, const struct ls_wait_for_device *await);
