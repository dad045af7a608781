/* Removes events that an interrupted training has written beyond the place where it goes on, so that repeated steps are
 * there once. */
#include "observe/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/read_file.h"
#include "base/record_frame.h"
#include "base/status.h"

#define PREFIX "events.out.tfevents."

static int is_event_file(const struct dirent *entry) {
    return !strncmp(entry->d_name, PREFIX, strlen(PREFIX));
}

static bool has_end(const char *name, const char *end) {
    size_t length = strlen(name), most = strlen(end);
    return length > most && !strcmp(name + length - most, end);
}

struct log {
    const char *path;
    int fd;
    uint64_t size;
};

static ls_status fail_torn(const struct log *log, uint64_t at) {
    return ls_fail(LS_DATA_LOSS, "'%s' is torn at offset %llu", log->path, (unsigned long long)at);
}

/* The event at *at, which moves behind it. DATA_LOSS: it is torn. */
static ls_status read_event(const struct log *log, uint64_t *at, char tag[LS_EVENT_TAG], int64_t *step) {
    uint8_t header[LS_RECORD_HEADER];
    uint64_t left = log->size - *at, length;
    if (left < LS_RECORD_HEADER + LS_RECORD_FOOTER) return fail_torn(log, *at);
    ls_status status = ls_read_file_at(log->fd, log->path, *at, header, LS_RECORD_HEADER);
    if (status) return status;
    if (!ls_record_frame_header_read(header, &length) || length > left - LS_RECORD_HEADER - LS_RECORD_FOOTER)
        return fail_torn(log, *at);
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(length + LS_RECORD_FOOTER);
    if (!bytes) return ls_fail_memory("an event", length);
    status = ls_read_file_at(log->fd, log->path, *at + LS_RECORD_HEADER, bytes, length + LS_RECORD_FOOTER);
    if (!status && !ls_record_frame_footer_fits(bytes + length, bytes, length)) status = fail_torn(log, *at);
    if (!status) status = ls_event_read(bytes, length, tag, step);
    if (!status) *at += LS_RECORD_HEADER + length + LS_RECORD_FOOTER;
    return status;
}

/* *end is where the first event that is later, or torn, begins. */
static ls_status find_end(const struct log *log, ls_event_later_fn *later, void *context, uint64_t *end) {
    char tag[LS_EVENT_TAG];
    int64_t step;
    ls_status status = LS_OK;
    for (uint64_t at = 0; !status && (*end = at) < log->size;) {
        status = read_event(log, &at, tag, &step);
        if (!status && tag[0] && later(context, tag, step)) break;
    }
    return status == LS_DATA_LOSS ? LS_OK : status;
}

/* Nothing is cut where an event cannot be read: it may be whole. */
static ls_status cut_file(const char *path, ls_event_later_fn *later, void *context) {
    struct stat info;
    uint64_t end = 0;
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) return ls_read_file_fail("open", path);
    const struct log log = {path, fd, (uint64_t)info.st_size};
    ls_status status = find_end(&log, later, context, &end);
    if (status || end == log.size || !ftruncate(fd, (off_t)end)) return status;
    return ls_fail_errno("cut", path);
}

ls_status ls_event_cut_files(const char *folder, uint64_t run, ls_event_later_fn *later, void *context) {
    struct dirent **entries = NULL;
    char path[4096], end[LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END)];
    ls_event_file_end(run, end);
    int count = scandir(folder, &entries, is_event_file, alphasort);
    ls_status status = LS_OK;
    if (count < 0 && errno != ENOENT) return ls_read_file_fail("read folder", folder);
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%.3800s/%.255s", folder, entries[i]->d_name);
        if (!status && has_end(entries[i]->d_name, end)) status = cut_file(path, later, context);
        free(entries[i]);
    }
    free(entries);
    return status;
}
