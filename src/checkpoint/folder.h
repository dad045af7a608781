/* A folder of checkpoints: checkpoint-000000000040.safetensors is that of step 40. A file comes to be under a hidden
 * name and gets its own only when all of it is on the disk, so a checkpoint under its own name is whole, whenever the
 * writer is killed. Nobody but one process (the chief) looks at the folder; it holds one training. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "checkpoint/file.h"
#include "checkpoint/lock.h"

#define LS_CHECKPOINT_NAME 64 /* bytes of a checkpoint's name, the zero included */

/* Whether checkpoints can be kept in folder: that it is there and takes files. Removes what a killed writer left.
 * Errors here and below name the path and the cause. */
ls_status ls_checkpoints_check(const char *folder);
/* Writes, then removes all but the keep newest up to this step. Returns when the checkpoint outlives a loss of power.
 * FAILED_PRECONDITION, and the folder is left as it is, where the lock was taken over meanwhile; NULL: there is none.
 */
ls_status ls_checkpoints_save(const char *folder, const struct ls_folder_lock *lock,
                              const struct ls_checkpoint *checkpoint, int keep);
/* The newest checkpoint that is whole; each damaged one is a warning in log. *name is empty, and loaded not written,
 * when there is none. */
ls_status ls_checkpoints_load(const char *folder, const struct ls_log *log, struct ls_loaded *loaded,
                              char name[LS_CHECKPOINT_NAME]);
/* Removes all checkpoints, damaged ones too. */
ls_status ls_checkpoints_clear(const char *folder);
