/* The IDX reader. The header alone says how long the file must be, so a file is read to exactly that length and one
 * byte more, and every mistake is told with file and offset. */
#include "data/sources.h"

#include "base/new.h"
#include "data/reader.h"

#define UNSIGNED_BYTE 0x08

static const char *type_name(uint8_t type) {
    static const char *const names[] = {[UNSIGNED_BYTE] = "unsigned byte",
                                        [0x09] = "signed byte",
                                        [0x0B] = "int16",
                                        [0x0C] = "int32",
                                        [0x0D] = "float32",
                                        [0x0E] = "float64"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

static ls_status fail_truncated(const char *name, const char *part, size_t need, size_t size) {
    return ls_fail(LS_DATA_LOSS, "'%s' is truncated: its %s needs %zu bytes, the data ends at offset %zu", name, part,
                   need, size);
}

/* The first four bytes. */
static ls_status parse_magic(const char *name, const uint8_t *bytes, size_t size, int *rank) {
    if (size < 4) return fail_truncated(name, "magic number", 4, size);
    if (bytes[0] || bytes[1] || !type_name(bytes[2]))
        return ls_fail(LS_DATA_LOSS, "'%s' is no IDX file: it starts with %02x %02x %02x %02x", name, bytes[0],
                       bytes[1], bytes[2], bytes[3]);
    if (bytes[2] != UNSIGNED_BYTE)
        return ls_fail(LS_UNIMPLEMENTED,
                       "'%s' holds elements of type %s (0x%02x at offset 2); only unsigned byte is read", name,
                       type_name(bytes[2]), bytes[2]);
    if (bytes[3] < 1 || bytes[3] > LS_IDX_MAX_RANK)
        return ls_fail(LS_DATA_LOSS, "'%s' has rank %d at offset 3; 1 to %d can be read", name, bytes[3],
                       LS_IDX_MAX_RANK);
    *rank = bytes[3];
    return LS_OK;
}

static size_t header_size(int rank) {
    return 4 + 4 * (size_t)rank;
}

/* Magic and extents; *total is the length that the file must have. */
static ls_status parse_header(const char *name, const uint8_t *bytes, size_t size, struct ls_idx *idx, size_t *total) {
    struct ls_idx read = {.count = 1};
    ls_status status = parse_magic(name, bytes, size, &read.rank);
    if (status) return status;
    if (size < header_size(read.rank)) return fail_truncated(name, "header", header_size(read.rank), size);
    for (int i = 0; i < read.rank; i++) {
        const uint8_t *at = bytes + header_size(i);
        read.dims[i] = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        if (read.dims[i] == 0)
            return ls_fail(LS_DATA_LOSS, "'%s' has extent 0 at offset %zu: it holds nothing", name, header_size(i));
        if (__builtin_mul_overflow(read.count, read.dims[i], &read.count))
            return ls_fail(LS_DATA_LOSS, "'%s' has extents whose product overflows at offset %zu", name,
                           header_size(i));
    }
    if (__builtin_add_overflow((uint64_t)read.count, header_size(read.rank), total))
        return ls_fail(LS_DATA_LOSS, "'%s' has extents too large for this machine", name);
    *idx = read;
    return LS_OK;
}

ls_status ls_idx_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_idx *idx) {
    struct ls_idx read;
    size_t total;
    ls_status status = parse_header(name, bytes, size, &read, &total);
    if (status) return status;
    if (size < total) return fail_truncated(name, "header and data", total, size);
    if (size > total)
        return ls_fail(LS_DATA_LOSS, "'%s' is longer than its header says: data should end at offset %zu", name, total);
    read.values = bytes + header_size(read.rank);
    *idx = read;
    return LS_OK;
}

ls_status ls_idx_read(const char *path, uint8_t **bytes, struct ls_idx *idx) {
    LS_CLEANUP(ls_free_pointer) uint8_t *header = NULL;
    uint8_t *read = NULL;
    struct ls_idx promised;
    size_t size = 0, total = 0;
    ls_status status = ls_reader_begin(path, header_size(LS_IDX_MAX_RANK), &header, &size);
    if (!status) status = parse_header(path, header, size, &promised, &total);
    if (!status) status = ls_reader_begin(path, total + 1, &read, &size);
    if (!status) status = ls_idx_parse(path, read, size, idx);
    return LS_HAND_OVER(status, bytes, read, ls_free(read));
}
