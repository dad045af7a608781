/* The chief's findings in a checkpoint folder, which it tells every worker. */
#pragma once
#include "base/status.h"
#include "collective/group.h"
#include "train/training_progress.h"

struct ls_restored {
    int64_t status, found;
    int64_t callbacks; /* whether their states were found as well */
    struct ls_training_progress progress;
    char error[LS_ERROR_SIZE]; /* where status is one */
};
/* Collective: the chief's becomes everybody's. The chief's error is then the status of every worker. */
ls_status ls_restored_broadcast(struct ls_group *group, struct ls_restored *restored);
/* INVALID_ARGUMENT: it is that of a longer training, or of one with other epochs. */
ls_status ls_restored_check_length(const struct ls_training_progress *progress, int64_t steps_per_epoch,
                                   int64_t last_position);
/* True if the checkpoint has states of the same callbacks: lists of names, there and here; NULL: none. Says so if it
 * has those of others. */
bool ls_restored_has_callbacks(const struct ls_log *log, const char *folder, const char *name, const char *there,
                               const char *here);
/* Says where training goes on, what was overridden, and if the bits may be others. */
void ls_restored_tell(const struct ls_log *log, const char *folder, const char *name,
                      const struct ls_training_progress *progress, const char *overridden, const char *bits);
