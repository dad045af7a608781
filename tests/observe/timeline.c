/* Tests of lockstep timeline's inside: what is read back, clocks that differ, who came last, who never came, what ranks
 * do differently, and files that are damaged or do not belong together. */
#include "observe/timeline.h"

#include <string.h>

#include "base/clock.h"
#include "harness.h"
#include "observe/chrome.h"
#include "observe/flight_file.h"

#define MAX_RANKS 4

static struct ls_timeline_file files[MAX_RANKS];
static struct ls_timeline *timeline;

/* A flight record's text; call k of rank begins at begun[k] and ends at ended, milliseconds by the rank's own clock. */
struct call {
    const char *name;
    double begun, ended;
};

static char *write_text(int rank, int workers, const char *clock, const struct call *calls, int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)fprintf(out, "{\"traceEvents\": [\n");
    ls_chrome_process(out, rank);
    for (int i = 0; i < count; i++)
        (void)fprintf(out,
                      ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": 1000, \"ts\": %.3f, \"dur\": %.3f, "
                      "\"args\": {\"sequence\": %d, \"kind\": \"all_reduce\", \"dtype\": \"float32\", \"state\": "
                      "\"%s\", \"count\": 4, \"bytes\": 16}}",
                      calls[i].name, rank, calls[i].begun * 1e3, (calls[i].ended - calls[i].begun) * 1e3, i,
                      i + 1 < count ? "done" : "failed");
    (void)fprintf(out,
                  "\n], \"baseTimeNanoseconds\": %lld, \"otherData\": {\"lockstep\": \"0\", \"flight_record\": true, "
                  "\"rank\": %d, \"workers\": %d, \"clock\": \"%s\", \"reason\": \"why\"}}\n",
                  (long long)LS_CHROME_TIME_BASE, rank, workers, clock);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static void add_file(int index, int rank, int workers, const char *clock, const struct call *calls, int count) {
    char *text = write_text(rank, workers, clock, calls, count);
    assert_ok(ls_timeline_read_parse("f", text, strlen(text), &files[index]));
    free(text);
}

static void free_files(int count) {
    ls_timeline_free(timeline);
    for (int i = 0; i < count; i++) ls_timeline_read_free_file(&files[i]);
}

static char *said(void (*print)(const struct ls_timeline *, FILE *)) {
    static char text[1 << 14];
    FILE *out = fmemopen(text, sizeof(text), "w");
    print(timeline, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

TEST(who_came_last) {
    const struct call early[] = {{"a", 0, 10}, {"a", 12, 20}, {"a", 21, 30}};
    const struct call late[] = {{"a", 8, 10}, {"a", 13, 20}, {"a", 22, 30}};
    add_file(0, 1, 2, "one", late, 3);
    add_file(1, 0, 2, "one", early, 3);
    assert_ok(ls_timeline_new(files, 2, &timeline));
    ck_assert_uint_eq(timeline->common, 2);
    ck_assert_int_eq(timeline->ranks[0].came_last, 0);
    ck_assert_int_eq(timeline->ranks[1].came_last, 2);
    ck_assert_double_eq(timeline->ranks[1].late, 9e6);
    ck_assert_double_eq(timeline->ranks[0].wait, 9e6);
    ck_assert_double_eq(timeline->ranks[0].wire, 9e6);
    ck_assert_double_eq(timeline->ranks[0].compute, 2e6);
    ck_assert_double_eq(timeline->ranks[1].compute, 3e6);
    ck_assert_int_eq(timeline->ranks[1].uncertainty, 0);
    ck_assert_ptr_nonnull(strstr(said(ls_timeline_print_text), "came and did not get through: rank 0, 1\n"));
    ck_assert_ptr_nonnull(strstr(said(ls_timeline_print_json), "\"came_last\": 2"));
    free_files(2);
}

/* The other host's clock is 5 s ahead; the truth is that rank 1 comes 1 ms late. */
TEST(clocks_of_other_hosts) {
    struct call first[9], second[9];
    for (int i = 0; i < 9; i++) {
        first[i] = (struct call){"a", i * 10, i * 10 + 3};
        second[i] = (struct call){"a", 5000 + i * 10 + 1, 5000 + i * 10 + 3 + (i % 3 - 1) * 0.1};
    }
    add_file(0, 0, 3, "one", first, 9);
    add_file(1, 1, 3, "other", second, 9);
    add_file(2, 2, 3, "other", second, 9);
    assert_ok(ls_timeline_new(files, 3, &timeline));
    ck_assert_int_eq(timeline->ranks[1].offset, -5000 * LS_MILLISECOND);
    ck_assert_int_eq(timeline->ranks[2].offset, timeline->ranks[1].offset);
    ck_assert_int_gt(timeline->ranks[1].uncertainty, 0);
    ck_assert_int_le(timeline->ranks[1].uncertainty, 3 * LS_MILLISECOND);
    ck_assert_double_eq(timeline->ranks[0].wait, 8 * 1e6);
    free_files(3);
}

TEST(who_never_came) {
    const struct call calls[] = {{"a", 0, 1}, {"b", 2, 3}, {"c", 4, 300}};
    add_file(0, 0, 4, "one", calls, 3);
    add_file(1, 2, 4, "one", calls, 2);
    add_file(2, 3, 4, "one", calls, 3);
    assert_ok(ls_timeline_new(files, 3, &timeline));
    const char *text = said(ls_timeline_print_text);
    ck_assert_msg(strstr(text, "the last collective is #2 all_reduce 'c' of 4 float32\n"
                               "  never came: rank 2\n"
                               "  not known, for there is no file: rank 1\n"
                               "  came and did not get through: rank 0, 3\n") != NULL,
                  "%s", text);
    text = said(ls_timeline_print_json);
    ck_assert_msg(strstr(text, "{\"rank\": 2, \"standing\": \"missing\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "{\"rank\": 1, \"standing\": \"unknown\"}") != NULL, "%s", text);
    free_files(3);
}

TEST(what_differs) {
    const struct call right[] = {{"a", 0, 1}, {"b", 2, 3}, {"c", 4, 5}}, wrong[] = {{"a", 0, 1}, {"c", 2, 3}};
    add_file(0, 0, 3, "one", right, 2);
    add_file(1, 1, 3, "one", wrong, 2);
    add_file(2, 2, 3, "one", right, 2);
    assert_ok(ls_timeline_new(files, 3, &timeline));
    ck_assert(timeline->differs);
    ck_assert_uint_eq(timeline->common, 1);
    const char *text = said(ls_timeline_print_text);
    ck_assert_msg(strstr(text, "the ranks do different things at #1:\n"
                               "  rank 0: all_reduce 'b' of 4 float32\n"
                               "  rank 1: all_reduce 'c' of 4 float32\n"
                               "  rank 2: all_reduce 'b' of 4 float32\n") != NULL,
                  "%s", text);
    ck_assert_ptr_nonnull(strstr(said(ls_timeline_print_json), "\"difference\": {\"key\": [1, 0], \"ranks\": {\"0\""));
    free_files(3);
}

TEST(files_of_two_runs) {
    const struct call calls[] = {{"a", 0, 1}};
    add_file(0, 0, 2, "one", calls, 1);
    add_file(1, 0, 2, "one", calls, 1);
    assert_refused(ls_timeline_new(files, 2, &timeline), "are both of rank 0");
    files[1].rank = 1;
    files[1].workers = 3;
    assert_refused(ls_timeline_new(files, 2, &timeline), "of 2 workers");
    timeline = NULL;
    free_files(2);
}

/* A cut anywhere is one error with the place. The merged file is JSON of the same events. */
TEST(damage) {
    const struct call calls[] = {{"a", 0, 1}, {"b", 2, 3}};
    char *text = write_text(1, 2, "one", calls, 2);
    size_t size = strlen(text);
    struct ls_timeline_file file;
    for (size_t cut = 0; cut + 2 < size; cut++) {
        ck_assert_int_eq(ls_timeline_read_parse("cut.json", text, cut, &file), LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ls_error(), "cut.json: line ") == ls_error(), "%s", ls_error());
    }
    static const struct {
        const char *before, *after, *error;
    } changes[] = {{"\"ts\"", "\"tz\"", "traceEvents[2]: 'ts'"},
                   {"\"dur\": ", "\"dur\": -", "traceEvents[2]: 'dur'"},
                   {"\"ph\": \"X\"", "\"ph\": \"Y\"", "traceEvents[2]: 'ph'"},
                   {"\"tid\": 1000", "\"tid\": 1.5", "traceEvents[2]: 'tid'"},
                   {"\"sequence\": 0", "\"sequence\": 1e99", "traceEvents[2]: 'args.sequence'"},
                   {"\"state\": \"done\"", "\"state\": 5", "traceEvents[2]: 'args.state'"},
                   {"\"rank\": 1", "\"rank\": 2", "no number 'otherData.rank'"},
                   {"\"workers\"", "\"worker\"", "no number 'otherData.workers'"},
                   {"Nanoseconds", "Microsecond", "'baseTimeNanoseconds'"},
                   {"traceEvents", "traceevents", "no array 'traceEvents'"},
                   {"]", "]]", "line 6, column 2"}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char changed[4096];
        const char *at = strstr(text, changes[i].before);
        (void)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, changes[i].after,
                       at + strlen(changes[i].before));
        ck_assert_int_eq(ls_timeline_read_parse("f", changed, strlen(changed), &file), LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ls_error(), changes[i].error) != NULL, "%s, not %s", ls_error(), changes[i].error);
    }
    free(text);
}

TEST(missing_files) {
    struct ls_timeline_file file;
    ck_assert_int_eq(ls_timeline_read("/nowhere/f.json", &file), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), "'/nowhere/f.json' cannot be read: No such file or directory");
    assert_refused(ls_timeline_read("/dev/null", &file), "/dev/null: line 1, column 1");
}

/* The flight record's file is read back. Names need escapes, and a call goes on. */
TEST(flight_file) {
    char folder[] = "/tmp/ls-flight-XXXXXX", *path = NULL;
    struct ls_flight_file *file;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const struct ls_flight_file_config config = {folder, 2, 3, 7, "lost \"worker:1\""};
    assert_ok(ls_flight_file_open(&config, &file));
    int64_t now = ls_now();
    const struct ls_flight_span done = {"a\"\x80", "all_reduce", "float32", "ring", "done", 7, 4, 16, now - 10, now};
    const struct ls_flight_span open = {"b", "barrier", "float32", NULL, "begun", 8, 0, 0, now, 0};
    ls_flight_file_add(file, &done);
    ls_flight_file_add(file, &open);
    assert_ok(ls_flight_file_close(file, &path));
    ck_assert_ptr_nonnull(strstr(path, "/flight.rank2.pid"));
    assert_ok(ls_timeline_read(path, &files[0]));
    ck_assert_int_eq(files[0].rank, 2);
    ck_assert_int_eq(files[0].workers, 3);
    ck_assert_str_eq(files[0].reason, "lost \"worker:1\"");
    ck_assert_uint_eq(files[0].span_count, 2);
    ck_assert(files[0].spans[0].through && !files[0].spans[1].through);
    ck_assert_int_eq(files[0].spans[1].key.major, 8);
    ck_assert_ptr_nonnull(strstr(files[0].spans[0].args, "\"algorithm\":\"ring\""));
    ls_timeline_read_free_file(&files[0]);
    ck_assert_int_eq(remove(path), 0);
    ck_assert_int_eq(remove(folder), 0);
    free(path);
    assert_refused(ls_flight_file_open(&config, &file), "No such file or directory");
}

TESTS("observe/timeline", .seconds = 60)
