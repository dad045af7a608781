/* The flight record on the disk: one file a rank in Chrome's trace event format, written once, when the group has
 * failed. lockstep timeline reads it, and so does Perfetto. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_FLIGHT_THREAD 1000 /* the track's number: beside those of the timeline */

struct ls_flight_file;
struct ls_flight_file_config {
    const char *folder;
    int rank, size;
    uint64_t dropped;   /* older collectives that are forgotten */
    const char *reason; /* the error's message */
};
/* INVALID_ARGUMENT naming path and cause when it cannot be written. */
ls_status ls_flight_file_open(const struct ls_flight_file_config *config, struct ls_flight_file **file);

struct ls_flight_span {
    const char *name, *kind, *dtype, *algorithm, *state; /* algorithm may be NULL */
    uint64_t sequence, count, bytes;
    int64_t begun, ended; /* of ls_now; ended 0: it goes on */
};
void ls_flight_file_add(struct ls_flight_file *file, const struct ls_flight_span *span);
/* Frees it in any case. *path receives where it lies, to be freed by the caller. */
ls_status ls_flight_file_close(struct ls_flight_file *file, char **path);
