/* The abort flag of a group. The first caller that learns that the group cannot go on raises it, once a generation.
 * Every wait tests it. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>

struct ls_abort;
ls_status ls_abort_new(struct ls_abort **abort);
void ls_abort_free(struct ls_abort *abort);
/* The first call wins; message is copied. Any thread. */
void ls_abort_raise(struct ls_abort *abort, ls_status status, const char *message);
/* Clears the flag. No thread may be waiting for it. */
void ls_abort_reset(struct ls_abort *abort);
bool ls_abort_raised(const struct ls_abort *abort);
/* True if the abort was raised by a request to stop (LS_CANCELLED), which is no failure. */
bool ls_abort_is_cancelled(struct ls_abort *abort);
/* The number of collectives that this process has begun since the last reset. The thread of the collectives reads it,
 * and a rank that leaves. */
void ls_abort_count(struct ls_abort *abort, uint64_t begun);
uint64_t ls_abort_counted(const struct ls_abort *abort);
/* Notes that the rank makes no more than so many collectives, as it leaves in order. The flag is not raised: the
 * collectives before may still be going on. */
void ls_abort_limit(struct ls_abort *abort, int rank, uint64_t calls);
/* The rank that is known not to come to the collective of that sequence number; -1 if there is none. */
int ls_abort_left_before(const struct ls_abort *abort, uint64_t sequence);
/* Readable for poll() once raised. */
int ls_abort_fd(const struct ls_abort *abort);
/* After it was raised: makes its message this thread's error and returns its status. */
ls_status ls_abort_status(struct ls_abort *abort);
