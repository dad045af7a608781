/* Faults that kernels find in their data, which the host reports. */
#pragma once
#include <stdint.h>

/* The first label that is no class since the last synchronize, which reports it. Host memory that the device writes
 * too, one a device. */
struct ls_cuda_fault {
    int64_t row, classes;
    int32_t label;
    int32_t found; /* 0 if there is none */
};
