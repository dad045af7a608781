/* A call that was begun and not waited for. */
#pragma once
#include "runtime/async.h"
#include "runtime/communicator.h"

struct ls_pending {
    struct ls_operation operation;
    struct ls_async *async; /* held */
    char *name;
    size_t *counts; /* [ranks], of a gather */
};
/* Begins a copy of the operation; its counts are copied, its parts are taken, also where it fails. */
ls_status ls_pending_begin(ls_communicator *communicator, const struct ls_operation *operation, ls_pending **pending);
