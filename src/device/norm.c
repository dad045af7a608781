/* Chunks are counted from the beginning of the blob. */
#include "device/norm.h"

size_t ls_norm_chunks(size_t offset, size_t count) {
    return count ? (offset + count - 1) / LS_NORM_CHUNK - offset / LS_NORM_CHUNK + 1 : 0;
}

void ls_norm_add(const double *values, size_t count, int kinds, double *sum) {
    for (int k = 0; k < kinds; k++) sum[k] = 0;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < kinds; k++) sum[k] += values[i * (size_t)kinds + (size_t)k];
}
