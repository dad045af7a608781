/* Faults that kernels find in their data, which the host reports. */
#include "device/cuda/cuda.h"

ls_status ls_cuda_fault_open(struct ls_cuda_device *device) {
    void *memory = NULL;
    ls_status status = device->device.ops->queue->allocate_host(&device->device, sizeof(*device->fault), &memory);
    if (!status) device->fault = memory;
    return status;
}

void ls_cuda_fault_close(struct ls_cuda_device *device) {
    if (device->fault) device->device.ops->queue->release_host(&device->device, device->fault);
    device->fault = NULL;
}

ls_status ls_cuda_fault_report(struct ls_cuda_device *device) {
    if (!device->fault->found) return LS_OK;
    const struct ls_cuda_fault fault = *device->fault;
    *device->fault = (struct ls_cuda_fault){0};
    return ls_fail(LS_INVALID_ARGUMENT, "row %lld has label %d, but the model has %lld classes: 0 to %lld",
                   (long long)fault.row, (int)fault.label, (long long)fault.classes, (long long)fault.classes - 1);
}
