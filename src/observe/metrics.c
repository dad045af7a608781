/* One row a number in the table. Names have their unit at the end, in seconds or bytes, as OpenMetrics wants; counters
 * end in _total. The text format 0.0.4 gives a family the name of its samples, and has no info, units or end. The
 * reader gives each worker its label, by the address that it asks. */
#include "observe/metrics.h"

#include <lockstep/lockstep.h>
#include <string.h>

#include "base/clock.h"
#include "base/plain.h"

struct metric {
    const char *name, *type, *unit, *help;
    size_t at; /* in struct ls_activity */
};

static const struct metric metrics[] = {
    {"steps", "counter", "", "training steps that are committed", offsetof(struct ls_activity, step)},
    {"collectives", "counter", "", "collectives that have ended", offsetof(struct ls_activity, collectives)},
    {"collective_bytes", "counter", "bytes", "bytes of their vectors", offsetof(struct ls_activity, bytes)},
    {"pushes_applied", "counter", "", "pushes of asynchronous training, up to the last meeting",
     offsetof(struct ls_activity, applied)},
    {"pushes_dropped", "counter", "", "those that were too old", offsetof(struct ls_activity, dropped)},
    {"push_staleness", "counter", "", "updates since the variables of a push were read, summed up over pushes",
     offsetof(struct ls_activity, staleness)},
    {"workers", "gauge", "", "workers of the group; 0 while it forms", offsetof(struct ls_activity, members)},
    {"generation", "gauge", "", "number of the group, which grows with each recovery",
     offsetof(struct ls_activity, generation)},
    {"restarts", "counter", "", "starts of this task's process before this one",
     offsetof(struct ls_activity, restarts)},
    {"connections_refused", "counter", "", "connections of strangers", offsetof(struct ls_activity, refused)},
};
enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

struct page {
    FILE *out;
    bool open;
};

static bool is_kind(const char *type, const char *kind) {
    return strcmp(type, kind) == 0;
}

/* What OpenMetrics appends to the name of a sample, and the text format to that of its family. */
static const char *ending_of(const char *type) {
    return is_kind(type, "counter") ? "_total" : is_kind(type, "info") ? "_info" : "";
}

static void print_family(struct page page, const struct metric *of) {
    const char *ending = page.open ? "" : ending_of(of->type);
    bool plain_info = !page.open && is_kind(of->type, "info");
    (void)fprintf(page.out, "# TYPE lockstep_%s%s %s\n", of->name, ending, plain_info ? "gauge" : of->type);
    if (page.open && *of->unit) (void)fprintf(page.out, "# UNIT lockstep_%s %s\n", of->name, of->unit);
    (void)fprintf(page.out, "# HELP lockstep_%s%s %s\n", of->name, ending, of->help);
}

static void print_gauge(struct page page, const struct metric *of, double value) {
    print_family(page, of);
    (void)ls_plain_print(page.out, "lockstep_%s %.9g\n", of->name, value);
}

static double seconds_of(int64_t nanoseconds) {
    return (double)nanoseconds / (double)LS_SECOND;
}

/* The counts may be of a moment before the sum: their own total is the count. */
static void print_durations(struct page page, const char *name, const char *help,
                            const struct ls_durations *durations) {
    int64_t total = 0, bound = LS_SHORTEST_DURATION;
    FILE *out = page.out;
    print_family(page, &(struct metric){name, "histogram", "seconds", help, 0});
    for (int i = 0; i < LS_DURATION_BOUNDS; i++) {
        total += ls_activity_get(&durations->counts[i]);
        (void)ls_plain_print(out, "lockstep_%s_bucket{le=\"%.9g\"} %lld\n", name, seconds_of(bound), (long long)total);
        bound = ls_durations_next(i, bound);
    }
    total += ls_activity_get(&durations->counts[LS_DURATION_BOUNDS]);
    (void)ls_plain_print(out, "lockstep_%s_bucket{le=\"+Inf\"} %lld\nlockstep_%s_count %lld\nlockstep_%s_sum %.9g\n",
                         name, (long long)total, name, (long long)total, name,
                         seconds_of(ls_activity_get(&durations->sum)));
}

static void print_metric(struct page page, const struct metric *metric, const struct ls_activity *activity) {
    const atomic_int_fast64_t *number = (const void *)((const char *)activity + metric->at);
    print_family(page, metric);
    (void)fprintf(page.out, "lockstep_%s%s %lld\n", metric->name, ending_of(metric->type),
                  (long long)ls_activity_get(number));
}

const char *ls_metrics_type(bool open) {
    return open ? LS_METRICS_OPEN "; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8";
}

void ls_metrics_print(FILE *out, const struct ls_metrics_facts *facts) {
    static const struct metric worker = {"worker", "info", "", "this worker", 0},
                               ready = {"ready", "gauge", "", "1: the worker is in a group", 0},
                               waiting = {"waiting_seconds", "gauge", "seconds",
                                          "since when the worker waits for others to join or to agree", 0},
                               loss = {"loss", "gauge", "", "of the last step, the mean over all replicas", 0},
                               age = {"checkpoint_age_seconds", "gauge", "seconds",
                                      "since this worker has written a checkpoint", 0};
    const struct ls_activity *activity = facts->activity;
    const struct page page = {out, facts->open};
    print_family(page, &worker);
    (void)fprintf(out, "lockstep_worker_info{task=\"%s\",version=\"%s\"} 1\n", facts->task, ls_version());
    for (int i = 0; i < METRICS; i++) print_metric(page, &metrics[i], activity);
    print_gauge(page, &ready, facts->ready);
    int64_t since = ls_activity_get(&activity->waiting), saved = ls_activity_get(&activity->saved);
    print_gauge(page, &waiting, since ? seconds_of(facts->now - since) : 0);
    if (ls_activity_get(&activity->step)) print_gauge(page, &loss, ls_activity_loss(activity));
    if (saved) print_gauge(page, &age, seconds_of(facts->now - saved));
    print_durations(page, "step_duration_seconds", "time of a training step", &activity->steps);
    print_durations(page, "collective_duration_seconds", "time of a collective, waiting for others included",
                    &activity->durations);
    if (facts->open) (void)fputs("# EOF\n", out);
}
