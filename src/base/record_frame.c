/* Little-endian numbers and masked checksums. */
#include "base/record_frame.h"

#include "base/status.h"

static uint64_t read_record_frame_number(const uint8_t *bytes, int size) {
    uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

static void write_number(uint8_t *bytes, int size, uint64_t value) {
    for (int i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

void ls_record_frame_header(uint64_t length, uint8_t header[LS_RECORD_HEADER]) {
    write_number(header, 8, length);
    write_number(header + 8, 4, ls_crc32c_masked(header, 8));
}

void ls_record_frame_footer(const void *bytes, size_t size, uint8_t footer[LS_RECORD_FOOTER]) {
    write_number(footer, LS_RECORD_FOOTER, ls_crc32c_masked(bytes, size));
}

ls_status ls_record_frame_write(FILE *file, const char *path, const void *bytes, size_t size) {
    uint8_t header[LS_RECORD_HEADER], footer[LS_RECORD_FOOTER];
    ls_record_frame_header(size, header);
    ls_record_frame_footer(bytes, size, footer);
    if (fwrite(header, 1, LS_RECORD_HEADER, file) == LS_RECORD_HEADER && fwrite(bytes, 1, size, file) == size &&
        fwrite(footer, 1, LS_RECORD_FOOTER, file) == LS_RECORD_FOOTER)
        return LS_OK;
    return ls_fail_errno("write", path);
}

bool ls_record_frame_header_read(const uint8_t header[LS_RECORD_HEADER], uint64_t *length) {
    *length = read_record_frame_number(header, 8);
    return read_record_frame_number(header + 8, 4) == ls_crc32c_masked(header, 8);
}

bool ls_record_frame_footer_fits(const uint8_t footer[LS_RECORD_FOOTER], const void *bytes, size_t size) {
    return read_record_frame_number(footer, LS_RECORD_FOOTER) == ls_crc32c_masked(bytes, size);
}
