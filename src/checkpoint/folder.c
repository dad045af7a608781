/* Checkpoints by name: written, found, removed. */
#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/point.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/whole_file.h"

#define PREFIX   "checkpoint-"
#define SUFFIX   ".safetensors"
#define HIDDEN   ".checkpoint-" /* what unfinished files begin with */
#define ASIDE    "damaged-"     /* what is kept for the user begins with, and nobody here touches again */
#define DIGITS   12
#define MAX_STEP 999999999999LL
enum { ASIDE_NAME = LS_CHECKPOINT_NAME + sizeof(ASIDE) };

static ls_status open_folder(const char *folder, int *fd) {
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? ls_read_file_fail("open checkpoint folder", folder) : LS_OK;
}

/* ---- names ---- */

static void name_step(int64_t step, char name[LS_CHECKPOINT_NAME]) {
    (void)snprintf(name, LS_CHECKPOINT_NAME, PREFIX "%0*lld" SUFFIX, DIGITS, (long long)step);
}

/* The step in a checkpoint's name; -1: it is none. The name is made again from the number and compared:
 * "checkpoint-1.safetensors" or one with a sign is somebody else's file, which must not be removed. The digits are
 * padded, so the order of names is the order of steps. */
static int64_t step_of(const char *name) {
    char back[LS_CHECKPOINT_NAME];
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return -1;
    long long step = strtoll(name + strlen(PREFIX), NULL, 10);
    if (step < 0 || step > MAX_STEP) return -1;
    name_step(step, back);
    return strcmp(back, name) ? -1 : step;
}

static int is_checkpoint(const struct dirent *entry) {
    return step_of(entry->d_name) >= 0;
}

static int is_unfinished(const struct dirent *entry) {
    return !strncmp(entry->d_name, HIDDEN, strlen(HIDDEN));
}

static int newest_first(const struct dirent **left, const struct dirent **right) {
    return strcmp((*right)->d_name, (*left)->d_name);
}

struct listing {
    struct dirent **entries;
    int count;
};

static void free_listing(struct listing *listing) {
    for (int i = 0; i < listing->count; i++) free(listing->entries[i]);
    free(listing->entries);
}

static ls_status list_names(const char *folder, int (*wanted)(const struct dirent *), struct listing *listing) {
    int count = scandir(folder, &listing->entries, wanted, newest_first);
    if (count < 0) return ls_read_file_fail("read checkpoint folder", folder);
    listing->count = count;
    return LS_OK;
}

static ls_status remove_file(const char *folder, int fd, const char *name) {
    if (!unlinkat(fd, name, 0) || errno == ENOENT) return LS_OK;
    return ls_fail(ls_errno_status(errno), "cannot remove '%s/%s': %s", folder, name, strerror(errno));
}

/* Removes the checkpoints behind the first keep of those up to last. */
static ls_status remove_older(const char *folder, int fd, int64_t last, int keep) {
    LS_CLEANUP(free_listing) struct listing listing = {0};
    ls_status status = list_names(folder, is_checkpoint, &listing);
    for (int i = 0, seen = 0; !status && i < listing.count; i++)
        if (step_of(listing.entries[i]->d_name) <= last && seen++ >= keep)
            status = remove_file(folder, fd, listing.entries[i]->d_name);
    return status;
}

static ls_status remove_unfinished(const char *folder, int fd) {
    LS_CLEANUP(free_listing) struct listing listing = {0};
    ls_status status = list_names(folder, is_unfinished, &listing);
    for (int i = 0; !status && i < listing.count; i++) status = remove_file(folder, fd, listing.entries[i]->d_name);
    return status;
}

/* ---- writing ---- */

/* Renames a file that is called a checkpoint and is none. It is kept, under a name that still says the step. */
static bool put_aside(int fd, const char *name, char aside[ASIDE_NAME]) {
    (void)snprintf(aside, ASIDE_NAME, ASIDE "%s", name);
    return !renameat(fd, name, fd, aside);
}

/* A folder, or what else is no file, that somebody has made under the name makes way. */
static void make_way(int fd, const char *name) {
    char aside[ASIDE_NAME];
    struct stat info;
    if (!fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) && !S_ISREG(info.st_mode)) (void)put_aside(fd, name, aside);
}

ls_status ls_checkpoint_folder_check(const char *folder) {
    LS_CLEANUP(ls_read_file_close) int fd = -1;
    ls_status status = open_folder(folder, &fd);
    if (!status) status = remove_unfinished(folder, fd);
    if (status) return status;
    char probe[PATH_MAX];
    (void)snprintf(probe, sizeof(probe), "%s/" PREFIX "probe", folder);
    return ls_whole_file_try(probe);
}

/* Brings it to the disk, if the lock is still held then. The bytes are on the disk before the name is: after a crash
 * there is the file before, or the whole new one (Pillai et al. 2014, "All file systems are not created equal", have
 * the order that file systems keep). The lock is asked last, so that a chief which was given up for lost cannot publish
 * over its successor's checkpoint, but for the moment until the rename. */
static ls_status write_whole(const char *folder, const struct ls_folder_lock *lock,
                             const struct ls_checkpoint *checkpoint, const struct ls_whole_file *file) {
    ls_status status = ls_checkpoint_file_put(checkpoint, file->partial.fd);
    if (status) return ls_fail_context(status, "cannot write '%s'", file->path);
    ls_reached("checkpoint_write");
    status = ls_whole_file_sync(file);
    if (!status && ls_folder_lock_displaced(lock))
        status = ls_fail(LS_FAILED_PRECONDITION, "another process of this job has taken checkpoint folder '%s' over",
                         folder);
    return status;
}

/* Older checkpoints are removed only behind the new one. Those of later steps are not counted and stay: a run that
 * began again from an older one does not remove what it has not replaced. */
ls_status ls_checkpoint_folder_save(const char *folder, const struct ls_folder_lock *lock,
                                    const struct ls_checkpoint *checkpoint, int keep) {
    LS_CLEANUP(ls_read_file_close) int fd = -1;
    char name[LS_CHECKPOINT_NAME], path[PATH_MAX];
    int64_t step = checkpoint->step;
    struct ls_whole_file file;
    name_step(step, name);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ls_status status = open_folder(folder, &fd);
    if (status) return status;
    make_way(fd, name);
    status = ls_whole_file_open(path, &file);
    if (!status) status = ls_whole_file_close(&file, write_whole(folder, lock, checkpoint, &file));
    return status ? status : remove_older(folder, fd, step, keep);
}

ls_status ls_checkpoint_folder_clear(const char *folder) {
    LS_CLEANUP(ls_read_file_close) int fd = -1;
    ls_status status = open_folder(folder, &fd);
    if (!status) status = remove_older(folder, fd, MAX_STEP, 0);
    return status ? status : remove_unfinished(folder, fd);
}

/* ---- reading ---- */

static ls_status load_file(int folder, const char *name, struct ls_loaded *loaded) {
    LS_CLEANUP(ls_read_file_close) int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file < 0 || fstat(file, &info)) return ls_read_file_fail("open", name);
    if (!S_ISREG(info.st_mode)) return ls_fail(LS_DATA_LOSS, "it is no file");
    size_t size = (size_t)info.st_size;
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc_aligned(size);
    if (!bytes) return ls_fail_memory("a checkpoint", size);
    ls_status status = ls_read_file_at(file, name, 0, bytes, size);
    return status ? status : ls_checkpoint_file_load(ls_steal(bytes), size, loaded);
}

/* With this thread's error. */
static void say_damaged(const char *folder, int fd, const char *name, const struct ls_log *log, bool more) {
    char aside[ASIDE_NAME], cause[LS_ERROR_SIZE];
    (void)snprintf(cause, sizeof(cause), "%s", ls_error());
    bool kept = put_aside(fd, name, aside);
    ls_log_warning(log, "checkpoint '%s/%s' is damaged: %s; it is kept as '%s'; %s", folder, name, cause,
                   kept ? aside : name, more ? "trying the one before it" : "there is none before it");
}

/* Damage leads to the checkpoint before. Another error, such as a disk that does not answer, ends the search: going
 * back silently would lose steps that are still there. */
ls_status ls_checkpoint_folder_load(const char *folder, const struct ls_log *log, struct ls_loaded *loaded,
                                    char name[LS_CHECKPOINT_NAME]) {
    LS_CLEANUP(ls_read_file_close) int fd = -1;
    LS_CLEANUP(free_listing) struct listing listing = {0};
    ls_status status = open_folder(folder, &fd);
    if (!status) status = list_names(folder, is_checkpoint, &listing);
    if (status) return status;
    name[0] = '\0';
    for (int i = 0; i < listing.count; i++) {
        const char *found = listing.entries[i]->d_name;
        status = load_file(fd, found, loaded);
        if (!status) name_step(step_of(found), name);
        if (status != LS_DATA_LOSS)
            return status ? ls_fail_context(status, "checkpoint '%s/%s'", folder, found) : LS_OK;
        say_damaged(folder, fd, found, log, i + 1 < listing.count);
    }
    return LS_OK;
}
