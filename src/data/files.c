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

#include "base/memory.h"
#include "base/status.h"
#include "data/reader.h"

static void close_file(FILE **file) {
    if (*file) (void)fclose(*file);
}

static ls_status fail_open(const char *path, int error) {
    return ls_fail(error == ENOENT ? LS_NOT_FOUND : LS_FAILED_PRECONDITION, "cannot open '%s': %s", path,
                   strerror(error));
}

ls_status ls_file_read(const char *path, uint8_t **bytes, size_t *size) {
    struct stat info;
    LS_CLEANUP(close_file) FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &info)) return fail_open(path, errno);
    size_t want = info.st_size > 0 ? (size_t)info.st_size : 0;
    LS_CLEANUP(ls_free_pointer) uint8_t *read = ls_alloc(want);
    if (!read) return ls_fail_memory(path, want);
    size_t got = fread(read, 1, want, file);
    if (got != want)
        return ls_fail(LS_DATA_LOSS, "cannot read '%s' beyond offset %zu of %zu: %s", path, got, want,
                       ferror(file) ? strerror(errno) : "the file ends");
    *bytes = ls_steal(read);
    *size = want;
    return LS_OK;
}

int64_t ls_file_size(const char *path) {
    struct stat info;
    return stat(path, &info) ? -1 : (int64_t)info.st_size;
}

ls_status ls_file_write(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wbe");
    bool good = file && fwrite(bytes, 1, size, file) == size;
    int error = good ? 0 : errno;
    if (file && fclose(file) && good) error = errno;
    return error ? ls_fail(ls_errno_status(error), "cannot write '%s': %s", path, strerror(error)) : LS_OK;
}

bool ls_files_folder_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

ls_status ls_files_folder_make(const char *path) {
    if (mkdir(path, 0777) == 0 || ls_files_folder_exists(path)) return LS_OK;
    return ls_fail(ls_errno_status(errno), "cannot make folder '%s': %s", path, strerror(errno));
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* True if an entry is of that kind. Links are followed. */
static bool has_kind(int folder, const char *name, enum ls_name_kind kind) {
    struct stat info;
    if (name[0] == '.' || fstatat(folder, name, &info, 0)) return false;
    return kind == LS_NAMES_FOLDERS ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode);
}

static bool add_name(struct ls_names *names, int64_t *capacity, const char *name) {
    if (names->count == *capacity) {
        int64_t larger = *capacity ? 2 * *capacity : 64;
        char **grown = ls_alloc_array((size_t)larger, sizeof(*grown));
        if (!grown) return false;
        if (names->count) memcpy(grown, names->names, (size_t)names->count * sizeof(*grown));
        ls_free(names->names);
        names->names = grown;
        *capacity = larger;
    }
    char *copy = ls_strdup(name);
    if (copy) names->names[names->count++] = copy;
    return copy != NULL;
}

ls_status ls_files_names_list(const char *folder, enum ls_name_kind kind, struct ls_names *names) {
    DIR *open = opendir(folder);
    if (!open) return fail_open(folder, errno);
    struct ls_names found = {0};
    int64_t capacity = 0;
    bool memory = true;
    for (struct dirent *entry; memory && (entry = readdir(open));)
        if (has_kind(dirfd(open), entry->d_name, kind)) memory = add_name(&found, &capacity, entry->d_name);
    (void)closedir(open);
    if (!memory) {
        ls_files_names_free(&found);
        return ls_fail_memory("the names in a folder", (size_t)found.count * sizeof(char *));
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
    bool memory = text != NULL;
    if (memory) memcpy(text, bytes, size);
    for (char *state = NULL, *line = memory ? strtok_r(text, "\r\n", &state) : NULL; line && memory;
         line = strtok_r(NULL, "\r\n", &state))
        memory = add_name(&read, &capacity, line);
    if (!memory) {
        ls_files_names_free(&read);
        return ls_fail_memory("the lines of a file", size);
    }
    *names = read;
    return LS_OK;
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
