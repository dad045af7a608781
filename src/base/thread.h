/* Threads with names. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

typedef void *ls_thread_fn(void *argument);
/* Starts a thread named name (at most 15 bytes are kept), with all signals blocked. */
ls_status ls_thread_start(pthread_t *thread, const char *name, ls_thread_fn *fn, void *argument);

/* Blocks all signals in the calling thread. *before is the former mask, for pthread_sigmask. */
void ls_thread_block_signals(sigset_t *before);
