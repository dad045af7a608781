/* NCCL, and which one it is that runs. Functions that came after the oldest one that is around are weak: where they
 * lack, NCCL is not used, but the GPUs are. */
#pragma once
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#pragma weak ncclCommInitRankConfig
#pragma weak ncclGetLastError

int ls_cuda_nccl_version(void); /* 22809 for 2.28.9 */
/* True if the library has all functions that are called; else writes the cause to why. */
bool ls_cuda_nccl_fits(char *why, size_t size);
