/* A TensorBoard event file of any bytes, which an interrupted training has left: what is cut off leaves whole events,
 * and is cut off once. The first byte says whether the others are the file (odd), or events to be framed: a byte how
 * long the next one is, then it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/record_frame.h"
#include "base/status.h"
#include "fuzz/fuzz.h"
#include "observe/event_file.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void put(FILE *file, const void *bytes, size_t size) {
    require(fwrite(bytes, 1, size, file) == size);
}

static void put_framed(FILE *file, const uint8_t *data, size_t size) {
    while (size) {
        uint8_t header[LS_RECORD_HEADER], footer[LS_RECORD_FOOTER];
        size_t length = data[0] < size - 1 ? data[0] : size - 1;
        ls_record_frame_header(length, header);
        ls_record_frame_footer(data + 1, length, footer);
        put(file, header, sizeof(header));
        put(file, data + 1, length);
        put(file, footer, sizeof(footer));
        data += 1 + length;
        size -= 1 + length;
    }
}

struct seen {
    int64_t from; /* events of that step and later ones go */
    int events;
};

static bool is_later(void *context, const char *tag, int64_t step) {
    struct seen *seen = context;
    require(tag[0] && strlen(tag) < LS_EVENT_TAG);
    seen->events++;
    return step >= seen->from;
}

static off_t cut(const char *folder, const char *path, int64_t from, int *events) {
    struct seen seen = {.from = from};
    struct stat info;
    require(ls_event_cut_files(folder, 0, is_later, &seen) == LS_OK);
    require(stat(path, &info) == 0);
    *events = seen.events;
    return info.st_size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[] = "/dev/shm/fuzz-event-XXXXXX", path[96], tag[LS_EVENT_TAG];
    int64_t step;
    int first, second;
    if (!size) return 0;
    if (!ls_event_read(data + 1, size - 1, tag, &step)) require(strlen(tag) < LS_EVENT_TAG);
    require(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/events.out.tfevents.1.0000000000000000.lockstep.v2", folder);
    FILE *file = fopen(path, "wb");
    require(file != NULL);
    if (data[0] & 1)
        put(file, data + 1, size - 1);
    else
        put_framed(file, data + 1, size - 1);
    require(fclose(file) == 0);
    off_t whole = cut(folder, path, INT64_MAX, &first);
    require(cut(folder, path, INT64_MAX, &second) == whole && first >= second);
    off_t early = cut(folder, path, 3, &first);
    require(early <= whole && cut(folder, path, 3, &second) == early && second <= first);
    require(unlink(path) == 0 && rmdir(folder) == 0);
    return 0;
}
