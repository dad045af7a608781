/* One row a number in the table. Names have their unit at the end, in seconds or bytes, as OpenMetrics wants; counters
 * end in _total. The reader gives each worker its label, by the address that it asks. */
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

static void print_family(FILE *out, const char *name, const char *type, const char *unit, const char *help) {
    (void)fprintf(out, "# TYPE lockstep_%s %s\n", name, type);
    if (*unit) (void)fprintf(out, "# UNIT lockstep_%s %s\n", name, unit);
    (void)fprintf(out, "# HELP lockstep_%s %s\n", name, help);
}

static void print_gauge(FILE *out, const char *name, const char *unit, const char *help, double value) {
    print_family(out, name, "gauge", unit, help);
    (void)ls_plain_print(out, "lockstep_%s %.9g\n", name, value);
}

static double seconds_of(int64_t nanoseconds) {
    return (double)nanoseconds / (double)LS_SECOND;
}

/* The counts may be of a moment before the sum: their own total is the count. */
static void print_durations(FILE *out, const char *name, const char *help, const struct ls_durations *durations) {
    int64_t total = 0, bound = LS_SHORTEST_DURATION;
    print_family(out, name, "histogram", "seconds", help);
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

static void print_metric(FILE *out, const struct metric *metric, const struct ls_activity *activity) {
    const atomic_int_fast64_t *number = (const void *)((const char *)activity + metric->at);
    print_family(out, metric->name, metric->type, metric->unit, metric->help);
    (void)fprintf(out, "lockstep_%s%s %lld\n", metric->name, strcmp(metric->type, "counter") ? "" : "_total",
                  (long long)ls_activity_get(number));
}

void ls_metrics_print(FILE *out, const struct ls_metrics_facts *facts) {
    const struct ls_activity *activity = facts->activity;
    print_family(out, "worker", "info", "", "this worker");
    (void)fprintf(out, "lockstep_worker_info{task=\"%s\",version=\"%s\"} 1\n", facts->task, ls_version());
    for (int i = 0; i < METRICS; i++) print_metric(out, &metrics[i], activity);
    print_gauge(out, "ready", "", "1: the worker is in a group", facts->ready);
    int64_t since = ls_activity_get(&activity->waiting), saved = ls_activity_get(&activity->saved);
    print_gauge(out, "waiting_seconds", "seconds", "since when the worker waits for others to join or to agree",
                since ? seconds_of(facts->now - since) : 0);
    if (ls_activity_get(&activity->step))
        print_gauge(out, "loss", "", "of the last step, the mean over all replicas", ls_activity_loss(activity));
    if (saved)
        print_gauge(out, "checkpoint_age_seconds", "seconds", "since this worker has written a checkpoint",
                    seconds_of(facts->now - saved));
    print_durations(out, "step_duration_seconds", "time of a training step", &activity->steps);
    print_durations(out, "collective_duration_seconds", "time of a collective, waiting for others included",
                    &activity->durations);
    (void)fputs("# EOF\n", out);
}
