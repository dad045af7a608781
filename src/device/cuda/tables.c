/* Rooms of kernels that are not there yet are empty. */
#include "device/cuda/cuda.h"

__attribute__((weak)) const struct ls_cuda_kind ls_cuda_image_kinds[LS_OP_KIND_COUNT] = {{0}};
__attribute__((weak)) const struct ls_cuda_kind ls_cuda_element_kinds[LS_OP_KIND_COUNT] = {{0}};
__attribute__((weak)) const struct ls_cuda_kind ls_cuda_product_kinds[LS_OP_KIND_COUNT] = {{0}};
__attribute__((weak)) void ls_cuda_products_close(struct ls_cuda_device *device) {
    (void)device;
}
