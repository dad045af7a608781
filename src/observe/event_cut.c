/* Removes events that an interrupted training has written beyond the place where it goes on, so that repeated steps are
 * there once. */
#include "observe/event_cut.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/record_frame.h"
#include "base/status.h"
#include "observe/event_file.h"

#define PREFIX "events.out.tfevents."

static void close_file(FILE **file) {
    if (*file) (void)fclose(*file);
}

static int is_event_file(const struct dirent *entry) {
    return !strncmp(entry->d_name, PREFIX, strlen(PREFIX));
}

static bool has_end(const char *name, const char *end) {
    size_t length = strlen(name), most = strlen(end);
    return length > most && !strcmp(name + length - most, end);
}

/* The next event of size bytes; false: the file ends here, or is torn. */
static bool read_event(FILE *file, long left, char tag[LS_EVENT_TAG], int64_t *step) {
    uint8_t header[LS_RECORD_HEADER], footer[LS_RECORD_FOOTER];
    uint64_t length;
    if (fread(header, 1, sizeof(header), file) != sizeof(header) || !ls_record_frame_header_read(header, &length) ||
        left < LS_RECORD_HEADER + LS_RECORD_FOOTER || length > (uint64_t)left - LS_RECORD_HEADER - LS_RECORD_FOOTER)
        return false;
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(length);
    return bytes && fread(bytes, 1, length, file) == length &&
           fread(footer, 1, sizeof(footer), file) == sizeof(footer) &&
           ls_record_frame_footer_fits(footer, bytes, length) && ls_event_read(bytes, length, tag, step);
}

static ls_status cut_file(const char *path, ls_event_later_fn *later, void *context) {
    char tag[LS_EVENT_TAG];
    int64_t step;
    long good = 0, size;
    LS_CLEANUP(close_file) FILE *file = fopen(path, "re+");
    bool read = file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET);
    while (read && good < size && read_event(file, size - good, tag, &step) && !(tag[0] && later(context, tag, step)))
        good = ftell(file);
    if (read && (good == size || !ftruncate(fileno(file), good))) return LS_OK;
    int error = errno;
    return ls_fail(ls_errno_status(error), "cannot cut '%s': %s", path, strerror(error));
}

ls_status ls_event_cut_files(const char *folder, uint64_t run, ls_event_later_fn *later, void *context) {
    struct dirent **entries = NULL;
    char path[4096], end[LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END)];
    ls_event_file_end(run, end);
    int count = scandir(folder, &entries, is_event_file, alphasort);
    ls_status status = LS_OK;
    if (count < 0 && errno != ENOENT)
        return ls_fail(ls_errno_status(errno), "cannot read folder '%s': %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%.3800s/%.255s", folder, entries[i]->d_name);
        if (!status && has_end(entries[i]->d_name, end)) status = cut_file(path, later, context);
        free(entries[i]);
    }
    free(entries);
    return status;
}
