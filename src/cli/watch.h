/* A folder of checkpoints that a training writes: the next one, or that there will be none. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_watch {
    const char *folder;
    double timeout; /* seconds without a new checkpoint after which it ends; 0 sets no limit */
    bool evaluator; /* of TF_CONFIG: its training comes, or is given up */
    long long step; /* of the newest one that was found; -1: none was */
    /* its own */
    bool seen, held; /* a training had the folder; its lock keeps others out */
    double found,
        left; /* times: of the newest one or of the start; since when no training has the folder, 0: one has */
};
/* Waits for a checkpoint of a later step: *path has it, or is empty where there will be none, and stderr says why.
 * DEADLINE_EXCEEDED and UNAVAILABLE: the training did not come, or does not come back. */
ls_status ls_watch_next(struct ls_watch *watch, char *path, size_t size);
