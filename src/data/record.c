/* TFRecord. Plain files stay on the disk, and a record is read where it lies (pread, so any thread may); packed ones
 * are unpacked into memory. */
#include "data/record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/read_file.h"
#include "base/record_frame.h"
#include "data/reader.h"

struct ls_record_file {
    char *path;     /* owns */
    int fd;         /* -1: in memory, or opened for each reading */
    uint8_t *bytes; /* owns: what a packed file holds */
    uint64_t size;
    struct timespec written; /* of a plain file */
    struct place {
        uint64_t offset, length; /* of the record; of its bytes */
    } * places;                  /* owns */
    int64_t count, capacity;
};

static bool header_is_good(const uint8_t header[LS_RECORD_HEADER]) {
    uint64_t length;
    return ls_record_frame_header_read(header, &length);
}

static ls_status read_anew(const struct ls_record_file *file, uint64_t offset, uint8_t *bytes, size_t size) {
    struct stat info;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_read_file_fail("open", file->path);
    ls_status status = LS_OK;
    if (fstat(fd, &info))
        status = ls_read_file_fail("open", file->path);
    else if ((uint64_t)info.st_size != file->size || info.st_mtim.tv_sec != file->written.tv_sec ||
             info.st_mtim.tv_nsec != file->written.tv_nsec)
        status =
            ls_fail(LS_FAILED_PRECONDITION, "'%s' was written while the dataset was open: open it anew", file->path);
    else
        status = ls_read_file_at(fd, file->path, offset, bytes, size);
    (void)close(fd);
    return status;
}

/* The bytes are there: the caller has compared with the size. */
static ls_status read_at(const struct ls_record_file *file, uint64_t offset, uint8_t *bytes, size_t size) {
    if (file->fd >= 0) return ls_read_file_at(file->fd, file->path, offset, bytes, size);
    if (!file->bytes) return read_anew(file, offset, bytes, size);
    memcpy(bytes, file->bytes + offset, size);
    return LS_OK;
}

static ls_status add_place(struct ls_record_file *file, struct place place) {
    ls_status status = LS_GROW(file->places, file->capacity, file->count + 1, 256, "the places of records");
    if (!status) file->places[file->count++] = place;
    return status;
}

/* One record's header at *offset, which moves behind the record. Opening reads the headers alone and jumps over the
 * bytes, whose checksum is compared when the record is read. A length that is damaged would lead the search astray, so
 * its own checksum comes first. */
static ls_status find_record(struct ls_record_file *file, uint64_t *offset) {
    uint8_t header[LS_RECORD_HEADER];
    uint64_t left = file->size - *offset, length;
    if (left < LS_RECORD_HEADER)
        return ls_fail(LS_DATA_LOSS, "'%s' is truncated: at offset %llu, of record %lld, %llu bytes are left",
                       file->path, (unsigned long long)*offset, (long long)file->count, (unsigned long long)left);
    ls_status status = read_at(file, *offset, header, LS_RECORD_HEADER);
    if (status) return status;
    if (!ls_record_frame_header_read(header, &length))
        return ls_fail(
            LS_DATA_LOSS,
            "'%s' is no TFRecord file or damaged: wrong checksum of the length at offset %llu, of record %lld",
            file->path, (unsigned long long)*offset, (long long)file->count);
    if (left - LS_RECORD_HEADER < LS_RECORD_FOOTER || length > left - LS_RECORD_HEADER - LS_RECORD_FOOTER)
        return ls_fail(LS_DATA_LOSS,
                       "'%s' is truncated: record %lld at offset %llu has %llu bytes, the file ends at %llu",
                       file->path, (long long)file->count, (unsigned long long)*offset, (unsigned long long)length,
                       (unsigned long long)file->size);
    status = add_place(file, (struct place){*offset, length});
    *offset += LS_RECORD_HEADER + length + LS_RECORD_FOOTER;
    return status;
}

static ls_status find_records(struct ls_record_file *file) {
    ls_status status = LS_OK;
    for (uint64_t offset = 0; offset < file->size && !status;) status = find_record(file, &offset);
    return status;
}

static ls_status unpack_zlib(const struct ls_record_file *file, uint8_t **bytes, size_t *size) {
    LS_CLEANUP(ls_free_pointer) uint8_t *packed = ls_alloc(file->size);
    if (!packed) return ls_fail_memory(file->path, file->size);
    ls_status status = read_at(file, 0, packed, file->size);
    return status ? status : ls_reader_inflate_zlib(file->path, packed, file->size, bytes, size);
}

/* Two bytes tell a file that gzip or zlib has packed, unless the first record's length has them and a right checksum.
 */
static ls_status unpack_packed(struct ls_record_file *file) {
    uint8_t header[LS_RECORD_HEADER] = {0};
    if (file->size < LS_RECORD_HEADER) return LS_OK;
    ls_status status = read_at(file, 0, header, LS_RECORD_HEADER);
    if (status || header_is_good(header)) return status;
    bool gzip = header[0] == 0x1F && header[1] == 0x8B;
    if (!gzip && !ls_reader_is_zlib(header)) return LS_OK;
    size_t size = 0;
    status = gzip ? ls_reader_all(file->path, &file->bytes, &size) : unpack_zlib(file, &file->bytes, &size);
    if (status) return status;
    ls_record_file_close(file);
    file->size = size;
    return LS_OK;
}

static ls_status open_record_file(struct ls_record_file *file, const char *path) {
    struct stat info;
    file->path = ls_strdup(path);
    if (!file->path) return ls_fail_memory("a file name", strlen(path));
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &info)) return ls_read_file_fail("open", path);
    file->size = (uint64_t)info.st_size;
    file->written = info.st_mtim;
    return unpack_packed(file);
}

ls_status ls_record_file_open(const char *path, bool tolerant, struct ls_record_file **file, char **broken) {
    LS_NEW(struct ls_record_file, made, "a TFRecord file");
    *broken = NULL;
    made->fd = -1;
    ls_status status = open_record_file(made, path);
    if (!status) status = find_records(made);
    if (status == LS_DATA_LOSS && tolerant) {
        *broken = ls_strdup(ls_error());
        status = *broken ? LS_OK : ls_fail_memory("a message", LS_ERROR_SIZE);
    }
    return LS_HAND_OVER(status, file, made, ls_record_file_free(made));
}

void ls_record_file_close(struct ls_record_file *file) {
    if (file->fd >= 0) (void)close(file->fd);
    file->fd = -1;
}

void ls_record_file_free(struct ls_record_file *file) {
    if (!file) return;
    ls_record_file_close(file);
    ls_free(file->path);
    ls_free(file->bytes);
    ls_free(file->places);
    ls_free(file);
}

int64_t ls_record_file_count(const struct ls_record_file *file) {
    return file->count;
}

void ls_record_file_name(const struct ls_record_file *file, int64_t index, char *text, size_t size) {
    (void)snprintf(text, size, "record %lld at offset %llu of '%s'", (long long)index,
                   (unsigned long long)file->places[index].offset, file->path);
}

ls_status ls_record_file_read(const struct ls_record_file *file, int64_t index, uint8_t **bytes, size_t *size) {
    struct place place = file->places[index];
    LS_CLEANUP(ls_free_pointer) uint8_t *read = ls_alloc(place.length + LS_RECORD_FOOTER);
    if (!read) return ls_fail_memory("a record", place.length);
    ls_status status = read_at(file, place.offset + LS_RECORD_HEADER, read, place.length + LS_RECORD_FOOTER);
    if (status) return status;
    if (!ls_record_frame_footer_fits(read + place.length, read, place.length)) {
        char name[512];
        ls_record_file_name(file, index, name, sizeof(name));
        return ls_fail(LS_DATA_LOSS, "%s is damaged: wrong checksum of its %llu bytes", name,
                       (unsigned long long)place.length);
    }
    *bytes = ls_steal(read);
    *size = place.length;
    return LS_OK;
}
