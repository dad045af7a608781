/* A folder beside what is there: files are made in it, and moved up when all of them are. */
#define _GNU_SOURCE
#include "data/write.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/files.h"

#define NAME "/partial"

ls_status ls_staging_begin(const char *folder, struct ls_whole_file_partial *staging) {
    size_t size = strlen(folder) + sizeof(NAME);
    ls_status status = ls_files_folder_make(folder);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) char *place = ls_alloc(size);
    if (!place) return ls_fail_memory("a path", size);
    (void)snprintf(place, size, "%s" NAME, folder);
    return ls_whole_file_partial_new(place, true, staging);
}

/* A file takes the place of one of its name; a folder that holds something stays as it is. */
static ls_status move_up(const char *folder, const char *staging, const char *name) {
    char from[4096], to[4096];
    (void)snprintf(from, sizeof(from), "%.3800s/%.255s", staging, name);
    (void)snprintf(to, sizeof(to), "%.3800s/%.255s", folder, name);
    if (!rename(from, to)) return LS_OK;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return ls_fail(LS_ALREADY_EXISTS, "'%s' has something in it: take another folder", to);
    return ls_fail(ls_errno_status(errno), "cannot write '%s': %s", to, strerror(errno));
}

static int is_made(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static ls_status move_all(const char *folder, const struct ls_whole_file_partial *staging) {
    struct dirent **entries = NULL;
    int count = syncfs(staging->fd) ? -1 : scandir(staging->path, &entries, is_made, alphasort);
    if (count < 0) return ls_fail(ls_errno_status(errno), "cannot write '%s': %s", folder, strerror(errno));
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++) {
        if (!status) status = move_up(folder, staging->path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status ? status : ls_whole_file_sync_folder(staging->path);
}

ls_status ls_staging_end(const char *folder, struct ls_whole_file_partial *staging, ls_status status) {
    if (!status) status = move_all(folder, staging);
    ls_whole_file_partial_free(staging);
    return status;
}
