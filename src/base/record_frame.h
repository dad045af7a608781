/* The frame of a record in TFRecord and TensorBoard's event files. Its length and the length's checksum stand before
 * the bytes, their checksum behind them. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>
#include <stdio.h>

#define LS_RECORD_HEADER 12 /* bytes */
#define LS_RECORD_FOOTER 4

void ls_record_frame_header(uint64_t length, uint8_t header[LS_RECORD_HEADER]);
void ls_record_frame_footer(const void *bytes, size_t size, uint8_t footer[LS_RECORD_FOOTER]);
/* The length that a header tells; false where its checksum is wrong. */
bool ls_record_frame_header_read(const uint8_t header[LS_RECORD_HEADER], uint64_t *length);
/* Appends a whole record to a file that is open for writing. */
ls_status ls_record_frame_write(FILE *file, const char *path, const void *bytes, size_t size);
bool ls_record_frame_footer_fits(const uint8_t footer[LS_RECORD_FOOTER], const void *bytes, size_t size);

/* CRC-32C (Castagnoli), the checksum of TFRecord files. */

uint32_t ls_crc32c(const void *bytes, size_t size);
/* As TFRecord stores it: rotated and offset, so that a checksum of data that holds checksums is a good one. */
uint32_t ls_crc32c_masked(const void *bytes, size_t size);
