/* Threads with names. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

typedef void *ls_thread_fn(void *argument);
/* Starts a thread named name (at most 15 bytes are kept), with all signals blocked. */
ls_status ls_thread_start(pthread_t *thread, const char *name, ls_thread_fn *fn, void *argument);

/* Processors that this process may run on. */
int ls_thread_processors(void);

/* Blocks all signals in the calling thread. *before is the former mask, for pthread_sigmask. */
void ls_thread_block_signals(sigset_t *before);

/* Sockets that a child of fork closes: other workers learn of this process's end when its sockets are closed, and a
 * child such as a worker of torch's DataLoader would keep them open. */

/* A child of fork closes this socket. Closing it first needs no call: a child knows a socket by its inode. Any
 * thread. */
void ls_forked_closes(int fd);
/* Differs between a process and its child: what both have is the parent's alone. The first call comes before the fork.
 */
unsigned ls_forked_times(void);
