/* The loops around read and pread. */
#include "base/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"

#define FIRST ((size_t)4096) /* bytes, where the size is not known: of a pipe */

void ls_read_file_close(const int *fd) {
    if (*fd >= 0) (void)close(*fd);
}

/* errno has no status of its own where a disk or its server does not answer. */
static const char *advice_of(ls_status status) {
    return status == LS_UNKNOWN ? "; it may be sound: try again when its disk answers" : "";
}

ls_status ls_read_file_fail(const char *doing, const char *path) {
    int error = errno;
    ls_status status = ls_errno_status(error);
    return ls_fail(status, "cannot %s '%s': %s%s", doing, path, strerror(error), advice_of(status));
}

/* Returns the bytes that came, 0 at the end; -1: errno. An offset below 0 is the present place. */
static ssize_t read_some(int fd, int64_t offset, void *bytes, size_t size) {
    ssize_t got;
    do got = offset < 0 ? read(fd, bytes, size) : pread(fd, bytes, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

ls_status ls_read_file_at(int fd, const char *path, uint64_t offset, void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t got = read_some(fd, (int64_t)(offset + done), (char *)bytes + done, size - done);
        if (got < 0) return ls_read_file_fail("read", path);
        if (!got)
            return ls_fail(LS_DATA_LOSS, "'%s' ends too soon: at offset %llu, where %zu bytes more should be", path,
                           (unsigned long long)(offset + done), size - done);
        done += (size_t)got;
    }
    return LS_OK;
}

/* ---- what a setting names ---- */

/* A wrong path is a mistake of the user's; all else is not. */
static ls_status fail_given(const char *setting, const char *path) {
    int error = errno;
    ls_status status = ls_errno_status(error);
    bool mistake = status == LS_NOT_FOUND || status == LS_PERMISSION_DENIED || status == LS_FAILED_PRECONDITION;
    return ls_fail(mistake ? LS_INVALID_ARGUMENT : status, "%s%s'%s' cannot be read: %s%s", setting ? setting : "",
                   setting ? "=" : "", path, strerror(error), advice_of(status));
}

ls_status ls_read_file_given(const char *setting, const char *path, size_t most, char **text, size_t *size) {
    struct stat info;
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) return fail_given(setting, path);
    size_t room = info.st_size > 0 ? (size_t)info.st_size + 1 : FIRST, used = 0;
    if (room > most) room = most;
    LS_CLEANUP(ls_free_pointer) char *read = ls_alloc(++room);
    if (!read) return ls_fail_memory(path, room);
    while (used < most) {
        ls_status status = LS_GROW(read, room, used + 2, FIRST, path); /* a zero follows */
        if (status) return status;
        ssize_t got = read_some(fd, -1, read + used, (room <= most ? room - 1 : most) - used);
        if (got < 0) return fail_given(setting, path);
        if (!got) break;
        used += (size_t)got;
    }
    read[used] = 0;
    *text = ls_steal(read);
    *size = used;
    return LS_OK;
}
