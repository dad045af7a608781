/* The lock of a checkpoint folder, so that two jobs do not write to one: flock on its file ".lock", which says in one
 * line who holds it. The system releases it when the process ends, in whatever way. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"

#define LS_FOLDER_LOCK ".lock"

struct ls_folder_lock;
/* job is a number that no other job has. FAILED_PRECONDITION names folder, process and host if another job holds the
 * lock. A lock of the same job is taken over: its process was left behind by the group. A file system without locks is
 * a warning, and then nobody is kept out. */
ls_status ls_folder_lock_take(const char *folder, uint64_t job, const struct ls_log *log, struct ls_folder_lock **lock);
/* True if somebody has taken the lock over, as far as can be seen. To remove the file is no takeover. NULL: false. */
bool ls_folder_lock_displaced(const struct ls_folder_lock *lock);
/* True if nobody has, and its file is there, as far as can be seen. */
bool ls_folder_lock_stands(const struct ls_folder_lock *lock);
/* The state of a folder, for one who only looks. */
enum ls_folder_holder {
    LS_FOLDER_FREE, /* it has no lock: no job is there, or the last one has ended in order */
    LS_FOLDER_HELD,
    LS_FOLDER_LEFT /* the process that took it is gone, as far as this host's file system tells */
};
enum ls_folder_holder ls_folder_lock_look(const char *folder);
/* Removes the file. NULL is nothing. */
void ls_folder_lock_free(struct ls_folder_lock *lock);
