/* The thread that writes checkpoints (ls-checkpoint), so that training goes on meanwhile. It is idle or writes one; one
 * other thread calls. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/folder.h"

struct ls_writer;
/* Borrows folder. */
ls_status ls_writer_new(const char *folder, int keep, struct ls_writer **writer);
/* The result of the checkpoints since the last call: LS_OK, or the first error. *written is true if one of them
 * succeeded. */
ls_status ls_writer_result(struct ls_writer *writer, bool *written);
bool ls_writer_idle(struct ls_writer *writer);
/* Callable when idle only. The checkpoint, all that it points to, and the folder's lock (or NULL) are borrowed and must
 * not change until the writer is idle. */
void ls_writer_submit(struct ls_writer *writer, const struct ls_checkpoint *checkpoint,
                      const struct ls_folder_lock *lock);
/* Waits until the writer is idle; false when the deadline has passed. */
bool ls_writer_wait(struct ls_writer *writer, int64_t deadline);
/* Ends the thread when it is idle. If it still writes at the deadline (a disk that does not answer) it is left alone,
 * and false says that all it borrows must stay. writer may be NULL. */
bool ls_writer_free(struct ls_writer *writer, int64_t deadline);
