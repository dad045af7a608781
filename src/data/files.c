/* Files and folders through the C library and POSIX. */
#include "data/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/plain.h"
#include "base/read_file.h"
#include "data/reader.h"

ls_status ls_file_read(const char *path, uint8_t **bytes, size_t *size) {
    struct stat info;
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) return ls_read_file_fail("open", path);
    size_t want = info.st_size > 0 ? (size_t)info.st_size : 0;
    LS_CLEANUP(ls_free_pointer) uint8_t *read = ls_alloc(want);
    if (!read) return ls_fail_memory(path, want);
    ls_status status = ls_read_file_at(fd, path, 0, read, want);
    if (status) return status;
    *bytes = ls_steal(read);
    *size = want;
    return LS_OK;
}

ls_status ls_file_size(const char *path, int64_t *size) {
    struct stat info;
    if (stat(path, &info)) return ls_read_file_fail("find", path);
    *size = (int64_t)info.st_size;
    return LS_OK;
}

ls_status ls_file_write(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wbe");
    bool good = file && fwrite(bytes, 1, size, file) == size;
    int error = good ? 0 : errno;
    if (file && fclose(file) && good) error = errno;
    return error ? ls_fail(ls_errno_status(error), "cannot write '%s': %s", path, strerror(error)) : LS_OK;
}

/* A name that is not there is of no kind. Links are followed; one in a folder that leads nowhere is a file: whoever
 * opens it says so, where it would be missed without a word. */
static ls_status look(int folder, const char *name, enum ls_name_kind kind, bool *is) {
    struct stat info;
    bool there = !fstatat(folder, name, &info, 0);
    if (!there && folder != AT_FDCWD && errno == ENOENT) there = !fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW);
    if (there && S_ISLNK(info.st_mode)) info.st_mode = S_IFREG;
    if (!there && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) return ls_read_file_fail("find", name);
    *is = there && (kind == LS_NAMES_FOLDERS ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode));
    return LS_OK;
}

ls_status ls_file_is(const char *path, enum ls_name_kind kind, bool *is) {
    return look(AT_FDCWD, path, kind, is);
}

ls_status ls_files_folder_make(const char *path) {
    struct stat info;
    if (mkdir(path, 0777) == 0) return LS_OK;
    int error = errno;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return LS_OK;
    return ls_fail(ls_errno_status(error), "cannot make folder '%s': %s", path, strerror(error));
}

bool ls_files_has_ending(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    return dot && ls_plain_same(dot, ending);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ls_status ls_files_names_add(struct ls_names *names, int64_t *capacity, char *name) {
    if (!name) return ls_fail_memory("the name of a file", 0);
    ls_status status = LS_GROW(names->names, *capacity, names->count + 1, 64, "names of files");
    if (status)
        ls_free(name);
    else
        names->names[names->count++] = name;
    return status;
}

static ls_status add_names(DIR *open, enum ls_name_kind kind, struct ls_names *names) {
    int64_t capacity = 0;
    ls_status status = LS_OK;
    for (struct dirent *entry; !status && (errno = 0, entry = readdir(open));) {
        bool is = false;
        if (entry->d_name[0] != '.') status = look(dirfd(open), entry->d_name, kind, &is);
        if (!status && is) status = ls_files_names_add(names, &capacity, ls_strdup(entry->d_name));
    }
    return !status && errno ? ls_read_file_fail("list", ".") : status;
}

ls_status ls_files_names_list(const char *folder, enum ls_name_kind kind, struct ls_names *names) {
    DIR *open = opendir(folder);
    if (!open) return ls_read_file_fail("open", folder);
    struct ls_names found = {0};
    ls_status status = add_names(open, kind, &found);
    (void)closedir(open);
    if (status) {
        ls_files_names_free(&found);
        return ls_fail_context(status, "folder '%s'", folder);
    }
    if (found.count) qsort(found.names, (size_t)found.count, sizeof(*found.names), compare_names);
    *names = found;
    return LS_OK;
}

ls_status ls_files_names_read(const char *path, struct ls_names *names) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size;
    int64_t capacity = 0;
    struct ls_names read = {0};
    ls_status status = ls_file_read(path, &bytes, &size);
    if (status) return status;
    text = ls_alloc(size + 1);
    if (!text) return ls_fail_memory(path, size);
    memcpy(text, bytes, size);
    for (char *state = NULL, *line = strtok_r(text, "\r\n", &state); line && !status;
         line = strtok_r(NULL, "\r\n", &state))
        status = ls_files_names_add(&read, &capacity, ls_strdup(line));
    return LS_HAND_OVER(status, names, read, ls_files_names_free(&read));
}

int64_t ls_files_names_find(const struct ls_names *names, const char *name) {
    for (int64_t i = 0; i < names->count; i++)
        if (!strcmp(names->names[i], name)) return i;
    return -1;
}

void ls_files_names_free(struct ls_names *names) {
    for (int64_t i = 0; i < names->count; i++) ls_free(names->names[i]);
    ls_free(names->names);
    *names = (struct ls_names){0};
}
