/* A build without NCCL. */
#include "device/cuda/cuda.h"

const struct ls_device_group_ops *const ls_cuda_group_ops = NULL;
