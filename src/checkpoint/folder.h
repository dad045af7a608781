/* A folder of checkpoints: checkpoint-000000000040.safetensors is that of step 40. A file comes to be under a hidden
 * name and gets its own only when all of it is on the disk, so a checkpoint under its own name is whole, whenever the
 * writer is killed. Nobody but one process (the chief) looks at the folder; it holds one training. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "checkpoint/file.h"
#include "checkpoint/folder_lock.h"

#define LS_CHECKPOINT_NAME 64 /* bytes of a checkpoint's name, the zero included */

/* Checks that the folder is there and takes checkpoints. Removes files that a killed writer left. Errors here and below
 * name the path and the cause. */
ls_status ls_checkpoint_folder_check(const char *folder);
/* Writes a checkpoint, then removes all but the keep newest up to this step. Returns when the checkpoint outlives a
 * loss of power. FAILED_PRECONDITION leaves the folder as it is if the lock was taken over meanwhile. A NULL lock is
 * not checked. */
ls_status ls_checkpoint_folder_save(const char *folder, const struct ls_folder_lock *lock,
                                    const struct ls_checkpoint *checkpoint, int keep);
/* Loads the newest checkpoint that is whole. Each damaged one before it is a warning in log, and kept under a name
 * behind "damaged-", which nothing here looks at or removes. Without a checkpoint *name is empty and loaded not
 * written. */
ls_status ls_checkpoint_folder_load(const char *folder, const struct ls_log *log, struct ls_loaded *loaded,
                                    char name[LS_CHECKPOINT_NAME]);
/* Removes all checkpoints except the damaged ones that are kept. */
ls_status ls_checkpoint_folder_clear(const char *folder);
