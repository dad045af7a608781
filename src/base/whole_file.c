/* Writing beside, then renaming. */
#define _GNU_SOURCE
#include "base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/read_file.h"
#include "base/status.h"

#define DIGITS   16
#define ATTEMPTS 8

static const char *name_in(const char *place) {
    const char *slash = strrchr(place, '/');
    return slash ? slash + 1 : place;
}

static void name_folder(const char *place, char folder[PATH_MAX]) {
    (void)snprintf(folder, PATH_MAX, "%.*s.", (int)(name_in(place) - place), place);
}

/* ---- what is not whole yet ---- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void remove_all(const char *path) {
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Unless somebody writes it. */
static void remove_left(const char *path) {
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == EISDIR) fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB)) remove_all(path);
    (void)close(fd);
}

static bool is_partial(const char *entry, const char *name) {
    size_t size = strlen(name);
    return entry[0] == '.' && !strncmp(entry + 1, name, size) && entry[1 + size] == '.' &&
           strspn(entry + size + 2, "0123456789abcdef") == DIGITS && !entry[size + 2 + DIGITS];
}

static void remove_all_left(const char *place) {
    char path[PATH_MAX];
    const char *name = name_in(place);
    name_folder(place, path);
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (!is_partial(entry->d_name, name)) continue;
        (void)snprintf(path, sizeof(path), "%.*s%s", (int)(name - place), place, entry->d_name);
        remove_left(path);
    }
    (void)closedir(folder);
}

static int create_new(const char *path, bool folder) {
    if (!folder) return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return mkdir(path, 0777) ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Returns false if somebody has taken it for one that a killed process left. */
static bool hold(int fd) {
    struct stat info;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return false;
    return fstat(fd, &info) || info.st_nlink > 0;
}

ls_status ls_whole_file_partial_new(const char *place, bool folder, struct ls_whole_file_partial *partial) {
    const char *name = name_in(place);
    size_t size = strlen(place) + DIGITS + 3;
    LS_CLEANUP(ls_free_pointer) char *path = ls_alloc(size);
    if (!path) return ls_fail_memory("a path", size);
    remove_all_left(place);
    for (int attempt = 1;; attempt++) {
        uint64_t own;
        ls_status status = ls_entropy_fill(&own, sizeof(own));
        if (status) return status;
        (void)snprintf(path, size, "%.*s.%s.%016llx", (int)(name - place), place, name, (unsigned long long)own);
        int fd = create_new(path, folder);
        if (fd < 0) return ls_fail_errno("write", place);
        if (hold(fd) || attempt == ATTEMPTS) {
            *partial = (struct ls_whole_file_partial){ls_steal(path), fd};
            return LS_OK;
        }
        (void)close(fd);
    }
}

void ls_whole_file_partial_free(struct ls_whole_file_partial *partial) {
    if (!partial->path) return;
    remove_all(partial->path);
    (void)close(partial->fd);
    ls_free(partial->path);
    *partial = (struct ls_whole_file_partial){0};
}

ls_status ls_whole_file_sync_folder(const char *place) {
    char folder[PATH_MAX];
    name_folder(place, folder);
    LS_CLEANUP(ls_read_file_close) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) return LS_OK;              /* one that may be written, but not read */
    bool synced = fd >= 0 && (!fsync(fd) || errno == EINVAL); /* EINVAL: it is never behind */
    return synced ? LS_OK : ls_fail_errno("write", place);
}

/* ---- a file ---- */

static void forget(struct ls_whole_file *file) {
    ls_whole_file_partial_free(&file->partial);
    ls_free(file->path);
    free(file->place); /* of realpath */
    *file = (struct ls_whole_file){0};
}

/* out has a descriptor of its own: the partial one is locked until it is renamed. */
static ls_status open_out(struct ls_whole_file *file) {
    int fd = file->partial.path ? fcntl(file->partial.fd, F_DUPFD_CLOEXEC, 0)
                                : open(file->place, O_WRONLY | O_TRUNC | O_CLOEXEC);
    file->out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (file->out) return LS_OK;
    ls_status status = ls_whole_file_fail(file);
    if (fd >= 0) (void)close(fd);
    return status;
}

static ls_status open_whole_file_file(struct ls_whole_file *file) {
    struct stat info;
    bool there = !stat(file->path, &info);
    if (!there && errno != ENOENT) return ls_whole_file_fail(file);
    if (there && S_ISDIR(info.st_mode))
        errno = EISDIR;
    else
        file->place = there ? realpath(file->path, NULL) : strdup(file->path);
    if (!file->place) return ls_whole_file_fail(file);
    ls_status status =
        there && !S_ISREG(info.st_mode) ? LS_OK : ls_whole_file_partial_new(file->place, false, &file->partial);
    return status ? status : open_out(file);
}

ls_status ls_whole_file_open(const char *path, struct ls_whole_file *file) {
    *file = (struct ls_whole_file){.path = ls_strdup(path)};
    ls_status status = file->path ? open_whole_file_file(file) : ls_fail_memory("a path", strlen(path));
    if (status) forget(file);
    return status;
}

ls_status ls_whole_file_fail(const struct ls_whole_file *file) {
    return ls_fail_errno("write", file->path);
}

ls_status ls_whole_file_sync(const struct ls_whole_file *file) {
    errno = EIO; /* of a write before */
    bool failed = fflush(file->out) || ferror(file->out);
    if (!failed && file->partial.path) failed = fsync(file->partial.fd) != 0;
    return failed ? ls_whole_file_fail(file) : LS_OK;
}

ls_status ls_whole_file_close(struct ls_whole_file *file, ls_status status) {
    if (!status) status = ls_whole_file_sync(file);
    if (fclose(file->out) && !status) status = ls_whole_file_fail(file);
    if (!status && file->partial.path) {
        status =
            rename(file->partial.path, file->place) ? ls_whole_file_fail(file) : ls_whole_file_sync_folder(file->place);
    }
    forget(file);
    return status;
}

ls_status ls_whole_file_try(const char *path) {
    struct ls_whole_file file;
    ls_status status = ls_whole_file_open(path, &file);
    if (status) return status;
    (void)fclose(file.out);
    forget(&file);
    return LS_OK;
}
