/* The words of a run's hosts, and its changing list of them. A host that is not on the list of the discovery script any
 * more is left: its workers get SIGTERM, and SIGKILL after LS_RUN_KILL. Absent ranks start on hosts with room. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "launch/run_hosts.h"
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

/* All is lost with the own machine's agent: it is said once. */
static void say_loss(struct run *run, const struct ls_host *host) {
    if (!run->hosts->options->alone)
        return ls_output_say(&run->output, "host %s is lost%s%s", host->named.name, *host->last ? ": " : "",
                             host->last);
    if (!run->alive) return;
    ls_output_say(&run->output, "lockstep agent (pid %d) has ended before the workers, which end with it",
                  (int)host->pid);
    run->signalled = run->announced = true;
}

static void lose_host(struct run *run, const struct ls_host *host) {
    say_loss(run, host);
    for (int i = 0; i < host->count; i++) {
        struct ls_worker *worker =
            host->ranks[i] < 0 || host->ranks[i] >= run->count ? NULL : &run->workers[host->ranks[i]];
        if (!worker || worker->ended) continue;
        worker->with_host = true;
        end_worker(run, worker, 128 + SIGKILL, true);
    }
}

/* A command that cannot be started fails the run. A worker that cannot be started anew has ended as before. */
static void fail_start(struct run *run, struct ls_worker *worker, int status) {
    for (int i = 0; i < 2; i++) ls_stream_close(&run->output, &run->streams[2 * worker->rank + i]);
    if (run->before[worker->rank].ended) {
        *worker = run->before[worker->rank];
        run->alive--, run->restarted--;
        run->ended_at = ls_launch_now();
        return ls_supervise_give_up(run, worker);
    }
    if (!run->unstarted) run->unstarted = status;
    run->signalled = run->announced = true;
    end_worker(run, worker, status, false);
    for (int i = 0; i < run->count; i++) ls_supervise_signal(run, &run->workers[i], SIGKILL, LS_SIGNAL_GROUP);
}

static void take_start(struct run *run, struct ls_worker *worker, int pid) {
    char as[32];
    worker->pid = pid;
    (void)snprintf(as, sizeof(as), " as pid %d", pid);
    if (run->hosts->options->alone && worker->restarts) ls_supervise_tell(run, worker->rank, as);
}

/* Before its start is known, a rank's output is what strangers write into the pipes of the process before. */
static void take_output(struct run *run, const struct ls_run_frame *frame) {
    struct ls_stream *stream = &run->streams[2 * frame->rank + (frame->kind == LS_FRAME_ERRORS)];
    if (!run->workers[frame->rank].pid) return;
    if (frame->size) return ls_stream_add(&run->output, stream, frame->data, frame->size);
    ls_stream_close(&run->output, stream);
}

static void take_event(struct run *run, const struct ls_host_event *event) {
    struct ls_worker *worker = &run->workers[event->frame.rank];
    const char *from = run->hosts->options->alone ? "" : event->host->named.name;
    switch (event->frame.kind) {
    case LS_FRAME_LOST:
        return lose_host(run, event->host);
    case LS_FRAME_REFUSED:
        return ls_output_say(&run->output, "%s%s%s%s", *from ? "host " : "", from, *from ? ": " : "",
                             event->frame.data);
    case LS_FRAME_STARTED:
        return take_start(run, worker, event->number);
    case LS_FRAME_FAILED:
        return fail_start(run, worker, event->number);
    case LS_FRAME_ENDED:
        return end_worker(run, worker, event->number, event->by_signal);
    default:
        return take_output(run, &event->frame);
    }
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
    if (!hosts->launch->moves || !worker->with_host) return false;
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
static void leave_host(struct run *run, struct ls_host *host) {
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
        if (!host->retired && (host->left_at > 0 || !listed)) leave_host(run, host);
    }
}

static bool start_plan(struct run *run, const struct ls_elastic_plan *plan) {
    if (!ls_moves_place(run->hosts, plan->named, plan->ranks, plan->count, run->workers)) return false;
    ls_output_say(&run->output, "host %s: starting %d worker%s there, the first is worker:%d", plan->named->name,
                  plan->count, plan->count > 1 ? "s" : "", plan->ranks[0]);
    for (int i = 0; i < plan->count; i++) {
        int rank = plan->ranks[i], before = run->workers[rank].restarts + (run->hosts->addresses[rank] != NULL);
        if (!ls_supervise_start(run, rank, before)) return false;
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
