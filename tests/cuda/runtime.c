/* Devices, errors, the lock, and versions. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"

#define MOST_DEVICES 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local cudaError_t last;
static _Thread_local int current;

void ls_emulated_lock(void) {
    (void)pthread_mutex_lock(&lock);
}

void ls_emulated_unlock(void) {
    (void)pthread_mutex_unlock(&lock);
}

cudaError_t ls_emulated_answer(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
    return error;
}

int ls_emulated_current(void) {
    return current;
}

static int count_devices(void) {
    const char *text = getenv("LOCKSTEP_EMULATED_GPUS");
    int count = text ? atoi(text) : 2;
    return count < 0 ? 0 : count > MOST_DEVICES ? MOST_DEVICES : count;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = count_devices();
    return ls_emulated_answer(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= count_devices()) return ls_emulated_answer(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    if (device < 0 || device >= count_devices()) return ls_emulated_answer(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){.name = "emulated GPU",
                                          .major = 9,
                                          .minor = 0,
                                          .multiProcessorCount = 2,
                                          .warpSize = 32,
                                          .maxThreadsPerBlock = 1024};
    return cudaMemGetInfo(NULL, &properties->totalGlobalMem);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (device < 0 || device >= count_devices()) return ls_emulated_answer(cudaErrorInvalidDevice);
    switch ((int)attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = 2; /* few, so that grids are small */
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMemoryPoolsSupported:
        *value = 1;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 * 1024;
        break;
    default:
        return ls_emulated_answer(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    if (device < 0 || peer < 0 || device >= count_devices() || peer >= count_devices())
        return ls_emulated_answer(cudaErrorInvalidDevice);
    *can = device != peer && !getenv("LOCKSTEP_EMULATED_APART");
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    static bool enabled[MOST_DEVICES][MOST_DEVICES];
    int can = 0;
    cudaError_t error = flags ? cudaErrorInvalidValue : cudaDeviceCanAccessPeer(&can, current, peer);
    if (error == cudaSuccess && !can) error = cudaErrorPeerAccessUnsupported;
    if (error != cudaSuccess) return ls_emulated_answer(error);
    ls_emulated_lock();
    if (enabled[current][peer]) error = cudaErrorPeerAccessAlreadyEnabled;
    enabled[current][peer] = true;
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last;
}

#define ERRORS(X)                                                                                                      \
    X(cudaSuccess, "no error")                                                                                         \
    X(cudaErrorInvalidValue, "invalid argument")                                                                       \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                      \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                 \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                         \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                       \
    X(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices")                        \
    X(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                                             \
    X(cudaErrorNotReady, "device not ready")                                                                           \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                             \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")             \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                   \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                           \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                    \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                      \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream")  \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")

const char *cudaGetErrorName(cudaError_t error) {
#define NAME(code, text)                                                                                               \
    if (error == code) return #code;
    ERRORS(NAME)
    return "cudaErrorOfAnotherKind";
}

const char *cudaGetErrorString(cudaError_t error) {
#define TEXT(code, text)                                                                                               \
    if (error == code) return text;
    ERRORS(TEXT)
    return "an error that is not emulated";
}
