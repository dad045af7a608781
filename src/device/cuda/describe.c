/* The GPUs of this machine, and the libraries that run on them. */
#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "base/plain.h"

/* NULL, or why device index cannot be used. */
static const char *why_refused(int index) {
    int major = 0, minor = 0, pools = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, index);
    if (error != cudaSuccess) return cudaGetErrorString(error);
    if (10 * major + minor < LS_CUDA_OLDEST) return "a GPU is older than this build's kernels are for (-Dgpu_targets)";
    return pools ? NULL : "the driver has no memory pools for a GPU";
}

const char *ls_cuda_unavailable(void) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    const char *reason = error == cudaSuccess ? NULL : cudaGetErrorString(error);
    for (int i = 0; !reason && i < count; i++) reason = why_refused(i);
    (void)cudaGetLastError();
    return reason || count ? reason : "there is no GPU";
}

int ls_cuda_count(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count < LS_MAX_LOCAL_DEVICES ? count : LS_MAX_LOCAL_DEVICES;
    (void)cudaGetLastError();
    return 0;
}

/* Appends to a text that may be full. */
__attribute__((format(printf, 4, 5))) static void put(char *text, size_t size, size_t *used, const char *format, ...) {
    if (*used >= size) return;
    int more = LS_PLAIN_ARGUMENTS(text + *used, size - *used, format);
    if (more > 0) *used += (size_t)more;
}

/* A line a GPU. */
void ls_cuda_describe(char *text, size_t size) {
    size_t used = 0;
    int count = ls_cuda_count();
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp about;
        if (cudaGetDeviceProperties(&about, i) != cudaSuccess) continue;
        put(text, size, &used, "gpu:%d %s, %.1f GiB, compute capability %d.%d, %d multiprocessors\n", i, about.name,
            (double)about.totalGlobalMem / (1 << 30), about.major, about.minor, about.multiProcessorCount);
    }
    ls_cuda_libraries(text + used, used < size ? size - used : 0);
}

void ls_cuda_libraries(char *text, size_t size) {
    char none[200];
    const struct ls_device_group_ops *group = ls_cuda_group(none, sizeof(none));
    int driver = 0, runtime = 0, nccl = group ? group->version() : 0;
    int dnn = (int)cudnnGetVersion(), blas = (int)cublasLtGetVersion();
    size_t used = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    put(text, size, &used, "CUDA %d.%d (driver %d.%d), cuBLAS %d.%d.%d, cuDNN %d.%d.%d", runtime / 1000,
        runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, blas / 10000, blas / 100 % 100, blas % 100, dnn / 10000,
        dnn / 100 % 100, dnn % 100);
    if (nccl) put(text, size, &used, ", NCCL %d.%d.%d", nccl / 10000, nccl / 100 % 100, nccl % 100);
}

/* Libraries choose kernels by the GPU. The driver's version changes none of them. */
void ls_cuda_fingerprint(char *text, size_t size) {
    int runtime = 0;
    struct cudaDeviceProp about = {.name = "none"};
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetDeviceProperties(&about, 0);
    (void)snprintf(text, size, "gpu %s sm_%d%d CUDA %d cuBLAS %zu cuDNN %zu", about.name, about.major, about.minor,
                   runtime, cublasLtGetVersion(), cudnnGetVersion());
}
