/* The CUDA runtime that tests run the plugin on where there is no GPU: the functions of cuda_runtime_api.h that the
 * plugin uses, on the CPU. It is meant to be hard to fool:
 *
 * - What is queued on a stream is done late: when somebody waits for it, or asks for the third time whether it is done.
 *   Other streams do then what they must, and no more.
 * - Device memory can be touched by what runs on a stream only. Elsewhere, past its end and when it is freed it is not
 *   there at all; where it ends it is watched, and new it holds no numbers.
 * - Misuse that CUDA answers with an error, or not at all, ends in an error or in abort: the legacy stream, another
 *   device's stream, waiting while a stream is captured, and the like.
 *
 * The other fakes (of cublasLt, cuDNN, NCCL) queue their work here. Environment: LOCKSTEP_EMULATED_GPUS (2),
 * LOCKSTEP_EMULATED_APART (none reaches another), LOCKSTEP_EMULATED_MEMORY (bytes of each; 4 GiB),
 * LOCKSTEP_EMULATED_HANG (nothing is ever done), LOCKSTEP_EMULATED_FAULT=N (the N-th thing that a stream does fails,
 * and all after it, as after a bad address). */
#pragma once
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The work of a stream, in order and later, under the one lock of all that is emulated. Device memory is there. Returns
 * 1 if done. 0 means not yet, since it waits for another process; it is then asked again. */
typedef int ls_emulated_run_fn(void *work);
/* Keeps a copy of the size bytes at work. On a captured stream it becomes a part of the graph, and runs with a new copy
 * at each replay. */
cudaError_t ls_emulated_queue(cudaStream_t stream, ls_emulated_run_fn *run, const void *work, size_t size);
/* True if all of the size bytes at data belong to one allocation, of any device. Fakes check their arguments with it.
 */
bool ls_emulated_is_device(const void *data, size_t size);
/* The device that a stream is of; -1 for none. */
int ls_emulated_stream_device(cudaStream_t stream);
/* Something runs that never ends: who gives back pinned memory waits for ever. */
void ls_emulated_never_ends(void);

#ifdef __cplusplus
}
#endif
