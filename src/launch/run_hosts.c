/* Ranks fill the hosts in their order, as horovodrun and mpirun do. All words of one host come through one stream, so
 * that a worker's last output comes before its end. */
#define _GNU_SOURCE
#include "launch/run_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_SIZE 32768
#define MORE_HOSTS 1024 /* that may come later; who has left makes room */

extern char **environ;

/* ---- Which hosts, and which ranks on them ----------------------------------------------------------------------- */

bool ls_hosts_is_here(const struct ls_hosts_options *options, const ls_tools_slots *host) {
    char own[256] = "";
    (void)gethostname(own, sizeof(own) - 1);
    return (ls_moves_is_loopback(host->name) || !strcmp(host->name, own)) && !options->shell &&
           !strcmp(host->target, host->name);
}

bool ls_hosts_room(struct ls_host *host, int count) {
    size_t n = (size_t)count;
    host->count = count;
    host->ranks = calloc(n, sizeof(*host->ranks));
    host->locals = calloc(n, sizeof(*host->locals));
    host->ports = calloc(n, sizeof(*host->ports));
    host->again.restarts = calloc(n, sizeof(*host->again.restarts));
    for (int i = 0; host->again.restarts && i < count; i++) host->again.restarts[i] = -1;
    return host->ranks && host->locals && host->ports && host->again.restarts;
}

/* Gives the hosts their ranks; hosts without one are left out, but for --check-hosts. */
static bool divide(struct ls_run_hosts *hosts, const ls_tools_slots *named, int count) {
    int ranks = hosts->launch->start ? hosts->launch->start : hosts->launch->count, slots = 0;
    for (int i = 0; i < count; i++) slots += named[i].slots;
    if (ranks > slots) {
        (void)fprintf(stderr,
                      "lockstep run: %d processes need as many slots, and the %d hosts have %d; write host:SLOTS, or "
                      "slots=N in the hostfile\n",
                      ranks, count, slots);
        return false;
    }
    if (hosts->launch->restarts && slots > ranks) hosts->launch->moves = true; /* to slots that are free */
    hosts->room = count + (hosts->launch->moves ? MORE_HOSTS : 0);
    hosts->hosts = calloc((size_t)hosts->room, sizeof(*hosts->hosts));
    hosts->addresses = calloc((size_t)hosts->launch->count + 1, sizeof(*hosts->addresses));
    if (!hosts->hosts || !hosts->addresses) return false;
    for (int i = 0, next = 0; i < count && (next < ranks || hosts->options->check); i++) {
        struct ls_host *host = &hosts->hosts[hosts->count++];
        int own = named[i].slots < ranks - next ? named[i].slots : ranks - next;
        *host = (struct ls_host){.named = named[i], .start = hosts->launch->start, .in = -1, .out = -1, .err = -1};
        host->here = ls_hosts_is_here(hosts->options, &named[i]);
        if (!ls_hosts_room(host, own ? own : 1)) return false;
        for (int j = 0; j < host->count; j++) host->ranks[j] = next + j, host->locals[j] = j;
        next += own;
    }
    return true;
}

/* ---- The description of the workers ----------------------------------------------------------------------------- */

/* Variables that belong to this machine, its user's session, or another launcher. */
static bool stays(const char *variable) {
    static const char own[] = "HOME=*\0USER=*\0LOGNAME=*\0SHELL=*\0PWD=*\0OLDPWD=*\0HOSTNAME=*\0TMPDIR=*\0MAIL=*\0"
                              "SHLVL=*\0_=*\0TERM=*\0DISPLAY=*\0SSH_*\0XDG_*\0DBUS_*\0BASH_FUNC_*\0TF_CONFIG=*\0"
                              "SLURM_*\0OMPI_*\0PMI*\0HOROVOD_*\0_LOCKSTEP_*\0LOCKSTEP_ADDRESSES=*\0SYSTEMD_*\0"
                              "INVOCATION_ID=*\0JOURNAL_STREAM=*\0NOTIFY_SOCKET=*\0*CUDA_VISIBLE_DEVICES=*\0";
    for (const char *at = own; *at; at += strlen(at) + 1)
        if (!fnmatch(at, variable, 0)) return true;
    return false;
}

/* The values of -x are in the environment already. */
static bool is_exported(const struct ls_hosts_options *options, const char *variable) {
    size_t length = strcspn(variable, "=");
    for (const char *const *at = options->exports; at && *at; at++)
        if (strcspn(*at, "=") == length && !strncmp(*at, variable, length)) return true;
    return false;
}

static void warn_of_exports(const struct ls_hosts_options *options) {
    for (const char *const *at = options->exports; at && *at; at++)
        if (!strchr(*at, '=') && !getenv(*at))
            (void)fprintf(stderr, "lockstep run: warning: -x %s: there is no such variable\n", *at);
}

static bool describe(struct ls_run_hosts *hosts, struct ls_host *host) {
    const struct ls_launch *launch = hosts->launch;
    char *payload = NULL;
    size_t size = 0;
    int words = 0;
    FILE *out = open_memstream(&payload, &size);
    if (!out) return false;
    int workers = 0;
    for (int i = 0; i < host->count; i++) workers += host->ranks[i] < launch->count - launch->servers;
    int input = host == hosts->hosts ? (host->here ? launch->input : hosts->input) : 0;
    const int numbers[] = {host->count, launch->count, launch->servers,  launch->elastic,
                           host->start, launch->moves, launch->restarts, launch->columns,
                           input,       workers,       host->here};
    (void)fprintf(out, "%s%c", launch->id, 0);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) (void)fprintf(out, "%d%c", numbers[i], 0);
    for (int i = 0; i < host->count; i++) (void)fprintf(out, "%d%c%d%c", host->ranks[i], 0, host->locals[i], 0);
    (void)fprintf(out, "%s%c%s%c%s%c", launch->devices ? launch->devices : "", 0, launch->cluster, 0, hosts->folder, 0);
    while (launch->argv[words]) words++;
    (void)fprintf(out, "%d%c", words, 0);
    for (int i = 0; i < words; i++) (void)fprintf(out, "%s%c", launch->argv[i], 0);
    for (char **variable = environ; *variable && !host->here; variable++)
        if (strchr(*variable, '=') > *variable && (!stays(*variable) || is_exported(hosts->options, *variable)))
            (void)fprintf(out, "%s%c", *variable, 0);
    bool whole = !fclose(out) && size <= LS_FRAME_LIMIT;
    if (whole) ls_frame_add(&host->to, LS_FRAME_SETUP, 0, payload, size);
    free(payload);
    return whole;
}

static void print_ranks(const struct ls_run_hosts *hosts) {
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        (void)fprintf(stderr, "lockstep run: host %s: %s at %s, %d processors, answered in %.2f s, ranks %d to %d\n",
                      host->named.name, host->machine, host->address, host->processors, host->answered, host->ranks[0],
                      host->ranks[host->count - 1]);
    }
    (void)fprintf(stderr, "lockstep run: cluster %s\n", hosts->launch->cluster);
}

static void print_table(const struct ls_run_hosts *hosts) {
    (void)printf("%-24s %-24s %-24s %5s %10s %8s\n", "host", "machine", "address", "slots", "processors", "seconds");
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        (void)printf("%-24s %-24s %-24s %5d %10d %8.2f\n", host->named.target, host->machine, host->address,
                     host->named.slots, host->processors, host->answered);
    }
}

/* A host here reads the launcher's own standard input, through a descriptor that only its agent inherits. */
static void lend_input(struct ls_run_hosts *hosts) {
    struct ls_launch *launch = hosts->launch;
    hosts->input = launch->input >= 0;
    launch->input = hosts->input ? fcntl(launch->input, F_DUPFD_CLOEXEC, 3) : 0;
}

int ls_hosts_open(const struct ls_hosts_options *options, struct ls_launch *launch, struct ls_run_hosts *hosts) {
    *hosts = (struct ls_run_hosts){.options = options, .launch = launch, .guard.pipe = -1};
    if (!options->named && ls_tools_hosts(options->list, options->file, &hosts->named, &hosts->named_count)) {
        (void)fprintf(stderr, "lockstep run: %s\n", ls_error());
        return 2;
    }
    bool named = options->named != NULL;
    if (!divide(hosts, named ? options->named : hosts->named, named ? options->named_count : hosts->named_count))
        return 2;
    lend_input(hosts);
    if (!getcwd(hosts->folder, sizeof(hosts->folder))) (void)strcpy(hosts->folder, "/");
    bool guarded = options->alone || ls_guard_start(hosts->room, "LOCKSTEP_RUN_ID", launch->id, &hosts->guard);
    if (!guarded || !ls_reach(hosts)) return 1;
    ls_moves_address(hosts);
    if (options->check) {
        print_table(hosts);
        return 0;
    }
    if (!options->alone) warn_of_exports(options);
    bool described = ls_moves_cluster(hosts);
    if (described && launch->moves) ls_moves_tell(hosts);
    for (int i = 0; described && i < hosts->count; i++) described = describe(hosts, &hosts->hosts[i]);
    if (!described) (void)fprintf(stderr, "lockstep run: no memory, or an environment of more than 8 MB\n");
    if (described && options->verbose) print_ranks(hosts);
    return !described;
}

/* ---- Telling ---------------------------------------------------------------------------------------------------- */

static int place_of(const struct ls_host *host, int rank) {
    for (int i = 0; i < host->count; i++)
        if (host->ranks[i] == rank) return i;
    return -1;
}

struct ls_host *ls_hosts_of(const struct ls_run_hosts *hosts, int rank) {
    for (int i = 0; i < hosts->count; i++)
        if (place_of(&hosts->hosts[i], rank) >= 0) return &hosts->hosts[i];
    return NULL;
}

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

/* Ends the remote shell, and forgets what it has not said. */
static void end_shell(struct ls_run_hosts *hosts, struct ls_host *host) {
    if (host->pid > 0) {
        (void)kill(-host->pid, SIGKILL);
        (void)waitpid(host->pid, NULL, 0);
        ls_guard_remove(&hosts->guard, host->pid);
    }
    host->pid = -1;
    close_fd(&host->in);
    close_fd(&host->out);
    close_fd(&host->err);
    ls_frame_buffer_free(&host->to);
    ls_frame_buffer_free(&host->from);
    ls_frame_buffer_free(&host->said);
    host->greeted = host->ready = host->wants = false;
    host->flows[0] = host->flows[1] = LS_FLOW_ON;
}

bool ls_hosts_start(struct ls_run_hosts *hosts, int rank, int restarts) {
    struct ls_host *host = ls_hosts_of(hosts, rank);
    if (!host || host->again.gone) return false;
    if (host->out < 0 || host->again.end > 0) {
        host->again.restarts[place_of(host, rank)] = restarts;
        return true;
    }
    ls_frame_say(&host->to, LS_FRAME_START, rank, "%d", restarts);
    return true;
}

void ls_hosts_signal(struct ls_run_hosts *hosts, int rank, int signal, enum ls_signal_way way) {
    struct ls_host *host = ls_hosts_of(hosts, rank);
    bool ends = signal != SIGSTOP && signal != SIGCONT && signal != SIGUSR1 && signal != SIGUSR2;
    if (host && host->again.end > 0 && ends) host->again.end = ls_launch_now(); /* nothing is started any more */
    if (!host || host->in < 0 || host->again.end > 0) return;
    ls_frame_say(&host->to, LS_FRAME_SIGNAL, rank, "%d\n%d", signal, way);
    (void)ls_frame_write(&host->to, host->in);
}

void ls_hosts_abandon(struct ls_run_hosts *hosts) {
    for (int i = 0; i < hosts->count; i++)
        if (hosts->hosts[i].out >= 0) (void)kill(-hosts->hosts[i].pid, SIGKILL);
}

/* ---- Moving bytes ----------------------------------------------------------------------------------------------- */

static void tell_flow(struct ls_host *host, int stream, enum ls_frame_flow flow) {
    if (!host->ready || host->in < 0 || host->flows[stream] == flow) return;
    host->flows[stream] = flow;
    ls_frame_say(&host->to, LS_FRAME_FLOW, stream, "%d", flow);
}

void ls_hosts_fill(struct ls_run_hosts *hosts, struct pollfd *polled, const enum ls_frame_flow *flows) {
    bool wanted = hosts->input && hosts->hosts[0].wants;
    polled[0] = (struct pollfd){.fd = wanted ? STDIN_FILENO : -1, .events = POLLIN};
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        for (int j = 0; flows && j < 2; j++) tell_flow(host, j, flows[j]);
        polled[3 * i + 1] = (struct pollfd){.fd = host->to.used ? host->in : -1, .events = POLLOUT};
        polled[3 * i + 2] = (struct pollfd){.fd = *host->why ? -1 : host->out, .events = POLLIN};
        polled[3 * i + 3] = (struct pollfd){.fd = host->err, .events = POLLIN};
    }
}

static void read_input(struct ls_run_hosts *hosts) {
    char bytes[INPUT_SIZE];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    hosts->hosts[0].wants = false;
    hosts->input = got > 0;
    ls_frame_add(&hosts->hosts[0].to, LS_FRAME_INPUT, 0, bytes, got > 0 ? (size_t)got : 0);
}

static void try_again(struct ls_run_hosts *hosts, struct ls_host *host) {
    if (!(host->again.end > 0)) return;
    if (ls_launch_now() >= host->again.end)
        close_fd(&host->out);
    else if (host->pid < 0 && ls_launch_now() >= host->again.at)
        ls_reach_start(hosts, host);
}

double ls_hosts_next_at(const struct ls_run_hosts *hosts) {
    double at = -1;
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        double own = host->pid < 0 && host->again.at < host->again.end ? host->again.at : host->again.end;
        if (host->again.end > 0 && (at < 0 || own < at)) at = own;
    }
    return at;
}

void ls_hosts_move(struct ls_run_hosts *hosts, const struct pollfd *polled) {
    if (polled[0].revents) read_input(hosts);
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        try_again(hosts, host);
        if (polled[3 * i + 2].revents && !ls_frame_read(&host->from, host->out)) close_fd(&host->out);
        if (polled[3 * i + 3].revents && !ls_frame_read(&host->said, host->err)) close_fd(&host->err);
        if (host->in >= 0 && !ls_frame_write(&host->to, host->in)) close_fd(&host->in);
    }
}

/* ---- Hearing ---------------------------------------------------------------------------------------------------- */

/* False if a frame is not one that an agent sends. */
static bool understand(struct ls_host *host, struct ls_host_event *event) {
    struct ls_run_frame *frame = &event->frame, numbers = *frame;
    int kind = frame->kind, killed = 0;
    if (place_of(host, frame->rank) < 0) return false;
    if (kind == LS_FRAME_OUTPUT || kind == LS_FRAME_ERRORS) return true;
    if (kind != LS_FRAME_STARTED && kind != LS_FRAME_FAILED && kind != LS_FRAME_ENDED) return false;
    bool whole = ls_frame_number(&numbers, 0, INT32_MAX, &event->number);
    if (whole && kind == LS_FRAME_ENDED) whole = ls_frame_number(&numbers, 0, 1, &killed);
    event->by_signal = killed;
    return whole;
}

static bool say(struct ls_host *host, struct ls_host_event *event, const char *text) {
    *event = (struct ls_host_event){.host = host, .frame = {.kind = LS_FRAME_REFUSED, .data = text}};
    return text != NULL;
}

/* A host that was lost has answered: its agent gets the ranks that wait for it. */
static bool come_back(struct ls_run_hosts *hosts, struct ls_host *host, struct ls_host_event *event) {
    host->again.end = 0;
    ls_moves_address(hosts);
    if (hosts->launch->moves) ls_moves_tell(hosts);
    (void)describe(hosts, host);
    for (int i = 0; i < host->count; i++) {
        if (host->again.restarts[i] >= 0)
            ls_frame_say(&host->to, LS_FRAME_START, host->ranks[i], "%d", host->again.restarts[i]);
        host->again.restarts[i] = -1;
    }
    const char *text = host->joins ? "it has joined" : "it is back";
    host->joins = false;
    return say(host, event, text);
}

/* Begins to try a lost host again, where a rank waits for it. Its loss has been told: nobody else is there. */
static void begin_again(struct ls_run_hosts *hosts, struct ls_host *host) {
    int waiting = 0;
    for (int i = 0; i < host->count; i++) waiting += host->again.restarts[i] >= 0;
    if (!waiting || host->again.gone) return;
    end_shell(hosts, host);
    host->told = false;
    host->again.at = ls_launch_now();
    host->again.end = host->again.at + hosts->options->limit;
}

/* One that is tried again: true with the event of its return. */
static bool hear_again(struct ls_run_hosts *hosts, struct ls_host *host, struct ls_host_event *event) {
    while (ls_reach_line(host)) continue; /* the last one is kept */
    *host->why = 0;
    if (host->out >= 0) ls_reach_answer(hosts, host);
    if (host->ready) return come_back(hosts, host, event);
    if (*host->why) (void)snprintf(host->last, sizeof(host->last), "%s", host->why);
    bool over = host->pid >= 0 && (host->out < 0 || *host->why);
    if (over) host->again.at = ls_launch_now() + LS_RUN_RETRY;
    if (over || ls_launch_now() >= host->again.end) end_shell(hosts, host);
    return false;
}

/* Its workers have ended: what it still says is for nobody. */
static bool hear_the_last(struct ls_run_hosts *hosts, struct ls_host *host) {
    ls_frame_drop(&host->from, host->from.used);
    ls_frame_drop(&host->said, host->said.used);
    if (host->out < 0 && host->pid > 0) end_shell(hosts, host);
    return false;
}

static bool hear(struct ls_run_hosts *hosts, struct ls_host *host, struct ls_host_event *event) {
    if (host->retired) return hear_the_last(hosts, host);
    if (host->told && !(host->again.end > 0)) begin_again(hosts, host);
    if (host->again.end > 0) {
        if (hear_again(hosts, host, event)) return true;
        if (ls_launch_now() < host->again.end) return false;
        host->again.end = 0;
        host->again.gone = true;
    }
    if (say(host, event, ls_reach_line(host))) return true;
    int got;
    while ((got = ls_frame_next(&host->from, &event->frame)) > 0) {
        struct ls_run_frame text = event->frame;
        if (text.kind == LS_FRAME_REFUSED) return say(host, event, ls_frame_text(&text));
        if (place_of(host, LS_HOST_MOVED(text.rank)) >= 0) continue; /* of whom a child still speaks */
        if (text.kind == LS_FRAME_WANT)
            host->wants = true;
        else if (understand(host, event))
            return true;
        else
            break;
    }
    if (got) close_fd(&host->out); /* its agent is none of ours */
    if (host->out >= 0 || host->told) return false;
    *event = (struct ls_host_event){.host = host, .frame = {.kind = LS_FRAME_LOST}};
    close_fd(&host->in);
    return host->told = true;
}

void ls_hosts_retire(struct ls_host *host) {
    host->retired = true;
    host->again.end = 0;
    for (int i = 0; i < host->count; i++) host->ranks[i] = -1;
    close_fd(&host->in);
}

bool ls_hosts_next(struct ls_run_hosts *hosts, struct ls_host_event *event) {
    for (int i = 0; i < hosts->count; i++)
        if (hear(hosts, &hosts->hosts[i], event)) return true;
    return false;
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

void ls_hosts_empty(struct ls_host *host) {
    free(host->ranks);
    free(host->locals);
    free(host->ports);
    free(host->again.restarts);
    *host = (struct ls_host){.pid = -1, .in = -1, .out = -1, .err = -1};
}

/* Waits for the end of an agent, which has LS_RUN_LEAVE in all for what is left of its workers' families. */
static void drain_host(struct ls_host *host, double end) {
    struct pollfd out = {.fd = *host->why ? -1 : host->out, .events = POLLIN};
    for (double left; host->ready && host->out >= 0 && (left = end - ls_launch_now()) > 0;)
        if (poll(&out, 1, (int)(left * 1000) + 1) > 0 && !ls_frame_read(&host->from, host->out)) close_fd(&host->out);
}

void ls_hosts_close(struct ls_run_hosts *hosts) {
    double end = ls_launch_now() + LS_RUN_LEAVE;
    for (int i = 0; i < hosts->count; i++) close_fd(&hosts->hosts[i].in);
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        drain_host(host, end);
        end_shell(hosts, host);
        ls_hosts_empty(host);
    }
    for (int i = 0; hosts->addresses && i < hosts->launch->count; i++) free(hosts->addresses[i]);
    free(hosts->addresses);
    ls_memory_free(hosts->named);
    if (hosts->guard.pid) ls_guard_stop(&hosts->guard);
    free(hosts->hosts);
    *hosts = (struct ls_run_hosts){0};
}
