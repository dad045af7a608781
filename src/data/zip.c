/* ZIP by its central directory at the end, with the records of ZIP64 (APPNOTE 4.3.14, 4.5.3) where a number has no room
 * in the old ones. Each file's header, sizes and CRC-32 are compared with what is there. */
#include "data/zip.h"

#include <errno.h>
#include <string.h>

#include "base/new.h"
#include "base/whole_file.h"
#include "data/reader.h"

#define LOCAL_MAGIC   0x04034B50U
#define CENTRAL_MAGIC 0x02014B50U
#define END_MAGIC     0x06054B50U
#define LOCAL_SIZE    30
#define CENTRAL_SIZE  46
#define END_SIZE      22
#define LOCATOR_MAGIC 0x07064B50U /* of ZIP64's end record, before the old one */
#define END64_MAGIC   0x06064B50U
#define LOCATOR_SIZE  20
#define END64_SIZE    56
#define EXTRA64       1 /* the extra field of an entry */
#define MAX_COMMENT   65535
#define MAX_FILES     65535
#define STORED        0
#define DEFLATED      8
#define ENCRYPTED     1U

static uint64_t get(const uint8_t *bytes, size_t at, int size) {
    uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | bytes[at + (size_t)i];
    return value;
}

static void put_little_endian(uint8_t *bytes, size_t at, int size, uint64_t value) {
    for (int i = 0; i < size; i++) bytes[at + (size_t)i] = (uint8_t)(value >> 8 * i);
}

/* One file, as the central directory has it. */
struct member {
    uint32_t flags, method, crc;
    uint64_t packed, unpacked, offset;
};

static ls_status fail_at(const struct ls_zip *archive, size_t offset, const char *what) {
    return ls_fail(LS_DATA_LOSS, "'%s' is damaged or no ZIP archive: %s at offset %zu of %zu", archive->path, what,
                   offset, archive->size);
}

/* The place of the end record: behind it there is at most a comment. The comment may be up to 65,535 bytes, and its
 * length is in the record itself, so the mark is looked for from the end backwards. Archives are read from behind,
 * because what is in front of the first file may be anything. */
static ls_status find_end(const struct ls_zip *archive, size_t *end) {
    size_t lowest = archive->size > END_SIZE + MAX_COMMENT ? archive->size - END_SIZE - MAX_COMMENT : 0;
    if (archive->size < END_SIZE) return fail_at(archive, archive->size, "it ends");
    for (size_t at = archive->size - END_SIZE + 1; at-- > lowest;)
        if (get(archive->bytes, at, 4) == END_MAGIC) {
            *end = at;
            return LS_OK;
        }
    return fail_at(archive, archive->size, "no end record before the end");
}

/* The entries of the directory lie in [at, end), count of them. */
struct directory {
    size_t at, end;
    uint64_t count;
};

/* ZIP64's end record has them; an archive without one has them in the old one. */
static ls_status find_directory64(const struct ls_zip *archive, size_t end, struct directory *directory) {
    if (end < LOCATOR_SIZE || get(archive->bytes, end - LOCATOR_SIZE, 4) != LOCATOR_MAGIC) return LS_OK;
    size_t locator = end - LOCATOR_SIZE;
    uint64_t at = get(archive->bytes, locator + 8, 8);
    if (locator < END64_SIZE || at > locator - END64_SIZE || get(archive->bytes, (size_t)at, 4) != END64_MAGIC)
        return fail_at(archive, locator, "a bad place of ZIP64's end record");
    *directory = (struct directory){(size_t)get(archive->bytes, (size_t)at + 48, 8), (size_t)at,
                                    get(archive->bytes, (size_t)at + 32, 8)};
    return LS_OK;
}

static ls_status find_directory(const struct ls_zip *archive, struct directory *directory) {
    size_t end = 0;
    ls_status status = find_end(archive, &end);
    if (status) return status;
    *directory = (struct directory){(size_t)get(archive->bytes, end + 16, 4), end, get(archive->bytes, end + 10, 2)};
    if (directory->at == UINT32_MAX || directory->count == UINT16_MAX || get(archive->bytes, end + 12, 4) == UINT32_MAX)
        status = find_directory64(archive, end, directory);
    if (!status && directory->count > archive->size / CENTRAL_SIZE)
        status = fail_at(archive, end, "more files than there is room for");
    return status;
}

/* An entry of the directory: where its name lies, and where the next one begins. */
struct entry {
    size_t name, length, next;
    uint64_t packed, unpacked, offset;
};

/* Of numbers that have no room in an entry ZIP64's extra field has 8 bytes each, in this order. */
static bool read_extra(const struct ls_zip *archive, size_t at, struct entry *entry) {
    uint64_t *const numbers[] = {&entry->unpacked, &entry->packed, &entry->offset};
    while (entry->next - at >= 4) {
        size_t kind = get(archive->bytes, at, 2), left = get(archive->bytes, at + 2, 2);
        at += 4;
        if (entry->next - at < left) return false;
        for (size_t i = 0; kind == EXTRA64 && i < 3; i++) {
            if (*numbers[i] != UINT32_MAX) continue;
            if (left < 8) return false;
            *numbers[i] = get(archive->bytes, at, 8);
            at += 8;
            left -= 8;
        }
        at += left;
    }
    return true;
}

static ls_status read_entry(const struct ls_zip *archive, size_t end, size_t at, struct entry *entry) {
    if (at > end || end - at < CENTRAL_SIZE || get(archive->bytes, at, 4) != CENTRAL_MAGIC)
        return fail_at(archive, at, "a bad entry of the directory");
    size_t length = get(archive->bytes, at + 28, 2), extra = get(archive->bytes, at + 30, 2);
    size_t comment = get(archive->bytes, at + 32, 2);
    if (end - at - CENTRAL_SIZE < length + extra + comment) return fail_at(archive, at, "a bad entry of the directory");
    *entry = (struct entry){at + CENTRAL_SIZE,
                            length,
                            at + CENTRAL_SIZE + length + extra,
                            get(archive->bytes, at + 20, 4),
                            get(archive->bytes, at + 24, 4),
                            get(archive->bytes, at + 42, 4)};
    if (!read_extra(archive, entry->name + length, entry))
        return fail_at(archive, at, "a bad extra field of an entry of the directory");
    entry->next += comment;
    return LS_OK;
}

/* Says what is there in place of name, as far as it fits. */
static ls_status fail_missing(const struct ls_zip *archive, const struct directory *directory, const char *name) {
    char names[240] = "nothing";
    size_t at = directory->at, used = 0;
    struct entry entry;
    for (uint64_t i = 0; i < directory->count && used + 80 < sizeof(names); i++, at = entry.next) {
        ls_status status = read_entry(archive, directory->end, at, &entry);
        if (status) return status;
        used +=
            (size_t)snprintf(names + used, sizeof(names) - used, "%s%.*s", i ? ", " : "",
                             (int)(entry.length < 60 ? entry.length : 60), (const char *)archive->bytes + entry.name);
    }
    return ls_fail(LS_NOT_FOUND, "'%s' holds no file '%s'; it holds %s", archive->path, name, names);
}

static ls_status find_member(const struct ls_zip *archive, const char *name, struct member *member) {
    struct directory directory;
    struct entry entry;
    ls_status status = find_directory(archive, &directory);
    if (status) return status;
    size_t at = directory.at;
    for (uint64_t i = 0; i < directory.count; i++, at = entry.next) {
        status = read_entry(archive, directory.end, at, &entry);
        if (status) return status;
        if (entry.length != strlen(name) || memcmp(archive->bytes + entry.name, name, entry.length) != 0) continue;
        const uint8_t *found = archive->bytes + at;
        *member = (struct member){(uint32_t)get(found, 8, 2),
                                  (uint32_t)get(found, 10, 2),
                                  (uint32_t)get(found, 16, 4),
                                  entry.packed,
                                  entry.unpacked,
                                  entry.offset};
        return LS_OK;
    }
    return fail_missing(archive, &directory, name);
}

/* Files that lie in each other would be more than the archive has room for. */
static ls_status list_members(const struct ls_zip *archive, const struct directory *directory, struct ls_names *names) {
    size_t at = directory->at;
    uint64_t room = archive->size;
    int64_t capacity = 0;
    struct entry entry;
    for (uint64_t i = 0; i < directory->count; i++, at = entry.next) {
        ls_status status = read_entry(archive, directory->end, at, &entry);
        if (status) return status;
        if (entry.packed > room || memchr(archive->bytes + entry.name, 0, entry.length))
            return fail_at(archive, at, "a bad entry of the directory");
        room -= entry.packed;
        char *name = ls_alloc(entry.length + 1);
        if (name) memcpy(name, archive->bytes + entry.name, entry.length);
        status = ls_files_names_add(names, &capacity, name);
        if (status) return status;
    }
    return LS_OK;
}

ls_status ls_zip_list(const struct ls_zip *archive, struct ls_names *names) {
    struct directory directory;
    struct ls_names listed = {0};
    ls_status status = find_directory(archive, &directory);
    if (!status) status = list_members(archive, &directory, &listed);
    return LS_HAND_OVER(status, names, listed, ls_files_names_free(&listed));
}

static ls_status check_member(const struct ls_zip *archive, const char *name, const struct member *member) {
    if (member->flags & ENCRYPTED)
        return ls_fail(LS_UNIMPLEMENTED, "file '%s' of '%s' is encrypted", name, archive->path);
    if (member->method != STORED && member->method != DEFLATED)
        return ls_fail(LS_UNIMPLEMENTED, "file '%s' of '%s' is packed by method %u: only deflate is read", name,
                       archive->path, member->method);
    return LS_OK;
}

/* Finds the place of the file's bytes. */
static ls_status find_bytes(const struct ls_zip *archive, const struct member *member, const uint8_t **packed) {
    uint64_t begin = member->offset;
    size_t at = (size_t)begin, header;
    if (begin > archive->size || archive->size - at < LOCAL_SIZE || get(archive->bytes, at, 4) != LOCAL_MAGIC)
        return fail_at(archive, at, "no file header");
    header = LOCAL_SIZE + get(archive->bytes, at + 26, 2) + (size_t)get(archive->bytes, at + 28, 2);
    if (archive->size - at < header || archive->size - at - header < member->packed)
        return fail_at(archive, at, "a file that does not fit");
    *packed = archive->bytes + at + header;
    return LS_OK;
}

static ls_status unpack(const struct ls_zip *archive, const struct member *member, const uint8_t *packed,
                        uint8_t *output) {
    size_t at = (size_t)(packed - archive->bytes);
    if (member->method == STORED) {
        memcpy(output, packed, member->packed);
    } else if (!ls_reader_inflate(packed, member->packed, output, member->unpacked)) {
        return fail_at(archive, at, "bytes that cannot be unpacked");
    }
    return ls_reader_crc32(0, output, member->unpacked) == member->crc
               ? LS_OK
               : fail_at(archive, at, "a file of wrong checksum");
}

ls_status ls_zip_read(const struct ls_zip *archive, const char *name, uint8_t **output, size_t *length) {
    struct member member = {0};
    const uint8_t *packed = NULL;
    ls_status status = find_member(archive, name, &member);
    if (!status) status = check_member(archive, name, &member);
    if (!status) status = find_bytes(archive, &member, &packed);
    if (status) return status;
    /* deflate makes at most 1032 bytes of one: a directory that promises more costs no memory */
    if (member.method == DEFLATED && member.unpacked / 1032 > member.packed)
        return fail_at(archive, member.offset, "a file that cannot be so large");
    if (member.method == STORED && member.packed != member.unpacked)
        return fail_at(archive, member.offset, "a stored file of two sizes");
    LS_CLEANUP(ls_free_pointer) uint8_t *made = ls_alloc(member.unpacked);
    if (!made) return ls_fail_memory(name, member.unpacked);
    status = unpack(archive, &member, packed, made);
    if (status) return status;
    *output = ls_steal(made);
    *length = member.unpacked;
    return LS_OK;
}

/* Writes the 26 bytes that local headers and the directory have in common, from the version on. */
static void put_common(uint8_t *at, const struct ls_zip_file *file, uint32_t crc) {
    size_t size = file->sizes[0] + file->sizes[1];
    put_little_endian(at, 0, 2, 20);
    put_little_endian(at, 8, 2, 0x21); /* 1 January 1980: the same bytes at every writing */
    put_little_endian(at, 10, 4, crc);
    put_little_endian(at, 14, 4, size);
    put_little_endian(at, 18, 4, size);
    put_little_endian(at, 22, 2, strlen(file->name));
}

static bool write_local(FILE *out, const struct ls_zip_file *file, uint32_t crc) {
    uint8_t header[LOCAL_SIZE] = {0};
    put_little_endian(header, 0, 4, LOCAL_MAGIC);
    put_common(header + 4, file, crc);
    size_t length = strlen(file->name);
    bool good = fwrite(header, 1, LOCAL_SIZE, out) == LOCAL_SIZE && fwrite(file->name, 1, length, out) == length;
    for (int i = 0; i < 2 && good; i++)
        good = !file->sizes[i] || fwrite(file->parts[i], 1, file->sizes[i], out) == file->sizes[i];
    return good;
}

static bool write_central(FILE *out, const struct ls_zip_file *file, uint32_t crc, size_t offset) {
    uint8_t header[CENTRAL_SIZE] = {0};
    put_little_endian(header, 0, 4, CENTRAL_MAGIC);
    put_little_endian(header, 4, 2, 20);
    put_common(header + 6, file, crc);
    put_little_endian(header, 42, 4, offset);
    size_t length = strlen(file->name);
    return fwrite(header, 1, CENTRAL_SIZE, out) == CENTRAL_SIZE && fwrite(file->name, 1, length, out) == length;
}

/* The facts that the directory adds to a file's own header. */
struct written {
    uint32_t crc;
    size_t offset;
};

/* Files are stored without compression, as numpy.savez does: floats of weights hardly shrink, and a reader may map
 * them. */
static bool write_all(FILE *out, const struct ls_zip_file *files, size_t count, struct written *written) {
    size_t at = 0, directory = 0;
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t crc = ls_reader_crc32(0, files[i].parts[0], files[i].sizes[0]);
        written[i] = (struct written){ls_reader_crc32(crc, files[i].parts[1], files[i].sizes[1]), at};
        good = write_local(out, &files[i], written[i].crc);
        at += LOCAL_SIZE + strlen(files[i].name) + files[i].sizes[0] + files[i].sizes[1];
    }
    for (size_t i = 0; i < count && good; i++) {
        good = write_central(out, &files[i], written[i].crc, written[i].offset);
        directory += CENTRAL_SIZE + strlen(files[i].name);
    }
    uint8_t end[END_SIZE] = {0};
    put_little_endian(end, 0, 4, END_MAGIC);
    put_little_endian(end, 8, 2, (uint64_t)count);
    put_little_endian(end, 10, 2, (uint64_t)count);
    put_little_endian(end, 12, 4, directory);
    put_little_endian(end, 16, 4, at);
    return good && fwrite(end, 1, END_SIZE, out) == END_SIZE;
}

ls_status ls_zip_write(const char *path, const struct ls_zip_file *files, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += LOCAL_SIZE + CENTRAL_SIZE + 2 * strlen(files[i].name) + files[i].sizes[0] + files[i].sizes[1];
    if (total >= UINT32_MAX - END_SIZE || count > MAX_FILES)
        return ls_fail(LS_UNIMPLEMENTED, "'%s' would have 4 GiB or more, or more than %d files", path, MAX_FILES);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct written, written, count, path);
    struct ls_whole_file whole;
    ls_status status = ls_whole_file_open(path, &whole);
    if (status) return status;
    if (!write_all(whole.out, files, count, written)) status = ls_whole_file_fail(&whole);
    return ls_whole_file_close(&whole, status);
}
