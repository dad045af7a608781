/* llm.c's files begin with 256 int32: a magic, a version, the number of tokens. nanoGPT's are uint16 alone. A text's
 * bytes are its tokens. All are little-endian. */
#include "data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/read_file.h"
#include "base/status.h"

enum { HEADER = LS_TOKEN_HEADER, AT_VERSION = 4, AT_COUNT = 8 };

static const struct ls_token_header headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};
enum { HEADERS = sizeof(headers) / sizeof(headers[0]) };

static int64_t little_endian(const uint8_t *bytes, int width) {
    int64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

const struct ls_token_header *ls_token_file_header(int width) {
    return &headers[width == headers[1].width];
}

const struct ls_token_header *ls_token_file_find_header(const uint8_t *bytes, size_t size) {
    for (int i = 0; size >= HEADER && i < HEADERS; i++)
        if (little_endian(bytes, 4) == headers[i].magic) return &headers[i];
    return NULL;
}

int64_t ls_token_file_at(const struct ls_token_layout *layout, const uint8_t *bytes, int64_t index) {
    return little_endian(bytes + layout->first + (size_t)index * (size_t)layout->width, layout->width);
}

/* The rest of a file behind its header; expected: the tokens that the header tells of. */
static ls_status check_header_count(const char *name, size_t size, int64_t expected, int width) {
    int64_t rest = (int64_t)size - HEADER;
    if (expected >= 1 && expected * width == rest) return LS_OK;
    return ls_fail(LS_DATA_LOSS,
                   "'%s' tells of %lld tokens at offset %d, which are %lld bytes: from offset %d on it has %lld; it is "
                   "truncated, or no file of tokens",
                   name, (long long)expected, AT_COUNT, (long long)(expected * width), HEADER, (long long)rest);
}

static ls_status parse_llmc(const char *name, const uint8_t *bytes, size_t size, struct ls_token_layout *layout) {
    if (size < HEADER)
        return ls_fail(LS_DATA_LOSS, "'%s' ends at offset %zu: llm.c's files begin with %d bytes of a header", name,
                       size, HEADER);
    int64_t magic = little_endian(bytes, 4), version = little_endian(bytes + AT_VERSION, 4),
            count = little_endian(bytes + AT_COUNT, 4);
    const struct ls_token_header *found = ls_token_file_find_header(bytes, size);
    if (!found)
        return ls_fail(LS_DATA_LOSS,
                       "'%s' has magic %lld at offset 0: llm.c's files have %lld (uint16) or %lld (uint32); tokens "
                       "uint16 are for files without a header",
                       name, (long long)magic, (long long)headers[0].magic, (long long)headers[1].magic);
    if (version != found->version)
        return ls_fail(LS_DATA_LOSS, "'%s' has version %lld at offset %d: with magic %lld it is %lld", name,
                       (long long)version, AT_VERSION, (long long)magic, (long long)found->version);
    ls_status status = check_header_count(name, size, count, found->width);
    if (!status) *layout = (struct ls_token_layout){HEADER, found->width, count};
    return status;
}

ls_status ls_token_file_parse(const char *name, ls_tokens format, const uint8_t *bytes, size_t size,
                              struct ls_token_layout *layout) {
    if (!size) return ls_fail(LS_DATA_LOSS, "'%s' is empty: it has no tokens", name);
    if (format == LS_TOKENS_LLMC) return parse_llmc(name, bytes, size, layout);
    if (format == LS_TOKENS_UINT16 && size % 2)
        return ls_fail(LS_DATA_LOSS, "'%s' has %zu bytes, and uint16 tokens have 2 each: the last is cut at offset %zu",
                       name, size, size - 1);
    if (format == LS_TOKENS_UINT16) *layout = (struct ls_token_layout){0, 2, (int64_t)(size / 2)};
    if (format == LS_TOKENS_BYTES) *layout = (struct ls_token_layout){0, 1, (int64_t)size};
    if (format == LS_TOKENS_CHARS) *layout = (struct ls_token_layout){0};
    return LS_OK;
}

/* An empty file has no mapping. */
static ls_status map_file(const char *path, int fd, struct ls_token_file *file) {
    struct stat info;
    if (fstat(fd, &info)) return ls_read_file_fail("open", path);
    if (!S_ISREG(info.st_mode))
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' is no file: tokens are read from a regular file", path);
    file->size = (size_t)info.st_size;
    if (!file->size) return LS_OK;
    void *bytes = mmap(NULL, file->size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return ls_read_file_fail("map", path);
    file->bytes = bytes;
    return LS_OK;
}

ls_status ls_token_file_open(const char *path, ls_tokens format, struct ls_token_file *file) {
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no wait for a pipe */
    struct ls_token_file made = {.fd = -1, .path = ls_strdup(path)};
    ls_status status = LS_OK;
    if (!made.path) status = ls_fail_memory("a path", 1);
    if (!status && fd < 0) status = ls_read_file_fail("open", path);
    if (!status) status = map_file(path, fd, &made);
    if (!status) status = ls_token_file_parse(path, format, made.bytes, made.size, &made.layout);
    if (status) {
        ls_token_file_close(&made);
        return status;
    }
    made.fd = fd;
    fd = -1;
    *file = made;
    return LS_OK;
}

ls_status ls_token_file_check(const struct ls_token_file *file) {
    struct stat info;
    if (fstat(file->fd, &info)) return ls_read_file_fail("look at", file->path);
    if ((size_t)info.st_size >= file->size) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "'%s' ends at offset %lld, and had %zu bytes when it was opened: it was changed",
                   file->path, (long long)info.st_size, file->size);
}

void ls_token_file_close(struct ls_token_file *file) {
    if (file->bytes) {
        (void)munmap((void *)(uintptr_t)file->bytes, file->size);
        if (file->fd >= 0) (void)close(file->fd);
    }
    ls_free(file->path);
    *file = (struct ls_token_file){0};
}
