/* The words of a run's hosts, and its changing list of them. A host that is not on the list of the discovery script any
 * more is left: its workers get SIGTERM, and SIGKILL after LS_RUN_KILL. Absent ranks start on hosts with room. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "launch/run_moves.h"
#include "launch/run_private.h"

#define LATE 30.0 /* seconds before the end of the first that has finished */

/* ---- Hosts ------------------------------------------------------------------------------------------------------ */

static void end_worker(struct run *run, struct ls_worker *worker, int status, bool by_signal) {
    if (worker->ended) return;
    worker->ended = true;
    worker->exit_status = status;
    worker->by_signal = by_signal;
    ls_supervise_end(run, worker);
}

static void lose_host(struct run *run, const struct ls_host *host) {
    ls_output_say(&run->output, "host %s is lost%s%s", host->named.name, *host->last ? ": " : "", host->last);
    for (int i = 0; i < host->count; i++) {
        struct ls_worker *worker =
            host->ranks[i] < 0 || host->ranks[i] >= run->count ? NULL : &run->workers[host->ranks[i]];
        if (!worker || worker->ended) continue;
        worker->with_host = true;
        end_worker(run, worker, 128 + SIGKILL, true);
    }
}

/* A command that cannot be started fails the run, as it does here. */
static void fail_start(struct run *run, struct ls_worker *worker, int status) {
    if (!run->unstarted) run->unstarted = status;
    run->signalled = run->announced = true;
    end_worker(run, worker, status, false);
    for (int i = 0; i < run->count; i++) ls_supervise_signal(run, &run->workers[i], SIGKILL, LS_SIGNAL_GROUP);
}

static void take_event(struct run *run, const struct ls_host_event *event) {
    struct ls_worker *worker = &run->workers[event->rank];
    struct ls_stream *stream = &run->streams[2 * event->rank + event->errors];
    if (event->kind == LS_HOST_LOST) lose_host(run, event->host);
    if (event->kind == LS_HOST_SAID) ls_output_say(&run->output, "host %s: %s", event->host->named.name, event->data);
    if (event->kind == LS_HOST_STARTED) worker->pid = event->number;
    if (event->kind == LS_HOST_FAILED) fail_start(run, worker, event->number);
    if (event->kind == LS_HOST_ENDED) end_worker(run, worker, event->number, event->by_signal);
    if (event->kind == LS_HOST_OUTPUT && event->size) ls_stream_add(&run->output, stream, event->data, event->size);
    if (event->kind == LS_HOST_OUTPUT && !event->size) ls_stream_close(&run->output, stream);
}

void ls_remote_hear(struct run *run, const struct pollfd *polled) {
    struct ls_host_event event;
    ls_hosts_move(run->hosts, polled);
    while (ls_hosts_next(run->hosts, &event)) take_event(run, &event);
}

/* ---- Ranks that move -------------------------------------------------------------------------------------------- */

/* Its agent does not answer, and another one is not tried yet. */
static bool is_lost(const struct run *run, const ls_tools_slots *named) {
    for (int i = 0; i < run->hosts->count; i++) {
        const struct ls_host *host = &run->hosts->hosts[i];
        if (!host->retired && host->out < 0 && !strcmp(host->named.name, named->name)) return true;
    }
    return false;
}

bool ls_remote_move(struct run *run, const struct ls_worker *worker) {
    struct ls_run_hosts *hosts = run->hosts;
    int rank = worker->rank;
    if (!hosts || !hosts->launch->moves || !worker->with_host) return false;
    for (int i = 0; i < hosts->named_count; i++) {
        const ls_tools_slots *named = &hosts->named[i];
        if (is_lost(run, named) || ls_moves_free(hosts, named, run->workers) < 1) continue;
        return ls_moves_place(hosts, named, &rank, 1, run->workers) != NULL;
    }
    return false;
}

/* ---- A list of hosts that changes ------------------------------------------------------------------------------- */

/* Those that run, or that have succeeded. */
static int count_left(const struct run *run) {
    int left = 0;
    for (int i = 0; i < run->count; i++)
        left += !run->workers[i].ended || (!run->workers[i].absent && !run->workers[i].exit_status);
    return left;
}

static bool is_over(const struct run *run) {
    return run->culprit || run->signalled || run->succeeded || run->unstarted;
}

bool ls_remote_awaits(const struct run *run) {
    return run->elastic && !is_over(run);
}

bool ls_remote_spare(struct run *run, struct ls_worker *worker) {
    bool lost = ls_supervise_was_lost(worker);
    char who[128], pause[64] = "";
    if (!run->elastic || run->culprit || run->signalled || !(lost || worker->leaves)) return false;
    worker->absent = true;
    ls_worker_describe(worker, who, sizeof(who));
    if (worker->by_signal && !worker->leaves) {
        double seconds = ls_elastic_cool(run->elastic, worker->host);
        const char *form = seconds < 0 ? "; its host is left out for good" : "; its host is left out for %.0f s";
        (void)snprintf(pause, sizeof(pause), form, seconds);
    }
    ls_output_say(&run->output, "%s%s; %d of %d workers are left, %d must be", who, pause, count_left(run), run->count,
                  run->elastic->options->least);
    return true;
}

static bool has_workers(const struct run *run, const struct ls_host *host) {
    bool has = false;
    for (int i = 0; i < host->count; i++) has = has || (host->ranks[i] >= 0 && !run->workers[host->ranks[i]].ended);
    return has;
}

static void end_workers(struct run *run, const struct ls_host *host, int signal, enum ls_signal_way way) {
    for (int i = 0; i < host->count; i++) {
        if (host->ranks[i] < 0 || run->workers[host->ranks[i]].ended) continue;
        run->workers[host->ranks[i]].leaves = true;
        ls_supervise_signal(run, &run->workers[host->ranks[i]], signal, way);
    }
}

/* A host that is not on the list: SIGTERM, SIGKILL, and the end of its agent. */
static void leave(struct run *run, struct ls_host *host) {
    double now = ls_launch_now();
    if (!has_workers(run, host)) return ls_hosts_retire(host);
    if (!(host->left_at > 0)) {
        host->left_at = now;
        ls_output_say(&run->output, "host %s is not on the list any more: its workers get SIGTERM", host->named.name);
        end_workers(run, host, SIGTERM, LS_SIGNAL_LEAVE);
    } else if (now >= host->left_at + LS_RUN_KILL) {
        end_workers(run, host, SIGKILL, LS_SIGNAL_GROUP);
    }
}

static void leave_hosts(struct run *run) {
    for (int i = 0; i < run->hosts->count; i++) {
        struct ls_host *host = &run->hosts->hosts[i];
        bool listed = ls_elastic_lists(run->elastic, host->named.name);
        if (!host->retired && (host->left_at > 0 || !listed)) leave(run, host);
    }
}

static bool start_plan(struct run *run, const struct ls_elastic_plan *plan) {
    if (!ls_moves_place(run->hosts, plan->named, plan->ranks, plan->count, run->workers)) return false;
    ls_output_say(&run->output, "host %s: starting %d worker%s there, the first is worker:%d", plan->named->name,
                  plan->count, plan->count > 1 ? "s" : "", plan->ranks[0]);
    for (int i = 0; i < plan->count; i++) {
        int rank = plan->ranks[i], before = run->workers[rank].restarts + (run->hosts->addresses[rank] != NULL);
        for (int j = 2 * rank; j < 2 * rank + 2; j++) ls_stream_close(&run->output, &run->streams[j]);
        if (ls_supervise_start(run, rank, before)) return false;
        run->workers[rank].came = ls_launch_now();
    }
    return true;
}

static void fill_room(struct run *run) {
    struct ls_elastic_plan plan;
    if (!ls_elastic_may_start(run->elastic, run->hosts, run->workers, run->alive)) return;
    while (ls_elastic_plan(run->elastic, run->hosts, run->workers, &plan) && start_plan(run, &plan)) continue;
}

/* Too few workers run for too long: the run ends with the status of one that has ended. */
static void check_shortage(struct run *run) {
    struct ls_run_elastic *elastic = run->elastic;
    int missing = elastic->options->least - count_left(run);
    struct ls_worker *ended = NULL;
    if (missing <= 0) elastic->short_since = 0;
    if (missing > 0 && !(elastic->short_since > 0)) elastic->short_since = ls_launch_now();
    if (missing <= 0 || ls_launch_now() < elastic->short_since + elastic->options->timeout) return;
    for (int i = 0; i < run->count; i++)
        if (run->workers[i].absent && run->workers[i].exit_status) ended = &run->workers[i];
    ls_output_say(&run->output,
                  "%d slots are missing: %d workers run, --min-np is %d, and the hosts have no more for %g s "
                  "(--elastic-timeout)",
                  missing, count_left(run), elastic->options->least, elastic->options->timeout);
    if (ended) ls_supervise_blame(run, ended);
}

/* The others have finished. One that was started shortly before may have come too late to join them, and would wait for
 * them in vain: SIGTERM after the grace, and SIGKILL. Without an agent yet it is not started at all. */
static void end_latecomers(struct run *run) {
    double now = ls_launch_now(), end = run->succeeded_at + run->how->grace;
    if (!run->succeeded || run->culprit || run->signalled) return;
    for (int i = 0; i < run->count; i++) {
        struct ls_worker *worker = &run->workers[i];
        bool starts = !worker->ended && ls_hosts_of(run->hosts, i)->joins;
        if (worker->ended || !(worker->came > 0) || worker->came < run->succeeded_at - LATE || (now < end && !starts))
            continue;
        if (worker->leaves && now < end + LS_RUN_KILL) continue;
        if (!worker->leaves)
            ls_output_say(&run->output, "the others have finished: SIGTERM to worker:%d, which came last", i);
        ls_supervise_signal(run, worker, worker->leaves ? SIGKILL : SIGTERM,
                            worker->leaves ? LS_SIGNAL_GROUP : LS_SIGNAL_LEAVE);
        worker->leaves = true;
    }
}

void ls_remote_follow(struct run *run) {
    if (!run->elastic) return;
    end_latecomers(run);
    enum ls_discovered got = ls_discover_step(&run->elastic->discover);
    if (got == LS_DISCOVERED_FAILURE && !run->elastic->told)
        ls_output_say(&run->output, "%s; the hosts before stay", run->elastic->discover.why);
    if (got != LS_DISCOVERED_NOTHING) run->elastic->told = got == LS_DISCOVERED_FAILURE;
    if (got == LS_DISCOVERED_NOTHING || is_over(run)) return;
    leave_hosts(run);
    fill_room(run);
    check_shortage(run);
}

double ls_remote_next_at(const struct run *run) {
    return run->elastic && (run->alive || !is_over(run)) ? ls_discover_next_at(&run->elastic->discover) : -1;
}
