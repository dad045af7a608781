/* Functions that the files of the emulated runtime share. All of it is called under the lock. */
#pragma once
#include <pthread.h>

#include "runtime.h"

/* ---- runtime.c ---- */
void ls_emulated_lock(void);
void ls_emulated_unlock(void);
/* Keeps error for cudaGetLastError and gives it back. */
cudaError_t ls_emulated_answer(cudaError_t error);
int ls_emulated_current(void); /* device of this thread */

/* ---- streams.c ---- */
/* The check at the begin of every call. It returns an error that has happened and stays, or refuses a call that a
 * capturing thread may not make. */
cudaError_t ls_emulated_refusal(bool captures_may);
/* That it is one of ours, no legacy stream, and of the device that is set where the call asks for that. */
cudaError_t ls_emulated_check_stream(cudaStream_t stream, bool of_device);
/* As ls_emulated_queue; under the lock. */
cudaError_t ls_emulated_put(cudaStream_t stream, ls_emulated_run_fn *run, const void *work, size_t size);
/* Does what stream has to do; false where that hangs on others. */
bool ls_emulated_drive(cudaStream_t stream);
bool ls_emulated_is_captured(cudaStream_t stream);
/* Lets go of the lock for a moment. */
void ls_emulated_yield(void);

/* ---- memory.c ---- */
enum ls_emulated_place { LS_EMULATED_PAGEABLE, LS_EMULATED_PINNED, LS_EMULATED_DEVICE, LS_EMULATED_BAD };
/* The place of all of size bytes. It is BAD if they do not lie in one allocation of a device. */
enum ls_emulated_place ls_emulated_place_of(const void *data, size_t size);
/* The device whose memory that is; -1: none's. */
int ls_emulated_memory_device(const void *data);
/* Makes all device memory appear, or vanish. */
void ls_emulated_show(bool visible);
