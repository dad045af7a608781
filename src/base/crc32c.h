/* CRC-32C (Castagnoli), the checksum of TFRecord files. */
#pragma once
#include <stddef.h>
#include <stdint.h>

uint32_t ls_crc32c(const void *bytes, size_t size);
/* As TFRecord stores it: rotated and offset, so that a checksum of data that holds checksums is a good one. */
uint32_t ls_crc32c_masked(const void *bytes, size_t size);
