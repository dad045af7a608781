/* The library is linked, and found by the system's loader: it may be another than the one whose header this is compiled
 * with. */
#include "device/cuda/nccl.h"

#include <stdio.h>

int ls_cuda_nccl_version(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

bool ls_cuda_nccl_fits(char *why, size_t size) {
    const char *lacking = !ncclCommInitRankConfig ? "ncclCommInitRankConfig"
                          : !ncclGetLastError     ? "ncclGetLastError"
                                                  : NULL;
    int version = ls_cuda_nccl_version();
    if (lacking)
        (void)snprintf(why, size, "NCCL %d.%d.%d, which is installed, has no %s: 2.14 or a later one is needed",
                       version / 10000, version / 100 % 100, version % 100, lacking);
    return !lacking;
}
