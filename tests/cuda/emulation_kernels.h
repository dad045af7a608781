/* Kernels that show what the emulation does, right and wrong ones. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = i + step, for count elements. */
cudaError_t show_count(float *y, int64_t count, float step, cudaStream_t stream);
/* sums[block] = x's sum over the block's 256 elements: by shuffles, then by shared memory. meets: as it must be; else a
 * barrier is missing. */
cudaError_t show_sum(const float *x, float *sums, int blocks, int meets, cudaStream_t stream);
/* y[i] = x[i] through bfloat16 and float16, and the lanes' votes. */
cudaError_t show_types(const float *x, float *y, unsigned *votes, cudaStream_t stream);
/* Half of the lanes wait for all. */
cudaError_t show_forgotten(cudaStream_t stream);
/* Threads meet, but are launched as if they did not. */
cudaError_t show_wrong_launch(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
