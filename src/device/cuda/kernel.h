/* The language of kernels. nvcc compiles a kernel's source for a GPU; a C++ compiler compiles the same source for the
 * emulation of the tests (tests/cuda/emulation.h, which defines LS_EMULATION).
 *
 * Kernels are templates over the type that tensors are stored in: float, __nv_bfloat16, __half. They compute in float.
 * They add over a batch in an order that depends on the shapes only: no atomics on floating-point numbers. */
#pragma once
#ifdef LS_EMULATION
#include "emulation.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
/* Queues kernel<<<grid, block, bytes, stream>>>(arguments). LS_LAUNCH_SYNC where its threads meet (__syncthreads,
 * shuffles): the emulation then gives each a stack of its own. Both give a cudaError_t. */
#define LS_LAUNCH(kernel, grid, block, stream, ...)                                                                    \
    (kernel<<<grid, block, 0, stream>>>(__VA_ARGS__), cudaGetLastError())
#define LS_LAUNCH_SYNC(kernel, grid, block, bytes, stream, ...)                                                        \
    (kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__), cudaGetLastError())
/* Dynamic shared memory of the launch's bytes. */
#define LS_SHARED(type, name)                                                                                          \
    extern __shared__ __align__(16) unsigned char ls_shared_bytes[];                                                   \
    type *name = reinterpret_cast<type *>(ls_shared_bytes)
#endif
#include "device/op.h"

template <typename T> __device__ inline float ls_load(T value) {
    return static_cast<float>(value);
}
template <typename T> __device__ inline T ls_store(float value) {
    return static_cast<T>(value); /* to nearest even */
}
/* Runs statement with T as the C++ type of dtype: float32, bfloat16, float16; other types are refused before. */
#define LS_WITH_TYPE(dtype, statement)                                                                                 \
    do {                                                                                                               \
        if ((dtype) == LS_BFLOAT16) {                                                                                  \
            using T = __nv_bfloat16;                                                                                   \
            statement;                                                                                                 \
        } else if ((dtype) == LS_FLOAT16) {                                                                            \
            using T = __half;                                                                                          \
            statement;                                                                                                 \
        } else {                                                                                                       \
            using T = float;                                                                                           \
            statement;                                                                                                 \
        }                                                                                                              \
    } while (0)
