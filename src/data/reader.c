/* Files into memory through zlib, which reads plain files as they are and gzipped ones unpacked. The buffer doubles as
 * bytes arrive, so that a header which promises more than the file holds costs no memory. One thread a reader. */
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

struct ls_reader {
    const char *path; /* borrows */
    gzFile file;
    uint8_t *bytes; /* owns */
    size_t size, capacity;
    bool ended;
};

ls_status ls_reader_open(const char *path, struct ls_reader **reader) {
    LS_NEW(struct ls_reader, made, "a file reader");
    made->path = path;
    errno = 0;
    made->file = gzopen(path, "rb");
    if (!made->file) {
        ls_status status = errno ? ls_read_file_fail("open", path) : ls_fail_memory("a gzip stream", 0);
        ls_free(made);
        return status;
    }
    *reader = made;
    return LS_OK;
}

/* Makes room for at least one more byte, and for no more than want in all. */
static ls_status grow_bytes(struct ls_reader *reader, uint64_t want) {
    if (reader->size < reader->capacity) return LS_OK;
    if (reader->capacity > SIZE_MAX / 2) return ls_fail_memory(reader->path, reader->capacity);
    size_t capacity = reader->capacity ? 2 * reader->capacity : FIRST_CAPACITY;
    if (capacity > want) capacity = (size_t)want;
    uint8_t *bytes = ls_alloc(capacity);
    if (!bytes) return ls_fail_memory(reader->path, capacity);
    if (reader->size) memcpy(bytes, reader->bytes, reader->size);
    ls_free(reader->bytes);
    reader->bytes = bytes;
    reader->capacity = capacity;
    return LS_OK;
}

static ls_status fail_read(const struct ls_reader *reader) {
    int code = Z_OK;
    const char *text = gzerror(reader->file, &code);
    if (code == Z_ERRNO) return ls_read_file_fail("read", reader->path);
    size_t prefix = strlen(reader->path);
    if (!strncmp(text, reader->path, prefix) && !strncmp(text + prefix, ": ", 2)) text += prefix + 2; /* zlib's own */
    if (code == Z_MEM_ERROR) return ls_fail_memory(reader->path, 0);
    return ls_fail(LS_DATA_LOSS, "cannot read '%s' beyond offset %zu of its contents: %s", reader->path, reader->size,
                   text);
}

/* One read. A gzip stream that stops in the middle is an error of its own in zlib, seen when the data ends. */
static ls_status read_some(struct ls_reader *reader, uint64_t want) {
    uint64_t left = want < reader->capacity ? want - reader->size : reader->capacity - reader->size;
    unsigned asked = (unsigned)(left < LARGEST_READ ? left : LARGEST_READ);
    errno = 0;
    int got = gzread(reader->file, reader->bytes + reader->size, asked);
    if (got < 0) return fail_read(reader);
    reader->size += (size_t)got;
    if ((unsigned)got == asked) return LS_OK;
    int code = Z_OK;
    (void)gzerror(reader->file, &code);
    if (code != Z_OK) return fail_read(reader);
    reader->ended = true;
    return LS_OK;
}

ls_status ls_reader_fill(struct ls_reader *reader, uint64_t want) {
    while (reader->size < want && !reader->ended) {
        ls_status status = grow_bytes(reader, want);
        if (!status) status = read_some(reader, want);
        if (status) return status;
    }
    return LS_OK;
}

const uint8_t *ls_reader_bytes(const struct ls_reader *reader) {
    return reader->bytes;
}

size_t ls_reader_size(const struct ls_reader *reader) {
    return reader->size;
}

uint8_t *ls_reader_take(struct ls_reader *reader) {
    reader->size = reader->capacity = 0;
    return ls_steal(reader->bytes);
}

void ls_reader_free(struct ls_reader *reader) {
    if (!reader) return;
    (void)gzclose_r(reader->file);
    ls_free(reader->bytes);
    ls_free(reader);
}

ls_status ls_reader_all(const char *path, uint8_t **bytes, size_t *size) {
    struct ls_reader *reader = NULL;
    ls_status status = ls_reader_open(path, &reader);
    if (!status) status = ls_reader_fill(reader, UINT64_MAX);
    if (!status) *size = reader->size;
    if (!status) *bytes = ls_reader_take(reader);
    ls_reader_free(reader);
    return status;
}

bool ls_reader_inflate(const uint8_t *packed, size_t size, uint8_t *output, size_t length) {
    z_stream stream = {.next_in = (Bytef *)packed, .next_out = output};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK) {
        size_t left = size - (size_t)(stream.next_in - packed), free = length - (size_t)(stream.next_out - output);
        stream.avail_in = (uInt)(left < LARGEST_READ ? left : LARGEST_READ);
        stream.avail_out = (uInt)(free < LARGEST_READ ? free : LARGEST_READ);
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
        stream.avail_in = (uInt)(left < LARGEST_READ ? left : LARGEST_READ);
        stream.next_out = bytes + made;
        stream.avail_out = (uInt)(free < LARGEST_READ ? free : LARGEST_READ);
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

uint32_t ls_reader_crc32(const void *bytes, size_t size) {
    return ls_reader_crc32_more(0, bytes, size);
}

uint32_t ls_reader_crc32_more(uint32_t crc, const void *bytes, size_t size) {
    return (uint32_t)crc32_z(crc, bytes, size);
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
