/* Tests of the timeline: what is in the file, names that JSON must escape, full tracks, paths, files that cannot be
 * written, and nothing at all. */
#include "observe/trace.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* The last line that was said, and how many. */
struct heard {
    char line[1200];
    ls_log_level level;
    int count;
};

static void hear(void *context, ls_log_level level, const char *line) {
    struct heard *heard = context;
    (void)snprintf(heard->line, sizeof(heard->line), "%s", line);
    heard->level = level;
    heard->count++;
}

static char folder[] = "/tmp/lockstep-trace-XXXXXX";

static void make_folder(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    ck_assert_int_eq(rmdir(folder), 0);
}

static const char *in_folder(const char *name) {
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static struct ls_trace *open_trace(const char *path, int rank, int size, size_t capacity, struct heard *heard) {
    const struct ls_log log = {.sink = hear, .context = heard, .level = LS_LOG_DEBUG};
    const struct ls_trace_config config = {path, rank, size, capacity, &log};
    struct ls_trace *trace = NULL;
    *heard = (struct heard){.level = LS_LOG_DEBUG};
    assert_ok(ls_trace_new(&config, &trace));
    return trace;
}

static struct ls_track *add_track(struct ls_trace *trace, const char *name) {
    struct ls_track *track = NULL;
    assert_ok(ls_trace_add_track(trace, name, &track));
    return track;
}

/* Reads and removes. */
static cJSON *take_file(const char *name) {
    static char text[1 << 16];
    FILE *file = fopen(in_folder(name), "r");
    ck_assert_msg(file != NULL, "no file %s", in_folder(name));
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(unlink(in_folder(name)), 0);
    text[size] = 0;
    cJSON *object = cJSON_ParseWithOpts(text, NULL, true);
    ck_assert_msg(object != NULL, "no JSON: %s", text);
    return object;
}

static const cJSON *member(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double number(const cJSON *object, const char *name) {
    ck_assert_msg(cJSON_IsNumber(member(object, name)), "no number %s", name);
    return member(object, name)->valuedouble;
}

static const char *string(const cJSON *object, const char *name) {
    ck_assert_msg(cJSON_IsString(member(object, name)), "no string %s", name);
    return member(object, name)->valuestring;
}

/* The index-th event of a phase. */
static const cJSON *event(const cJSON *file, const char *phase, int index) {
    const cJSON *each;
    cJSON_ArrayForEach(each, member(file, "traceEvents")) {
        if (!strcmp(string(each, "ph"), phase) && index-- == 0) return each;
    }
    return NULL;
}

static void check_step(const cJSON *step) {
    ck_assert_str_eq(string(step, "name"), "step");
    ck_assert_double_eq(number(step, "pid"), 1);
    ck_assert_double_eq(number(step, "tid"), 0);
    ck_assert_double_ge(number(step, "dur"), 0);
    ck_assert_double_eq(number(member(step, "args"), "step"), 7);
    ck_assert_ptr_null(member(member(step, "args"), "bytes"));
}

static void check_reduce(const cJSON *reduce) {
    ck_assert_str_eq(string(reduce, "name"), "all-reduce");
    ck_assert_double_eq(number(reduce, "tid"), 1);
    ck_assert_double_eq_tol(number(reduce, "dur"), 2000.042, 1e-9);
    ck_assert_double_eq(number(member(reduce, "args"), "bucket"), 3);
    ck_assert_double_eq(number(member(reduce, "args"), "bytes"), 4096);
}

TEST(a_file) {
    struct heard heard;
    struct ls_trace *trace = open_trace(in_folder("a.json"), 1, 2, 0, &heard);
    struct ls_track *first = add_track(trace, "replica 2"), *second = add_track(trace, "communicator");
    int64_t begun = ls_track_begin(first);
    ck_assert_int_gt(begun, 0);
    ls_track_end(first, begun, "step", (struct ls_span_facts){.step = 7});
    ls_trace_track_add(second, "all-reduce", begun + 1500, begun + 1500 + 2000042, (struct ls_span_facts){7, 3, 4096});
    ls_trace_close(trace);
    ck_assert_int_eq(heard.count, 1);
    ck_assert_msg(strstr(heard.line, "a.rank1.json") && strstr(heard.line, "2 spans"), "%s", heard.line);
    cJSON *file = take_file("a.rank1.json");
    check_step(event(file, "X", 0));
    check_reduce(event(file, "X", 1));
    ck_assert_double_eq_tol(number(event(file, "X", 1), "ts") - number(event(file, "X", 0), "ts"), 1.5, 0.05);
    ck_assert_ptr_null(event(file, "X", 2));
    ck_assert_str_eq(string(member(event(file, "M", 0), "args"), "name"), "rank 1");
    ck_assert_str_eq(string(member(event(file, "M", 3), "args"), "name"), "communicator");
    ck_assert_double_eq(number(member(file, "otherData"), "dropped_spans"), 0);
    ck_assert_double_eq(number(member(file, "otherData"), "workers"), 2);
    cJSON_Delete(file);
}

/* The wall clock, so that the files of several hosts can be laid side by side. */
TEST(times_are_wall_clock) {
    struct heard heard;
    struct ls_trace *trace = open_trace(in_folder("a.json"), 0, 1, 0, &heard);
    struct ls_track *track = add_track(trace, "replica 0");
    time_t before = time(NULL);
    ls_track_end(track, ls_track_begin(track), "step", (struct ls_span_facts){0});
    time_t after = time(NULL);
    ls_trace_close(trace);
    cJSON *file = take_file("a.json");
    double seconds = number(file, "baseTimeNanoseconds") / 1e9 + number(event(file, "X", 0), "ts") / 1e6;
    ck_assert_double_ge(seconds, (double)before - 1);
    ck_assert_double_le(seconds, (double)after + 2);
    cJSON_Delete(file);
}

TEST(full_tracks_keep_the_newest) {
    struct heard heard;
    struct ls_trace *trace = open_trace(in_folder("a.json"), 0, 1, 4, &heard);
    struct ls_track *full = add_track(trace, "replica 0"), *exact = add_track(trace, "replica 1");
    for (int i = 1; i <= 10; i++) ls_trace_track_add(full, "step", i, i + 1, (struct ls_span_facts){.step = i});
    for (int i = 1; i <= 4; i++) ls_trace_track_add(exact, "step", i, i + 1, (struct ls_span_facts){.step = i});
    ls_trace_close(trace);
    ck_assert_int_eq(heard.count, 1);
    ck_assert_int_eq(heard.level, LS_LOG_WARNING);
    ck_assert_msg(strstr(heard.line, "newest 8 spans; 6 older ones were dropped") != NULL, "%s", heard.line);
    cJSON *file = take_file("a.json");
    ck_assert_double_eq(number(member(file, "otherData"), "dropped_spans"), 6);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(number(member(event(file, "X", i), "args"), "step"), i < 4 ? 7 + i : 1 + i - 4);
    ck_assert_ptr_null(event(file, "X", 8));
    cJSON_Delete(file);
}

TEST(names_are_escaped_and_cut) {
    struct heard heard;
    struct ls_trace *trace = open_trace(in_folder("a.json"), 0, 1, 0, &heard);
    struct ls_track *track = add_track(trace, "a\"b\\c\n\xFF");
    ls_trace_track_add(track, "0123456789012345678901234567890123456789and more", 1, 2, (struct ls_span_facts){0});
    ls_trace_close(trace);
    cJSON *file = take_file("a.json");
    ck_assert_str_eq(string(member(event(file, "M", 2), "args"), "name"), "a\"b\\c\n\xEF\xBF\xBD");
    ck_assert_str_eq(string(event(file, "X", 0), "name"), "012345678901234567890123456789012345678");
    cJSON_Delete(file);
}

static const struct {
    const char *path;
    int rank, size;
    const char *file;
} paths[] = {
    {"a.json", 0, 1, "a.json"},
    {"a.json", 0, 2, "a.rank0.json"},
    {"a.b.json", 11, 12, "a.b.rank11.json"},
    {"a", 1, 2, "a.rank1"},
    {".a", 1, 2, ".a.rank1"},
    {"%r.json", 0, 1, "0.json"},
    {"a%r-%r%.json", 3, 4, "a3-3%.json"},
};

TEST_EACH(paths_name_the_rank, COUNT_OF(paths)) {
    struct heard heard;
    ls_trace_close(open_trace(in_folder(paths[_i].path), paths[_i].rank, paths[_i].size, 0, &heard));
    cJSON_Delete(take_file(paths[_i].file));
}

TEST(a_bad_path_is_an_error) {
    const struct ls_log log = {.level = LS_LOG_INFO};
    const struct ls_trace_config config = {in_folder("none/a.json"), 0, 2, 0, &log};
    struct ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_new(&config, &trace), LS_NOT_FOUND);
    ck_assert_ptr_null(trace);
    ck_assert_msg(strstr(ls_error(), "none/a.rank0.json") && strstr(ls_error(), "No such file"), "%s", ls_error());
}

TEST(without_a_timeline_nothing_is_kept) {
    struct ls_track *track = add_track(NULL, "replica 0");
    ck_assert_ptr_null(track);
    ck_assert_int_eq(ls_track_begin(track), 0);
    ls_track_end(track, 0, "step", (struct ls_span_facts){0});
    assert_ok(ls_trace_close(NULL));
}

TEST(a_full_disk_is_an_error) {
    struct heard heard;
    struct ls_trace *trace = open_trace("/dev/full", 0, 1, 0, &heard);
    ls_trace_track_add(add_track(trace, "replica 0"), "step", 1, 2, (struct ls_span_facts){0});
    ck_assert_int_eq(ls_trace_close(trace), LS_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(heard.count, 0);
    ck_assert_msg(strstr(ls_error(), "/dev/full") && strstr(ls_error(), "No space left"), "%s", ls_error());
}

TESTS("trace", .before = make_folder, .after = remove_folder)
