/* Files into memory through zlib, which reads plain files as they are and gzipped ones unpacked. The buffer doubles as
 * bytes arrive. */
#include "data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/read_file.h"

#define FIRST_CAPACITY ((size_t)1 << 16)
#define LARGEST_READ   ((size_t)1 << 30) /* gzread counts in unsigned and returns int */

struct reading {
    const char *path; /* borrows */
    gzFile file;
    uint8_t *bytes; /* owns */
    size_t size, capacity, most;
};

static void close_reading(struct reading *reading) {
    if (reading->file) (void)gzclose_r(reading->file);
    ls_free(reading->bytes);
}

static ls_status fail_read(const struct reading *reading) {
    int code = Z_OK;
    const char *text = gzerror(reading->file, &code);
    if (code == Z_ERRNO) return ls_read_file_fail("read", reading->path);
    size_t prefix = strlen(reading->path);
    if (!strncmp(text, reading->path, prefix) && !strncmp(text + prefix, ": ", 2)) text += prefix + 2; /* zlib's own */
    if (code == Z_MEM_ERROR) return ls_fail_memory(reading->path, 0);
    return ls_fail(LS_DATA_LOSS, "cannot read '%s' beyond offset %zu of its contents: %s", reading->path, reading->size,
                   text);
}

/* One read. A gzip stream that stops in the middle is an error of its own in zlib, seen when the data ends. */
static ls_status read_some(struct reading *reading, bool *ended) {
    ls_status status = LS_GROW(reading->bytes, reading->capacity, reading->size + 1, FIRST_CAPACITY, reading->path);
    if (status) return status;
    size_t free = ls_smaller_size(reading->capacity, reading->most) - reading->size;
    unsigned asked = (unsigned)ls_smaller_size(free, LARGEST_READ);
    errno = 0;
    int got = gzread(reading->file, reading->bytes + reading->size, asked), code = Z_OK;
    if (got < 0) return fail_read(reading);
    reading->size += (size_t)got;
    if ((unsigned)got == asked) return LS_OK;
    (void)gzerror(reading->file, &code);
    *ended = true;
    return code == Z_OK ? LS_OK : fail_read(reading);
}

ls_status ls_reader_begin(const char *path, size_t most, uint8_t **bytes, size_t *size) {
    LS_CLEANUP(close_reading) struct reading reading = {.path = path, .most = most};
    ls_status status = LS_OK;
    errno = 0;
    reading.file = gzopen(path, "rb");
    if (!reading.file) return errno ? ls_read_file_fail("open", path) : ls_fail_memory("a gzip stream", 0);
    for (bool ended = false; !status && !ended && reading.size < most;) status = read_some(&reading, &ended);
    if (status) return status;
    *bytes = ls_steal(reading.bytes);
    *size = reading.size;
    return LS_OK;
}

ls_status ls_reader_all(const char *path, uint8_t **bytes, size_t *size) {
    return ls_reader_begin(path, SIZE_MAX, bytes, size);
}

bool ls_reader_inflate(const uint8_t *packed, size_t size, uint8_t *output, size_t length) {
    z_stream stream = {.next_in = (Bytef *)packed, .next_out = output};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK) {
        size_t left = size - (size_t)(stream.next_in - packed), free = length - (size_t)(stream.next_out - output);
        stream.avail_in = (uInt)ls_smaller_size(left, LARGEST_READ);
        stream.avail_out = (uInt)ls_smaller_size(free, LARGEST_READ);
        code = inflate(&stream, Z_NO_FLUSH);
    }
    bool whole = code == Z_STREAM_END && stream.next_out == output + length;
    (void)inflateEnd(&stream);
    return whole;
}

/* RFC 1950: the low half of the first byte is the method (8), the high half the window (at most 7), and both bytes as a
 * big-endian number are a multiple of 31. */
bool ls_reader_is_zlib(const uint8_t bytes[2]) {
    return (bytes[0] & 0x0F) == Z_DEFLATED && bytes[0] >> 4 <= 7 && (bytes[0] << 8 | bytes[1]) % 31 == 0;
}

ls_status ls_reader_inflate_zlib(const char *path, const uint8_t *packed, size_t size, uint8_t **output,
                                 size_t *length) {
    size_t room = FIRST_CAPACITY, taken = 0, made = 0;
    z_stream stream = {0};
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(room);
    if (!bytes || inflateInit(&stream) != Z_OK) return ls_fail_memory(path, room);
    int code = Z_OK;
    while (code == Z_OK) {
        size_t left = size - taken, free = room - made;
        stream.next_in = (Bytef *)packed + taken;
        stream.avail_in = (uInt)ls_smaller_size(left, LARGEST_READ);
        stream.next_out = bytes + made;
        stream.avail_out = (uInt)ls_smaller_size(free, LARGEST_READ);
        code = inflate(&stream, Z_NO_FLUSH);
        taken = (size_t)(stream.next_in - packed);
        made = (size_t)(stream.next_out - bytes);
        if (code == Z_OK && made == room && LS_GROW(bytes, room, room + 1, FIRST_CAPACITY, path)) code = Z_MEM_ERROR;
    }
    (void)inflateEnd(&stream);
    if (code == Z_MEM_ERROR) return ls_fail_memory(path, room);
    if (code != Z_STREAM_END || taken != size)
        return ls_fail(LS_DATA_LOSS, "cannot unpack '%s' beyond offset %zu of %zu: %s", path, taken, size,
                       code == Z_STREAM_END  ? "something follows its end"
                       : code == Z_BUF_ERROR ? "the file ends"
                                             : "its bytes are damaged");
    *output = ls_steal(bytes);
    *length = made;
    return LS_OK;
}

uint32_t ls_reader_crc32(uint32_t before, const void *bytes, size_t size) {
    return (uint32_t)crc32_z(before, bytes, size);
}

char *ls_reader_path_join(const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = ls_alloc(size);
    if (path) (void)snprintf(path, size, "%s/%s", folder, name);
    return path;
}

ls_status ls_reader_folder_check(const char *folder) {
    if (!folder || !*folder) return ls_fail(LS_INVALID_ARGUMENT, "no folder given for the dataset");
    struct stat info;
    if (stat(folder, &info)) return ls_read_file_fail("find dataset folder", folder);
    if (!S_ISDIR(info.st_mode)) return ls_fail(LS_NOT_FOUND, "dataset folder '%s' is a file, not a folder", folder);
    return LS_OK;
}
