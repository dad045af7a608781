/* The timeline: which thread did what when, one file a rank in Chrome's trace event format, for Perfetto or
 * chrome://tracing. Each thread has a track of its own and alone writes it: no lock, no allocation; a full track
 * forgets its oldest span. Times are wall-clock, so that the files of several ranks can be laid side by side.
 * (Horovod's timeline, torch.profiler's export_chrome_trace.) */
#pragma once
#include <lockstep/lockstep.h>

#include "base/clock.h"
#include "base/log.h"

struct ls_trace;
struct ls_track;
struct ls_trace_config {
    const char *path; /* "%r" becomes the rank; without it ".rankN" goes before the extension where size > 1 */
    int rank, size;
    size_t capacity;          /* spans that a track keeps; 0: 65536 */
    const struct ls_log *log; /* copied */
};
/* Opens the file. An error names it. */
ls_status ls_trace_new(const struct ls_trace_config *config, struct ls_trace **trace);
/* Adds a track for one thread, named for people; trace owns it. No thread may run meanwhile. A present track of that
 * name is given again. A NULL trace gives NULL. */
ls_status ls_trace_add_track(struct ls_trace *trace, const char *name, struct ls_track **track);
/* Writes the file, says so in one line, and frees the trace. No thread may write any more. An error names a file that
 * is not whole. NULL is nothing. */
ls_status ls_trace_close(struct ls_trace *trace);

/* The facts of a span beside its name. */
struct ls_span_facts {
    int64_t step;  /* from 1; 0: none */
    size_t bucket; /* said where bytes are */
    size_t bytes;  /* 0: none */
};
void ls_trace_track_add(struct ls_track *track, const char *name, int64_t begun, int64_t ended,
                        struct ls_span_facts facts);

/* A span: begun = ls_track_begin(track); ...; ls_track_end(track, begun, "name", facts). The name is copied, up to 39
 * bytes. With a NULL track both are one test of a pointer. */
static inline int64_t ls_track_begin(const struct ls_track *track) {
    return track ? ls_now() : 0;
}
static inline void ls_track_end(struct ls_track *track, int64_t begun, const char *name, struct ls_span_facts facts) {
    if (track) ls_trace_track_add(track, name, begun, ls_now(), facts);
}
