/* The merged trace, and the summary for people and for machines. */
#include "observe/timeline.h"

#include "base/json.h"

#include <string.h>

#include "observe/chrome.h"
#include "base/plain.h"

/* ---- merged ---- */

static void print_span(FILE *out, const struct ls_timeline *timeline, const struct ls_timeline_file *file,
                       const struct ls_timeline_span *span) {
    ls_json_print(out, ",\n{'name': %s, 'ph': 'X', 'pid': %d, 'tid': %d", span->name, file->rank, span->tid);
    ls_chrome_time(out, "ts", span->begun + timeline->ranks[file->rank].offset);
    ls_chrome_time(out, "dur", span->ended - span->begun);
    (void)fprintf(out, ", \"args\": %s}", span->args);
}

void ls_timeline_print_merged(const struct ls_timeline *timeline, FILE *out) {
    (void)fprintf(out, "{\"traceEvents\": [\n");
    for (int i = 0; i < timeline->file_count; i++) {
        const struct ls_timeline_file *file = &timeline->files[i];
        (void)fprintf(out, "%s", i ? ",\n" : "");
        ls_chrome_process(out, file->rank);
        for (size_t j = 0; j < file->thread_count; j++)
            ls_chrome_thread(out, file->rank, file->threads[j].tid, file->threads[j].name);
        for (size_t j = 0; j < file->span_count; j++) print_span(out, timeline, file, &file->spans[j]);
    }
    (void)fprintf(out,
                  "\n], \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": %lld,\n\"otherData\": {\"lockstep\": "
                  "\"%s\", \"merged\": %d, \"workers\": %d}}\n",
                  (long long)LS_CHROME_TIME_BASE, LS_VERSION, timeline->file_count, timeline->workers);
}

/* ---- what both summaries say ---- */

static const struct ls_timeline_span *last_call(const struct ls_timeline_rank *rank) {
    return rank->count ? rank->calls[rank->count - 1] : NULL;
}

static bool is_later(const struct ls_timeline_span *a, const struct ls_timeline_span *b) {
    if (a->key.major != b->key.major) return a->key.major > b->key.major;
    return a->key.minor > b->key.minor;
}

/* The last collective that any rank came to, or NULL. */
static const struct ls_timeline_span *last_of_all(const struct ls_timeline *timeline) {
    const struct ls_timeline_span *latest = NULL;
    for (int i = 0; i < timeline->workers; i++) {
        const struct ls_timeline_span *own = last_call(&timeline->ranks[i]);
        if (own && (!latest || is_later(own, latest))) latest = own;
    }
    return latest;
}

/* A rank's progress in the last collective of all. */
enum standing { UNKNOWN, MISSING, WAITING, THROUGH };
static const char *const standings[] = {"unknown", "missing", "waiting", "through"};

static enum standing stands(const struct ls_timeline_rank *rank, const struct ls_timeline_span *latest) {
    const struct ls_timeline_span *own = latest && rank->file ? ls_timeline_find(rank, latest->key) : NULL;
    if (!rank->file) return UNKNOWN;
    if (!own) return MISSING;
    return own->through ? THROUGH : WAITING;
}

/* ---- text ---- */

static void print_key(FILE *out, const struct ls_timeline *timeline, struct ls_timeline_key key) {
    bool flight = false;
    for (int i = 0; i < timeline->file_count; i++) flight = flight || timeline->files[i].is_flight;
    if (flight)
        (void)fprintf(out, "#%lld", (long long)key.major);
    else
        (void)fprintf(out, "step %lld, bucket %lld,", (long long)key.major, (long long)key.minor);
}

static void print_call(FILE *out, const struct ls_timeline *timeline, const struct ls_timeline_span *call) {
    if (!call) {
        (void)fprintf(out, "none");
        return;
    }
    print_key(out, timeline, call->key);
    (void)fprintf(out, " %s", call->label);
}

static void print_clock(FILE *out, const struct ls_timeline_rank *rank) {
    char text[64];
    if (!rank->aligned)
        (void)snprintf(text, sizeof(text), "unknown");
    else
        (void)ls_plain_text(text, sizeof(text), "%+.3f ±%.3f", (double)rank->offset / 1e6,
                            (double)rank->uncertainty / 1e6);
    (void)fprintf(out, "  %-17s", text);
}

static void print_rank(FILE *out, const struct ls_timeline *timeline, int index) {
    const struct ls_timeline_rank *rank = &timeline->ranks[index];
    (void)fprintf(out, "%4d", index);
    if (!rank->file) {
        (void)fprintf(out, "  no file\n");
        return;
    }
    print_clock(out, rank);
    (void)ls_plain_print(out, " %9lld %11.3f %11.3f %11.3f %11.3f  ", (long long)rank->came_last, rank->late / 1e6,
                         rank->compute / 1e6, rank->wait / 1e6, rank->wire / 1e6);
    print_call(out, timeline, last_call(rank));
    (void)fprintf(out, "\n");
}

/* "ranks 0, 2", in a line of their own; nothing where there are none. */
static void print_ranks(FILE *out, const struct ls_timeline *timeline, const struct ls_timeline_span *latest,
                        enum standing which, const char *before) {
    int count = 0;
    for (int i = 0; i < timeline->workers; i++) {
        if (stands(&timeline->ranks[i], latest) != which) continue;
        (void)fprintf(out, "%s%d", count ? ", " : before, i);
        count++;
    }
    if (count) (void)fprintf(out, "\n");
}

static void print_difference(FILE *out, const struct ls_timeline *timeline) {
    if (!timeline->differs) return;
    (void)fprintf(out, "the ranks do different things at ");
    print_key(out, timeline, timeline->difference);
    (void)fprintf(out, ":\n");
    for (int i = 0; i < timeline->workers; i++) {
        const struct ls_timeline_span *own = ls_timeline_find(&timeline->ranks[i], timeline->difference);
        if (own) (void)fprintf(out, "  rank %d: %s\n", i, own->label);
    }
}

static void print_end(FILE *out, const struct ls_timeline *timeline) {
    const struct ls_timeline_span *latest = last_of_all(timeline);
    if (!latest) return;
    (void)fprintf(out, "the last collective is ");
    print_call(out, timeline, latest);
    (void)fprintf(out, "\n");
    print_ranks(out, timeline, latest, MISSING, "  never came: rank ");
    print_ranks(out, timeline, latest, UNKNOWN, "  not known, for there is no file: rank ");
    print_ranks(out, timeline, latest, WAITING, "  came and did not get through: rank ");
    print_ranks(out, timeline, latest, THROUGH, "  got through: rank ");
}

void ls_timeline_print_text(const struct ls_timeline *timeline, FILE *out) {
    (void)fprintf(out, "%d of %d ranks, %zu collectives in common; times in milliseconds\n", timeline->known,
                  timeline->workers, timeline->common);
    (void)fprintf(out, "rank  %-16s  %9s %11s %11s %11s %11s  %s\n", "clock", "came last", "late by", "compute", "wait",
                  "wire", "last collective");
    for (int i = 0; i < timeline->workers; i++) print_rank(out, timeline, i);
    print_difference(out, timeline);
    print_end(out, timeline);
    for (int i = 0; i < timeline->file_count; i++)
        if (*timeline->files[i].reason)
            (void)fprintf(out, "rank %d ended with: %s\n", timeline->files[i].rank, timeline->files[i].reason);
}

/* ---- JSON ---- */

static void print_json_call(FILE *out, const char *name, const struct ls_timeline_span *call) {
    if (call)
        ls_json_print(out, ", '%-s': {'key': [%lld, %lld], 'what': %s, 'through': %i}", name,
                      (long long)call->key.major, (long long)call->key.minor, call->label, call->through);
    else
        ls_json_print(out, ", '%-s': null", name);
}

static void print_json_rank(FILE *out, const struct ls_timeline *timeline, int index,
                            const struct ls_timeline_span *latest) {
    const struct ls_timeline_rank *rank = &timeline->ranks[index];
    ls_json_print(out, "%-s{'rank': %d, 'standing': %s", index ? ", " : "", index, standings[stands(rank, latest)]);
    if (rank->file && rank->aligned)
        ls_json_print(out, ", 'clock_offset_ms': %.6f, 'clock_uncertainty_ms': %.6f", (double)rank->offset / 1e6,
                      (double)rank->uncertainty / 1e6);
    if (rank->file) {
        ls_json_print(out, ", 'came_last': %lld, 'late_ms': %.6f, 'compute_ms': %.6f, 'wait_ms': %.6f, 'wire_ms': %.6f",
                      (long long)rank->came_last, rank->late / 1e6, rank->compute / 1e6, rank->wait / 1e6,
                      rank->wire / 1e6);
        print_json_call(out, "last", last_call(rank));
        ls_json_print(out, ", 'error': %s", rank->file->reason);
    }
    (void)fputc('}', out);
}

static void print_json_difference(FILE *out, const struct ls_timeline *timeline) {
    const char *between = "";
    if (!timeline->differs) return ls_json_print(out, ", 'difference': null");
    ls_json_print(out, ", 'difference': {'key': [%lld, %lld], 'ranks': {", (long long)timeline->difference.major,
                  (long long)timeline->difference.minor);
    for (int i = 0; i < timeline->workers; i++) {
        const struct ls_timeline_span *own = ls_timeline_find(&timeline->ranks[i], timeline->difference);
        if (!own) continue;
        ls_json_print(out, "%-s'%d': %s", between, i, own->label);
        between = ", ";
    }
    (void)fputs("}}", out);
}

void ls_timeline_print_json(const struct ls_timeline *timeline, FILE *out) {
    const struct ls_timeline_span *latest = last_of_all(timeline);
    ls_json_print(out, "{'workers': %d, 'known': %d, 'common': %zu, 'ranks': [", timeline->workers, timeline->known,
                  timeline->common);
    for (int i = 0; i < timeline->workers; i++) print_json_rank(out, timeline, i, latest);
    (void)fputc(']', out);
    print_json_difference(out, timeline);
    print_json_call(out, "last", latest);
    (void)fputs("}\n", out);
}
