/* Reading one file back. Every member is checked before it is used. The one file here that knows cJSON. */
#define _GNU_SOURCE
#include "observe/timeline.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "base/read_file.h"
#include "observe/chrome.h"
#include "base/plain.h"

#define MAX_TIME  1e15               /* microseconds: three decades */
#define MAX_WHOLE 9007199254740991.0 /* above it JSON's numbers are not exact */
enum { MAX_WORKERS = 1 << 16, MAX_TID = 1 << 20 };

/* ---- members ---- */

static const cJSON *member(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static bool read_whole(const cJSON *object, const char *name, double high, int64_t *value) {
    const cJSON *item = member(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= high)) return false;
    if (floor(item->valuedouble) != item->valuedouble) return false;
    *value = (int64_t)item->valuedouble;
    return true;
}

/* Microseconds as nanoseconds. */
static bool read_time(const cJSON *object, const char *name, double low, int64_t *value) {
    const cJSON *item = member(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= low && item->valuedouble <= MAX_TIME)) return false;
    *value = llround(item->valuedouble * 1000);
    return true;
}

static const char *text_of(const cJSON *object, const char *name) {
    const cJSON *item = member(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static ls_status refuse_member(const char *path, size_t event, const char *name) {
    return ls_fail(LS_INVALID_ARGUMENT, "%s: traceEvents[%zu]: '%s' is missing or is not what Lockstep writes", path,
                   event, name);
}

/* ---- collectives ---- */

static ls_status set_label(struct ls_timeline_span *span, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static ls_status set_label(struct ls_timeline_span *span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&span->label, format, arguments);
    va_end(arguments);
    if (length < 0) span->label = NULL;
    return span->label ? LS_OK : ls_fail_memory("a timeline", 0);
}

/* One of a flight record. */
static ls_status read_flight(const char *path, size_t event, const cJSON *args, struct ls_timeline_span *span) {
    const char *kind = text_of(args, "kind"), *dtype = text_of(args, "dtype"), *state = text_of(args, "state");
    int64_t count;
    if (!read_whole(args, "sequence", MAX_WHOLE, &span->key.major)) return refuse_member(path, event, "args.sequence");
    if (!read_whole(args, "count", MAX_WHOLE, &count)) return refuse_member(path, event, "args.count");
    if (!kind) return refuse_member(path, event, "args.kind");
    if (!dtype) return refuse_member(path, event, "args.dtype");
    if (!state) return refuse_member(path, event, "args.state");
    span->collective = true;
    span->through = !strcmp(state, "done");
    span->meets_all = !strcmp(kind, "all_reduce") || !strcmp(kind, "all_gather") || !strcmp(kind, "barrier");
    if (!strcmp(kind, "barrier")) return set_label(span, "barrier '%s'", span->name);
    if (!strcmp(kind, "all_gather")) /* ranks may give more and less */
        return set_label(span, "all_gather '%s' of %s", span->name, dtype);
    return set_label(span, "%s '%s' of %lld %s", kind, span->name, (long long)count, dtype);
}

/* "all-reduce", or of a communicator "all-reduce NAME". */
static bool is_all_reduce(const char *name) {
    static const char kind[] = "all-reduce";
    size_t length = sizeof(kind) - 1;
    return !strncmp(name, kind, length) && (!name[length] || name[length] == ' ');
}

/* One of a timeline: the all-reduce of a bucket, or a communicator's. */
static ls_status read_bucket(const cJSON *args, struct ls_timeline_span *span) {
    int64_t bytes;
    if (!is_all_reduce(span->name) || !read_whole(args, "step", MAX_WHOLE, &span->key.major) ||
        !read_whole(args, "bucket", MAX_WHOLE, &span->key.minor) || !read_whole(args, "bytes", MAX_WHOLE, &bytes))
        return LS_OK;
    span->collective = span->through = span->meets_all = true;
    return set_label(span, "all-reduce of %lld bytes", (long long)bytes);
}

/* ---- events ---- */

static ls_status read_span(const struct ls_timeline_file *file, size_t event, const cJSON *item,
                           struct ls_timeline_span *span) {
    const char *name = text_of(item, "name");
    const cJSON *args = member(item, "args");
    int64_t tid, duration;
    if (!name) return refuse_member(file->path, event, "name");
    if (!read_whole(item, "tid", MAX_TID, &tid)) return refuse_member(file->path, event, "tid");
    if (!read_time(item, "ts", -MAX_TIME, &span->begun)) return refuse_member(file->path, event, "ts");
    if (!read_time(item, "dur", 0, &duration)) return refuse_member(file->path, event, "dur");
    if (!cJSON_IsObject(args)) return refuse_member(file->path, event, "args");
    span->tid = (int)tid;
    span->ended = span->begun + duration;
    span->name = ls_strdup(name);
    span->args = cJSON_PrintUnformatted(args);
    if (!span->name || !span->args) return ls_fail_memory("a timeline", 0);
    return file->is_flight ? read_flight(file->path, event, args, span) : read_bucket(args, span);
}

static ls_status read_label(struct ls_timeline_file *file, size_t event, const cJSON *item) {
    const char *name = text_of(item, "name"), *text = text_of(member(item, "args"), "name");
    struct ls_timeline_thread *thread = &file->threads[file->thread_count];
    int64_t tid;
    if (!name) return refuse_member(file->path, event, "name");
    if (strcmp(name, "thread_name")) return LS_OK; /* processes are named anew */
    if (!text) return refuse_member(file->path, event, "args.name");
    if (!read_whole(item, "tid", MAX_TID, &tid)) return refuse_member(file->path, event, "tid");
    *thread = (struct ls_timeline_thread){(int)tid, ls_strdup(text)};
    if (!thread->name) return ls_fail_memory("a timeline", 0);
    file->thread_count++;
    return LS_OK;
}

static ls_status read_events(struct ls_timeline_file *file, const cJSON *events) {
    size_t count = (size_t)cJSON_GetArraySize(events), index = 0;
    const cJSON *item;
    file->spans = ls_alloc_array(count + 1, sizeof(*file->spans));
    file->threads = ls_alloc_array(count + 1, sizeof(*file->threads));
    if (!file->spans || !file->threads) return ls_fail_memory("a timeline", count * sizeof(*file->spans));
    cJSON_ArrayForEach(item, events) {
        const char *phase = text_of(item, "ph");
        bool label = phase && !strcmp(phase, "M");
        if (!label && (!phase || strcmp(phase, "X"))) return refuse_member(file->path, index, "ph");
        ls_status status =
            label ? read_label(file, index, item) : read_span(file, index, item, &file->spans[file->span_count++]);
        if (status) return status;
        index++;
    }
    return LS_OK;
}

/* ---- the file ---- */

static ls_status refuse_file(const char *path, const char *what) {
    return ls_fail(LS_INVALID_ARGUMENT,
                   "%s: %s: it is no timeline (LOCKSTEP_TRACE) and no flight record of one rank of Lockstep", path,
                   what);
}

static ls_status read_head(struct ls_timeline_file *file, const cJSON *root) {
    const cJSON *other = member(root, "otherData"), *base = member(root, "baseTimeNanoseconds");
    const char *clock = text_of(other, "clock"), *reason = text_of(other, "reason");
    int64_t rank, workers;
    if (!cJSON_IsArray(member(root, "traceEvents"))) return refuse_file(file->path, "no array 'traceEvents'");
    if (!text_of(other, "lockstep")) return refuse_file(file->path, "no 'otherData.lockstep'");
    if (!read_whole(other, "workers", MAX_WORKERS, &workers) || !workers)
        return refuse_file(file->path, "no number 'otherData.workers'");
    if (!read_whole(other, "rank", (double)(workers - 1), &rank))
        return refuse_file(file->path, "no number 'otherData.rank' below 'otherData.workers'");
    if (!cJSON_IsNumber(base) || base->valuedouble != (double)LS_CHROME_TIME_BASE)
        return refuse_file(file->path, "'baseTimeNanoseconds' is not Lockstep's");
    file->rank = (int)rank;
    file->workers = (int)workers;
    file->is_flight = cJSON_IsTrue(member(other, "flight_record"));
    file->clock = ls_strdup(clock ? clock : "");
    file->reason = ls_strdup(reason ? reason : "");
    return file->clock && file->reason ? LS_OK : ls_fail_memory("a timeline", 0);
}

/* Line and column of a byte, for people: from 1. */
static ls_status refuse_syntax(const char *path, const char *text, size_t at) {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    return ls_fail(LS_INVALID_ARGUMENT, "%s: line %zu, column %zu: this is no JSON, or the file was cut off here", path,
                   line, at - start + 1);
}

LS_CLEANER(free_json, cJSON *, cJSON_Delete);

static ls_status parse(const char *text, size_t size, struct ls_timeline_file *file) {
    const char *end = text;
    LS_PLAIN; // labels and cJSON format numbers
    LS_CLEANUP(free_json) cJSON *root = size ? cJSON_ParseWithLengthOpts(text, size, &end, false) : NULL;
    size_t at = end >= text && (size_t)(end - text) <= size ? (size_t)(end - text) : size;
    while (root && at < size && strchr(" \t\r\n", text[at]) && text[at]) at++;
    if (!root || at < size) return refuse_syntax(file->path, text, at);
    ls_status status = read_head(file, root);
    return status ? status : read_events(file, member(root, "traceEvents"));
}

ls_status ls_timeline_read_parse(const char *path, const char *text, size_t size, struct ls_timeline_file *file) {
    struct ls_timeline_file made = {.path = ls_strdup(path)};
    ls_status status = made.path ? parse(text, size, &made) : ls_fail_memory("a timeline", 0);
    return LS_HAND_OVER(status, file, made, ls_timeline_read_free_file(&made));
}

ls_status ls_timeline_read(const char *path, struct ls_timeline_file *file) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size;
    ls_status status = ls_read_file_given(NULL, path, SIZE_MAX - 1, &text, &size);
    return status ? status : ls_timeline_read_parse(path, text, size, file);
}

void ls_timeline_read_free_file(struct ls_timeline_file *file) {
    for (size_t i = 0; file->spans && i < file->span_count; i++) {
        ls_free(file->spans[i].name);
        cJSON_free(file->spans[i].args);
        free(file->spans[i].label);
    }
    for (size_t i = 0; file->threads && i < file->thread_count; i++) ls_free(file->threads[i].name);
    ls_free(file->spans);
    ls_free(file->threads);
    ls_free(file->path);
    ls_free(file->clock);
    ls_free(file->reason);
    *file = (struct ls_timeline_file){0};
}
