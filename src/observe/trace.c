/* Tracks are rings of spans. The file is opened at the start, so that a bad path is heard of then, and written at the
 * close. */
#include "observe/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/new.h"
#include "base/text.h"
#include "observe/chrome.h"

#define CAPACITY   65536
#define NAME_SIZE  40
#define MAX_TRACKS 256

struct span {
    char name[NAME_SIZE];
    int64_t begun, ended; /* of ls_now */
    struct ls_span_facts facts;
};
struct ls_track {
    char name[NAME_SIZE];
    struct span *spans; /* [capacity] */
    size_t capacity;
    uint64_t count; /* ever added; the newest capacity of them are kept */
};
struct ls_trace {
    struct ls_log log;
    int rank, size;
    size_t capacity;
    char *path;
    FILE *file;
    int64_t offset; /* from ls_now to nanoseconds since LS_CHROME_TIME_BASE */
    struct ls_track *tracks[MAX_TRACKS];
    int track_count;
};

/* ---- the path ---- */

static void write_with_rank(FILE *out, const char *path, int rank) {
    for (const char *at = path; *at; at++)
        if (at[0] == '%' && at[1] == 'r') {
            (void)fprintf(out, "%d", rank);
            at++;
        } else {
            (void)fputc(*at, out);
        }
}

/* Where ".rankN" goes: before the last dot of the file's name, unless the name begins with it. */
static size_t stem_length(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot > name ? (size_t)(dot - path) : strlen(path);
}

static void put_path(FILE *out, const struct ls_trace_config *config) {
    size_t stem = stem_length(config->path);
    if (strstr(config->path, "%r"))
        write_with_rank(out, config->path, config->rank);
    else if (config->size > 1)
        (void)fprintf(out, "%.*s.rank%d%s", (int)stem, config->path, config->rank, config->path + stem);
    else
        (void)fputs(config->path, out);
}

/* ---- making ---- */

static void release_trace(struct ls_trace *trace) {
    if (trace->file) (void)fclose(trace->file);
    for (int i = 0; i < trace->track_count; i++) {
        ls_free(trace->tracks[i]->spans);
        ls_free(trace->tracks[i]);
    }
    free(trace->path);
    ls_free(trace);
}

ls_status ls_trace_new(const struct ls_trace_config *config, struct ls_trace **trace) {
    LS_NEW(struct ls_trace, made, "a timeline");
    made->log = *config->log;
    made->rank = config->rank;
    made->size = config->size;
    made->capacity = config->capacity ? config->capacity : CAPACITY;
    made->offset = ls_chrome_offset();
    ls_status status = LS_TEXT(out, put_path(out, config), "a timeline's path", &made->path);
    if (!status && !(made->file = fopen(made->path, "we")))
        status = ls_fail(ls_errno_status(errno), "cannot write the timeline '%s': %s", made->path, strerror(errno));
    return LS_HAND_OVER(status, trace, made, release_trace(made));
}

ls_status ls_trace_add_track(struct ls_trace *trace, const char *name, struct ls_track **track) {
    if (!trace) {
        *track = NULL;
        return LS_OK;
    }
    for (int i = 0; i < trace->track_count; i++)
        if (strcmp(trace->tracks[i]->name, name) == 0) {
            *track = trace->tracks[i];
            return LS_OK;
        }
    if (trace->track_count == MAX_TRACKS)
        return ls_fail(LS_INTERNAL, "a timeline has at most %d tracks; '%s' is one more", MAX_TRACKS, name);
    LS_CLEANUP(ls_free_pointer) struct ls_track *made = ls_alloc(sizeof(*made));
    if (made) made->spans = ls_alloc_array(trace->capacity, sizeof(*made->spans));
    if (!made || !made->spans) return ls_fail_memory("a timeline's track", trace->capacity * sizeof(struct span));
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    made->capacity = trace->capacity;
    trace->tracks[trace->track_count++] = *track = made;
    (void)ls_steal(made);
    return LS_OK;
}

/* The memory is taken when the track is made, about 5 MiB for 65536 spans, so a span costs a copy of 80 bytes within a
 * step. count never wraps, and the writer of the file takes from it where the oldest kept span lies. */
void ls_trace_track_add(struct ls_track *track, const char *name, int64_t begun, int64_t ended,
                        struct ls_span_facts facts) {
    struct span *span = &track->spans[track->count++ % track->capacity];
    size_t length = strnlen(name, NAME_SIZE - 1);
    memcpy(span->name, name, length);
    span->name[length] = 0;
    span->begun = begun;
    span->ended = ended;
    span->facts = facts;
}

/* ---- writing ---- */

static void write_span(FILE *out, const struct ls_trace *trace, int tid, const struct span *span) {
    const struct ls_span_facts *facts = &span->facts;
    ls_json_print(out, ",\n{'name': %s, 'ph': 'X', 'pid': %d, 'tid': %d", span->name, trace->rank, tid);
    ls_chrome_time(out, "ts", span->begun + trace->offset);
    ls_chrome_time(out, "dur", span->ended - span->begun);
    (void)fprintf(out, ", \"args\": {");
    if (facts->step) (void)fprintf(out, "\"step\": %lld", (long long)facts->step);
    if (facts->bytes)
        (void)fprintf(out, "%s\"bucket\": %zu, \"bytes\": %zu", facts->step ? ", " : "", facts->bucket, facts->bytes);
    (void)fprintf(out, "}}");
}

static uint64_t dropped_spans(const struct ls_track *track) {
    return track->count > track->capacity ? track->count - track->capacity : 0;
}

static void print_events(FILE *out, const struct ls_trace *trace) {
    ls_chrome_process(out, trace->rank);
    for (int tid = 0; tid < trace->track_count; tid++) {
        const struct ls_track *track = trace->tracks[tid];
        ls_chrome_thread(out, trace->rank, tid, track->name);
        for (uint64_t i = dropped_spans(track); i < track->count; i++)
            write_span(out, trace, tid, &track->spans[i % track->capacity]);
    }
}

static void print_file(FILE *out, const struct ls_trace *trace, uint64_t dropped) {
    char clock[LS_CHROME_CLOCK];
    ls_chrome_clock(clock);
    (void)fprintf(out, "{\"traceEvents\": [\n");
    print_events(out, trace);
    (void)fprintf(
        out,
        "\n], \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": %lld,\n\"otherData\": {\"lockstep\": \"%s\", "
        "\"rank\": %d, \"workers\": %d, \"clock\": \"%s\", \"dropped_spans\": %llu}}\n",
        (long long)LS_CHROME_TIME_BASE, LS_VERSION, trace->rank, trace->size, clock, (unsigned long long)dropped);
}

ls_status ls_trace_close(struct ls_trace *trace) {
    ls_status status = LS_OK;
    if (!trace) return status;
    uint64_t spans = 0, dropped = 0;
    for (int i = 0; i < trace->track_count; i++) {
        spans += trace->tracks[i]->count;
        dropped += dropped_spans(trace->tracks[i]);
    }
    print_file(trace->file, trace, dropped);
    bool failed = ferror(trace->file);
    failed |= fclose(trace->file) != 0;
    trace->file = NULL;
    if (failed)
        status = ls_fail(ls_errno_status(errno), "the timeline '%s' is not whole: %s", trace->path, strerror(errno));
    else if (dropped)
        ls_log_warning(&trace->log, "timeline '%s': the newest %llu spans; %llu older ones were dropped", trace->path,
                       (unsigned long long)(spans - dropped), (unsigned long long)dropped);
    else
        ls_log_shared(&trace->log, !trace->rank, LS_LOG_INFO, "timeline '%s': %llu spans", trace->path,
                      (unsigned long long)spans);
    release_trace(trace);
    return status;
}
