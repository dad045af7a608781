/* The row of GPUs in the table of device kinds. */
#pragma once
#include "device/device.h"

extern const struct ls_device_kind ls_gpu_kind;
