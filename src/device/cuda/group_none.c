/* A build without NCCL. */
#include <stdio.h>

#include "device/cuda/cuda.h"

const struct ls_device_group_ops *ls_cuda_group(char *why, size_t size) {
    (void)snprintf(why, size, "the GPU plugin was built without NCCL");
    return NULL;
}
