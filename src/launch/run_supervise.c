/* One thread, one poll: the signals through a signalfd, the agents' pipes, and the two sinks.
 *
 * After the first failure the others have a grace to end by themselves (they notice the loss and end with status 138),
 * then get SIGTERM, and SIGKILL after LS_RUN_KILL more. So do parameter servers after the last worker's success. The
 * worker that failed first gives the exit status; but 138 says that another one was lost, so that a worker which fails
 * otherwise within LS_RUN_CAUSE, before anybody was signalled, is named in its place. Workers that all end with 143 or
 * 130 by themselves have stopped in order, as after SIGTERM or SIGINT to one of them, and nothing is said. After SIGINT
 * or SIGTERM to the launcher, which it passes on, the workers have some time to save what they have, and get SIGKILL
 * then.
 *
 * With restarts a worker that a signal killed, or that ended with 138, is started anew in its place instead, with the
 * same TF_CONFIG and prefix, until as many restarts are used up, a worker has succeeded, or one has failed otherwise;
 * or, where that is wanted, a worker that has failed in any way.
 * With elastic such a worker is done without as long as enough are left. */
#define _GNU_SOURCE
#include "launch/run_supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/run_private.h"

#define PEER_LOST   138 /* see ls_exit, for this and the next */
#define STOPPED     143
#define INTERRUPTED 130

/* ---- Failures --------------------------------------------------------------------------------------------------- */

void ls_supervise_blame(struct run *run, struct ls_worker *worker) {
    if (!worker->exit_status) return;
    bool consequence = run->culprit && run->culprit->exit_status == PEER_LOST && worker->exit_status != PEER_LOST &&
                       !run->signalled && ls_launch_now() < run->failed_at + LS_RUN_CAUSE;
    if (!run->culprit) run->failed_at = ls_launch_now();
    if (!run->culprit || consequence) run->culprit = worker;
}

/* True if the worker has stopped by itself, as fit lets all workers do. */
static bool has_stopped(const struct ls_worker *worker) {
    bool stopped = worker->exit_status == STOPPED || worker->exit_status == INTERRUPTED;
    return worker->ended && stopped && !worker->by_signal;
}

static bool all_have_stopped(const struct run *run) {
    int count = 0;
    for (int i = 0; i < run->count; i++) count += has_stopped(&run->workers[i]) || run->workers[i].absent;
    return count == run->count;
}

static void announce(struct run *run) {
    if (run->announced || !run->culprit) return;
    bool waiting = run->culprit->exit_status == PEER_LOST || has_stopped(run->culprit);
    bool settled = !waiting || ls_launch_now() >= run->failed_at + LS_RUN_CAUSE;
    if ((!settled && run->alive) || all_have_stopped(run)) return;
    char who[128];
    ls_worker_describe(run->culprit, who, sizeof(who));
    run->announced = true;
    if (run->alive && !run->signalled)
        ls_output_say(&run->output, "%s; the others have %g s to end by themselves", who, run->how->grace);
    else
        ls_output_say(&run->output, "%s", who);
}

void ls_supervise_signal(const struct run *run, const struct ls_worker *worker, int signal, enum ls_signal_way way) {
    if (!worker->ended) ls_hosts_signal(run->hosts, worker->rank, signal, way);
}

/* Signals every worker that still runs, and prints their ranks. */
static void end_others(struct run *run, int signal, const char *name) {
    char list[512] = "";
    size_t used = 0;
    for (int i = 0; i < run->count; i++) {
        if (run->workers[i].ended) continue;
        ls_supervise_signal(run, &run->workers[i], signal, LS_SIGNAL_GROUP);
        char own[24];
        ls_worker_name(&run->workers[i], own, sizeof(own));
        if (used < sizeof(list) - 32)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", own);
    }
    ls_output_say(&run->output, "%s to %s%s", name, list, used < sizeof(list) - 32 ? "" : ", ...");
}

/* True while those that still run have a grace to end by themselves. */
static bool has_grace(const struct run *run) {
    return run->culprit || run->over;
}

/* The time at which workers that still run get SIGKILL; 0 for never. */
static double kill_at(const struct run *run) {
    if (run->killed) return 0;
    if (run->asked_at > 0) return run->asked_at + run->how->stop;
    return has_grace(run) ? run->failed_at + run->how->grace + LS_RUN_KILL : 0;
}

static void escalate(struct run *run) {
    double at = kill_at(run);
    if (!run->alive) return;
    if (run->killed && ls_launch_now() >= run->killed_at + LS_RUN_KILL) ls_hosts_abandon(run->hosts);
    if (at > 0 && ls_launch_now() >= at) {
        run->killed = run->signalled = true;
        run->killed_at = ls_launch_now();
        end_others(run, SIGKILL, "SIGKILL");
    } else if (has_grace(run) && !run->signalled && ls_launch_now() >= run->failed_at + run->how->grace) {
        run->signalled = true;
        end_others(run, SIGTERM, "SIGTERM");
    }
}

/* ---- Ends of processes ------------------------------------------------------------------------------------------ */

/* DIR/rank.07/stdout, as horovodrun names them; a worker that is started anew adds to them. */
static void open_copy(struct run *run, struct ls_stream *stream, const struct ls_worker *worker, const char *name) {
    char folder[4096], path[4200];
    int digits = snprintf(NULL, 0, "%d", run->how->launch->count - 1);
    (void)snprintf(folder, sizeof(folder), "%s/rank.%0*d", run->how->folder, digits, worker->rank);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)mkdir(run->how->folder, 0777);
    (void)mkdir(folder, 0777);
    stream->copy = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (worker->restarts ? O_APPEND : O_TRUNC), 0666);
    if (stream->copy < 0) ls_output_say(&run->output, "--output-filename: cannot write %s: %s", path, strerror(errno));
}

bool ls_supervise_start(struct run *run, int rank, int restarts) {
    const struct ls_launch *launch = run->how->launch;
    int server = rank - (launch->count - launch->servers);
    struct ls_worker *started = &run->workers[rank];
    char prefix[16] = "";
    if (!ls_hosts_start(run->hosts, rank, restarts)) return false;
    *started = (struct ls_worker){.rank = rank, .server = server < 0 ? -1 : server, .restarts = restarts};
    if (!run->hosts->options->alone) started->host = ls_hosts_of(run->hosts, rank)->named.name;
    if (run->how->prefix)
        (void)snprintf(prefix, sizeof(prefix), server < 0 ? "[%d] " : "[ps:%d] ", server < 0 ? rank : server);
    for (int i = 2 * rank; i < 2 * rank + 2; i++) ls_stream_close(&run->output, &run->streams[i]);
    ls_stream_init(&run->streams[2 * rank], &run->output.out, prefix);
    ls_stream_init(&run->streams[2 * rank + 1], &run->output.err, prefix);
    if (run->how->folder) open_copy(run, &run->streams[2 * rank], started, "stdout");
    if (run->how->folder) open_copy(run, &run->streams[2 * rank + 1], started, "stderr");
    run->alive++;
    return true;
}

bool ls_supervise_was_lost(const struct ls_worker *worker) {
    return worker->by_signal || worker->exit_status == PEER_LOST;
}

/* True if the others go on without a worker that has ended. */
static bool spare(struct run *run, struct ls_worker *worker) {
    if (run->over) return true;
    if (run->elastic) return ls_remote_spare(run, worker);
    const struct ls_launch *launch = run->how->launch;
    int least = launch->elastic, left = launch->count - launch->servers - run->gone - 1;
    char who[128];
    if (worker->server >= 0 && ls_supervise_was_lost(worker) && !run->culprit && !run->signalled) {
        ls_worker_describe(worker, who, sizeof(who));
        ls_output_say(&run->output, "%s; the workers go on without it", who);
        return true;
    }
    if (!least || left < least || !ls_supervise_was_lost(worker) || run->culprit || run->signalled) return false;
    ls_worker_describe(worker, who, sizeof(who));
    run->gone++;
    ls_output_say(&run->output, "%s; %d of %d workers are left, %d must be", who, left, launch->count - launch->servers,
                  least);
    return true;
}

void ls_supervise_tell(struct run *run, int rank, const char *how) {
    char who[128];
    ls_worker_describe(&run->before[rank], who, sizeof(who));
    ls_output_say(&run->output, "%s; started anew%s (restart %d of %d)", who, how, ++run->told, run->how->restarts);
}

/* Starts anew a worker that has ended; false where that is not wanted, or impossible. */
static bool restart(struct run *run, const struct ls_worker *worker) {
    char where[300] = "";
    int rank = worker->rank;
    bool wanted = ls_supervise_was_lost(worker) || (run->how->any && worker->exit_status);
    if (!wanted || run->restarted == run->how->restarts || run->culprit || run->signalled || run->succeeded)
        return false;
    run->before[rank] = *worker;
    bool moved = ls_remote_move(run, worker), back = worker->with_host && !moved;
    if (!ls_supervise_start(run, rank, worker->restarts + 1)) return false;
    run->restarted++;
    if (moved) (void)snprintf(where, sizeof(where), " on %s", run->workers[rank].host);
    if (!run->hosts->options->alone) ls_supervise_tell(run, rank, back ? " when its host is back" : where);
    return true;
}

/* Parameter servers end with the last worker. One that does not, for it is frozen, changes nothing of the outcome. */
static void look_for_workers(struct run *run) {
    if (run->culprit || run->over || !run->succeeded) return;
    for (int i = 0; i < run->count; i++)
        if (run->workers[i].server < 0 && !run->workers[i].ended) return;
    run->over = true;
    run->failed_at = ls_launch_now();
}

void ls_supervise_give_up(struct run *run, struct ls_worker *worker) {
    if (!spare(run, worker)) ls_supervise_blame(run, worker);
    look_for_workers(run);
}

void ls_supervise_end(struct run *run, struct ls_worker *worker) {
    run->alive--;
    run->ended_at = ls_launch_now();
    if (!worker->exit_status && worker->server < 0 && !worker->leaves) {
        if (!run->succeeded) run->succeeded_at = run->ended_at;
        run->succeeded = true;
    }
    if (!restart(run, worker)) ls_supervise_give_up(run, worker);
}

/* ---- Signals ---------------------------------------------------------------------------------------------------- */

static void signal_all(struct run *run, int signal, enum ls_signal_way way) {
    for (int i = 0; i < run->count; i++) ls_supervise_signal(run, &run->workers[i], signal, way);
}

static bool take_continue(void) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCONT);
    return sigtimedwait(&set, NULL, &(struct timespec){0}) == SIGCONT;
}

/* A SIGCONT that comes while the workers are being stopped would be lost, and this process stop for ever. */
static void suspend(struct run *run) {
    (void)take_continue(); /* of the last time */
    signal_all(run, SIGSTOP, LS_SIGNAL_GROUP);
    if (!take_continue()) (void)raise(SIGSTOP);
    signal_all(run, SIGCONT, LS_SIGNAL_GROUP);
}

/* A terminal sends to whole groups, so the signals that it sends go to the workers' whole groups. */
static void pass_on(struct run *run, int signal) {
    bool single = signal == SIGUSR1 || signal == SIGUSR2;
    signal_all(run, signal, single ? LS_SIGNAL_ONE : LS_SIGNAL_GROUP);
    if (!single) run->signalled = true;
    if ((signal == SIGINT || signal == SIGTERM) && !(run->asked_at > 0)) run->asked_at = ls_launch_now();
}

static void read_signals(struct run *run) {
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTSTP)
            suspend(run);
        else if (info.ssi_signo != SIGCHLD)
            pass_on(run, (int)info.ssi_signo);
    }
}

/* ---- The loop --------------------------------------------------------------------------------------------------- */

static int open_streams(const struct run *run) {
    int open = 0;
    for (int i = 0; i < 2 * run->count; i++) open += run->streams[i].open;
    return open;
}

/* The milliseconds until the next event that depends on time only; -1 if there is none. */
static int next_timeout(const struct run *run) {
    double at = -1;
    if (!run->alive && !ls_remote_awaits(run))
        at = run->ended_at + LS_RUN_DRAIN;
    else if (run->culprit && !run->announced)
        at = run->failed_at + LS_RUN_CAUSE;
    else if (has_grace(run) && !run->signalled)
        at = run->failed_at + run->how->grace;
    else if (kill_at(run) > 0)
        at = kill_at(run);
    else if (run->killed)
        at = run->killed_at + LS_RUN_KILL;
    double other = ls_hosts_next_at(run->hosts);
    if (other >= 0 && (at < 0 || other < at)) at = other;
    other = ls_remote_next_at(run);
    if (other >= 0 && (at < 0 || other < at)) at = other;
    if (at < 0) return -1;
    double left = (at - ls_launch_now()) * 1000;
    return left < 0 ? 0 : (int)left + 1;
}

static nfds_t count_polled(const struct run *run) {
    return 3 + LS_HOSTS_POLLS((nfds_t)run->hosts->count) + (run->elastic != NULL);
}

/* Nobody reads on for a sink that is behind. A worker that writes to one whose reader has gone gets SIGPIPE. */
static enum ls_frame_flow flow_of(const struct run *run, const struct ls_sink *sink) {
    if (sink->closed && !run->how->folder) return LS_FLOW_CLOSED;
    return ls_sink_behind(sink) ? LS_FLOW_HELD : LS_FLOW_ON;
}

static void fill_polled(struct run *run) {
    struct ls_output *output = &run->output;
    enum ls_frame_flow flows[] = {flow_of(run, &output->out), flow_of(run, &output->err)};
    run->polled[0] = (struct pollfd){.fd = run->signals, .events = POLLIN};
    run->polled[1] = (struct pollfd){.fd = output->out.waits.used ? output->out.fd : -1, .events = POLLOUT};
    run->polled[2] = (struct pollfd){.fd = output->err.waits.used ? output->err.fd : -1, .events = POLLOUT};
    ls_hosts_fill(run->hosts, run->polled + 3, flows);
    if (run->elastic) ls_discover_fill(&run->elastic->discover, run->polled + count_polled(run) - 1);
}

static void step(struct run *run) {
    fill_polled(run);
    if (poll(run->polled, count_polled(run), next_timeout(run)) > 0 && run->polled[0].revents) read_signals(run);
    ls_remote_hear(run, run->polled + 3);
    ls_remote_follow(run);
    announce(run);
    escalate(run);
    ls_output_flush(&run->output);
}

/* Writes, after the last worker's end, the bytes left in its pipes, then the bytes that the sinks have not taken. A
 * signal now ends the wait for a reader that does not read. */
static void finish_output(struct run *run) {
    while (open_streams(run) && ls_launch_now() < run->ended_at + LS_RUN_DRAIN) step(run);
    for (int i = 0; i < 2 * run->count; i++) ls_stream_close(&run->output, &run->streams[i]);
    ls_output_flush(&run->output);
    run->signalled = false;
    while ((run->output.out.waits.used || run->output.err.waits.used) && !run->signalled) {
        fill_polled(run);
        (void)poll(run->polled, 3, -1);
        if (run->polled[0].revents) read_signals(run);
        ls_output_flush(&run->output);
    }
}

/* No host has been lost yet, so each start is asked for. */
static void start_workers(struct run *run) {
    const struct ls_launch *launch = run->how->launch;
    int first = launch->start ? launch->start : launch->count;
    run->count = launch->count;
    for (int i = 0; i < first; i++) (void)ls_supervise_start(run, i, 0);
    for (int i = first; i < run->count; i++)
        run->workers[i] = (struct ls_worker){.rank = i, .server = -1, .ended = true, .absent = true};
}

static int watch_run(struct run *run) {
    start_workers(run);
    while (run->alive || ls_remote_awaits(run)) step(run);
    finish_output(run);
    if (run->unstarted) return run->unstarted;
    if (run->elastic && !run->culprit && !run->succeeded) return STOPPED; /* a signal, while nobody ran */
    return run->culprit ? run->culprit->exit_status : 0;
}

static bool allocate(struct run *run, size_t count) {
    run->workers = calloc(count, sizeof(*run->workers));
    run->before = calloc(count, sizeof(*run->before));
    run->streams = calloc(2 * count, sizeof(*run->streams));
    run->polled = calloc(3 + LS_HOSTS_POLLS((size_t)run->hosts->room) + 1, sizeof(*run->polled));
    return run->workers && run->before && run->streams && run->polled;
}

static void release(struct run *run) {
    ls_output_free(&run->output);
    free(run->workers);
    free(run->before);
    free(run->streams);
    free(run->polled);
    if (run->signals >= 0) (void)close(run->signals);
}

/* Signals that were ignored when the launcher started (nohup) stay so, for it and for the workers. */
static int open_signals(void) {
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        struct sigaction action;
        if (!sigaction(passed[i], NULL, &action) && action.sa_handler != SIG_IGN) (void)sigaddset(&set, passed[i]);
    }
    sigset_t blocked = set;
    (void)sigaddset(&blocked, SIGCONT); /* it continues a process all the same, and stays pending then */
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int ls_supervise(const struct ls_supervision *supervision) {
    struct run run = {
        .how = supervision, .hosts = supervision->hosts, .elastic = supervision->elastic, .signals = open_signals()};
    int status = 1;
    ls_output_init(&run.output);
    run.output.times = supervision->times;
    if (run.signals < 0 || !allocate(&run, (size_t)supervision->launch->count))
        (void)fprintf(stderr, "lockstep run: cannot start: %s\n", strerror(errno));
    else
        status = watch_run(&run);
    release(&run);
    return status;
}
