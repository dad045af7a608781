/* lockstep agent: the end of lockstep run on one host, also on its own. It takes ports, starts the host's workers,
 * passes their output, ends and signals on, and kills all that it has started when its standard input ends.
 *
 * One thread, one poll. Standard input and output carry frames (run_frame.h); words for people go to standard error,
 * which the remote shell brings to the launcher. Nothing waits for the launcher to read: while it is behind, the
 * workers' pipes are left full. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "launch/run_frame.h"
#include "launch/run_ports.h"
#include "launch/run_worker.h"

#define WORKERS_MOST 2048
#define WORDS_MOST   (1 << 20)
#define BEHIND_LIMIT ((size_t)256 << 10)
#define PIPE_SIZE    32768
#define FIXED_FDS    4

static const char about[] =
    "lockstep agent: start the workers of one host, for lockstep run\n"
    "\n"
    "usage: lockstep agent\n"
    "\n"
    "lockstep run starts it on each host, through ssh but on its own machine, and talks with it over its standard\n"
    "input and output. It ends with all that it has started when its standard input ends.\n";

static const char more[] =
    "environment:\n"
    "  SSH_CONNECTION  the address at which ssh has reached this host, for the other workers\n"
    "\n"
    "examples:\n"
    "  lockstep run -np 2 -H node1,node2 --verbose -- lockstep check\n"
    "\n"
    "exit status: 0 the standard input has ended, and all that was started with it; 2 a bad command line.\n";

struct agent {
    struct ls_launch launch;
    struct ls_guard guard;
    struct ls_ports ports;
    struct ls_worker *workers; /* [launch.here]; NULL before SETUP */
    struct pollfd *polled;
    struct ls_frame_buffer from, to, input;
    int places;        /* the file of LOCKSTEP_ADDRESSES; -1: none */
    int signals, feed; /* feed: the end of rank 0's standard input that is written to; -1 without */
    int alive;
    int failed; /* the exit status where a worker could not be started: none is, then */
    enum ls_frame_flow flows[2];
    int here;       /* on the launcher's machine: signals to all processes there are the launcher's to judge */
    bool over, fed; /* fed: the input has ended */
};

static void refuse(struct agent *agent, const char *why) {
    ls_frame_say(&agent->to, LS_FRAME_REFUSED, 0, "%s", why);
    agent->over = true;
}

/* ---- Frames of the launcher ------------------------------------------------------------------------------------- */

/* New ports, or those that the launcher names: a former agent had them, and has ended. */
static bool take_ports(struct agent *agent, struct ls_run_frame *frame, int count) {
    int again[WORKERS_MOST];
    char why[128];
    if (!frame->size) {
        bool taken = ls_ports_take(count, &agent->ports, why, sizeof(why));
        if (!taken) refuse(agent, why);
        return taken;
    }
    for (int i = 0; i < count; i++) {
        if (ls_frame_number(frame, 1, 65535, &again[i])) continue;
        refuse(agent, "the launcher's request is broken");
        return false;
    }
    bool taken = ls_ports_take_again(again, count, &agent->ports);
    if (!taken) refuse(agent, "the agent before this one has not ended");
    return taken;
}

static void take(struct agent *agent, struct ls_run_frame *frame) {
    const char *version = ls_frame_text(frame), *interface;
    int count;
    char text[512], address[128] = "";
    if (!version || !ls_frame_number(frame, 1, WORKERS_MOST, &count) || !(interface = ls_frame_text(frame)) ||
        agent->ports.count)
        return refuse(agent, "the launcher's request is broken");
    if (strcmp(version, ls_version())) {
        (void)snprintf(text, sizeof(text),
                       "its lockstep is version %.64s, the launcher's is %.64s: install one version", ls_version(),
                       version);
        return refuse(agent, text);
    }
    if (*interface && !ls_interface_address(interface, address, sizeof(address), text, sizeof(text)))
        return refuse(agent, text);
    if (!take_ports(agent, frame, count)) return;
    char machine[256] = "", *payload = NULL;
    size_t size = 0;
    const char *connection = getenv("SSH_CONNECTION");
    (void)gethostname(machine, sizeof(machine) - 1);
    FILE *out = open_memstream(&payload, &size);
    if (!out) return refuse(agent, "no memory");
    (void)fprintf(out, "%s%c%s%c%s%c%s%c%ld%c", ls_version(), 0, machine, 0, address, 0, connection ? connection : "",
                  0, sysconf(_SC_NPROCESSORS_ONLN), 0);
    for (int i = 0; i < count; i++) (void)fprintf(out, "%d%c", agent->ports.at[i].number, 0);
    if (!fclose(out)) ls_frame_add(&agent->to, LS_FRAME_READY, 0, payload, size);
    free(payload);
}

/* Copies the command's words; the frame's buffer does not stay. */
static bool read_words(struct ls_run_frame *frame, struct ls_launch *launch) {
    int count;
    if (!ls_frame_number(frame, 1, WORDS_MOST, &count)) return false;
    launch->argv = calloc((size_t)count + 1, sizeof(char *));
    for (int i = 0; launch->argv && i < count; i++) {
        const char *word = ls_frame_text(frame);
        launch->argv[i] = word ? strdup(word) : NULL;
        if (!launch->argv[i]) return false;
    }
    return launch->argv != NULL;
}

static bool read_variables(struct ls_run_frame *frame) {
    for (const char *text; (text = ls_frame_text(frame));) {
        const char *equals = strchr(text, '=');
        char *name = equals && equals > text ? strndup(text, (size_t)(equals - text)) : NULL;
        bool set = name && !setenv(name, equals + 1, 1);
        free(name);
        if (!set) return false;
    }
    return !frame->size;
}

static bool read_ranks(struct agent *agent, struct ls_run_frame *frame) {
    const struct ls_launch *launch = &agent->launch;
    if (launch->here != agent->ports.count || launch->here > launch->count) return false;
    agent->workers = calloc((size_t)launch->here, sizeof(*agent->workers));
    for (int i = 0; agent->workers && i < launch->here; i++) {
        struct ls_worker *worker = &agent->workers[i];
        *worker = (struct ls_worker){.out = -1, .err = -1, .ended = true};
        if (!ls_frame_number(frame, 0, launch->count - 1, &worker->rank)) return false;
        if (!ls_frame_number(frame, 0, WORKERS_MOST, &worker->local)) return false;
        int server = worker->rank - (launch->count - launch->servers);
        worker->server = server < 0 ? -1 : server;
    }
    return agent->workers != NULL;
}

/* The payload: run id, ranks here, ranks of all, servers of them, elastic, start, moves, restarts, columns, input,
 * workers here, own machine, of each rank its number and its LOCAL_RANK, devices, cluster, folder, count of words and
 * the command's words, variables. Input is 0 for none, 1 for frames, else a descriptor that the agent has inherited. */
static bool read_setup(struct agent *agent, struct ls_run_frame *frame, int *input, const char **folder) {
    struct ls_launch *launch = &agent->launch;
    int restarts, moves;
    const char *id = ls_frame_text(frame), *devices = NULL, *cluster = NULL;
    bool whole = id && strlen(id) < sizeof(launch->id) && ls_frame_number(frame, 1, WORKERS_MOST, &launch->here) &&
                 ls_frame_number(frame, 1, WORKERS_MOST, &launch->count) &&
                 ls_frame_number(frame, 0, WORKERS_MOST, &launch->servers) &&
                 ls_frame_number(frame, 0, WORKERS_MOST, &launch->elastic) &&
                 ls_frame_number(frame, 0, WORKERS_MOST, &launch->start) && ls_frame_number(frame, 0, 1, &moves) &&
                 ls_frame_number(frame, 0, 1, &restarts) && ls_frame_number(frame, 0, 100000, &launch->columns) &&
                 ls_frame_number(frame, 0, INT_MAX, input) &&
                 ls_frame_number(frame, 0, WORKERS_MOST, &launch->local_size) &&
                 ls_frame_number(frame, 0, 1, &agent->here) && read_ranks(agent, frame) &&
                 (devices = ls_frame_text(frame)) && (cluster = ls_frame_text(frame)) &&
                 (*folder = ls_frame_text(frame)) && read_words(frame, launch) && read_variables(frame);
    if (!whole) return false;
    (void)snprintf(launch->id, sizeof(launch->id), "%s", id);
    launch->restarts = restarts;
    launch->moves = moves;
    launch->cluster = strdup(cluster);
    launch->devices = *devices ? strdup(devices) : NULL;
    return launch->cluster && (launch->devices || !*devices);
}

static void enter_folder(const char *folder) {
    const char *home = getenv("HOME");
    if (!chdir(folder)) return;
    (void)fprintf(stderr, "cannot enter %s: %s; the workers start in %s\n", folder, strerror(errno), home ? home : "/");
    if (chdir(home ? home : "/")) (void)!chdir("/");
}

static bool open_input(struct agent *agent, int input) {
    int ends[2];
    if (input > STDERR_FILENO) {
        agent->launch.input = input;
        return !fcntl(input, F_SETFD, FD_CLOEXEC);
    }
    if (pipe2(ends, O_CLOEXEC)) return false;
    agent->launch.input = ends[0];
    agent->feed = ends[1];
    (void)fcntl(agent->feed, F_SETFL, O_NONBLOCK);
    return true;
}

static void set_up(struct agent *agent, struct ls_run_frame *frame) {
    struct ls_launch *launch = &agent->launch;
    int input = 0;
    const char *folder = NULL;
    if (agent->workers || !read_setup(agent, frame, &input, &folder))
        return refuse(agent, "the launcher's description of the workers is broken");
    if (!agent->here) enter_folder(folder);
    size_t here = (size_t)launch->here;
    agent->polled = calloc(FIXED_FDS + 2 * here, sizeof(*agent->polled));
    ls_launch_raise_files(launch);
    if (!agent->polled || (input && !agent->workers[0].rank && !open_input(agent, input)))
        return refuse(agent, "no memory, or no more files");
    if (agent->feed >= 0) ls_frame_add(&agent->to, LS_FRAME_WANT, 0, NULL, 0);
    ls_ports_release(&agent->ports);
    char mark[64];
    (void)snprintf(mark, sizeof(mark), "%s.%d.%d", launch->id, agent->workers[0].rank, (int)getpid());
    if (setenv("_LOCKSTEP_AGENT", mark, 1) || !ls_guard_start(launch->here, "_LOCKSTEP_AGENT", mark, &agent->guard))
        refuse(agent, "no guard, see above");
}

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

/* The pipes of the process before close: strangers may still write into them. */
static void start_worker(struct agent *agent, struct ls_worker *worker, int restarts) {
    close_fd(&worker->out);
    close_fd(&worker->err);
    struct ls_worker started = {
        .rank = worker->rank, .local = worker->local, .server = worker->server, .restarts = restarts};
    int failure = agent->failed ? agent->failed : ls_worker_start(&agent->launch, &agent->guard, &started);
    if (!restarts) agent->failed = failure;
    if (failure) return ls_frame_say(&agent->to, LS_FRAME_FAILED, worker->rank, "%d", failure);
    *worker = started;
    (void)fcntl(worker->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(worker->err, F_SETFL, O_NONBLOCK);
    agent->alive++;
    ls_frame_say(&agent->to, LS_FRAME_STARTED, worker->rank, "%d", (int)worker->pid);
}

/* The input for rank 0; a worker that does not read is no reason to hold more than one frame. */
static void take_input(struct agent *agent, const struct ls_run_frame *frame) {
    if (agent->feed < 0) return;
    if (!frame->size) agent->fed = true;
    ls_frame_append(&agent->input, frame->data, frame->size);
}

/* A file in memory, which ends with this process. The workers find the new one under the path of the one before. */
static void take_places(struct agent *agent, const struct ls_run_frame *frame) {
    char path[64];
    int fd = memfd_create("lockstep-addresses", MFD_CLOEXEC);
    bool written = fd >= 0 && write(fd, frame->data, frame->size) == (ssize_t)frame->size;
    if (agent->places < 0)
        agent->places = fd;
    else if (written)
        written = dup3(fd, agent->places, O_CLOEXEC) >= 0;
    if (fd >= 0 && fd != agent->places) (void)close(fd);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), agent->places);
    if (!written || setenv("LOCKSTEP_ADDRESSES", path, 1)) refuse(agent, "no memory for where the workers are");
}

static struct ls_worker *find_worker(const struct agent *agent, int rank) {
    for (int i = 0; agent->workers && i < agent->launch.here; i++)
        if (agent->workers[i].rank == rank) return &agent->workers[i];
    return NULL;
}

static void obey(struct agent *agent, struct ls_run_frame *frame) {
    int number, group;
    if (frame->kind == LS_FRAME_TAKE) return take(agent, frame);
    if (frame->kind == LS_FRAME_SETUP) return set_up(agent, frame);
    if (frame->kind == LS_FRAME_INPUT) return take_input(agent, frame);
    if (frame->kind == LS_FRAME_PLACES) return take_places(agent, frame);
    if (frame->kind == LS_FRAME_FLOW && frame->rank < 2 && ls_frame_number(frame, 0, LS_FLOW_CLOSED, &number))
        return (void)(agent->flows[frame->rank] = (enum ls_frame_flow)number);
    struct ls_worker *worker = find_worker(agent, frame->rank);
    if (!worker) return refuse(agent, "the launcher speaks of a rank that is not here");
    if (frame->kind == LS_FRAME_START && worker->ended && ls_frame_number(frame, 0, 1000000, &number))
        return start_worker(agent, worker, number);
    if (frame->kind == LS_FRAME_SIGNAL && ls_frame_number(frame, 1, 64, &number) &&
        ls_frame_number(frame, 0, LS_SIGNAL_LEAVE, &group))
        return ls_worker_signal(worker, number, (enum ls_signal_way)group);
    refuse(agent, "the launcher sent what no launcher sends");
}

/* Reads the standard input. Its end is the launcher's. */
static void listen_to(struct agent *agent) {
    struct ls_run_frame frame;
    int got = 0;
    if (!ls_frame_read(&agent->from, STDIN_FILENO)) agent->over = true;
    while (!agent->over && (got = ls_frame_next(&agent->from, &frame)) > 0) obey(agent, &frame);
    if (got < 0) refuse(agent, "what came on the standard input is no frame of lockstep run");
}

/* ---- Workers ---------------------------------------------------------------------------------------------------- */

/* One read of a worker's pipe; false when nothing was there. The pipe is closed when more comes for a reader who has
 * gone. */
static bool pass_on(struct agent *agent, const struct ls_worker *worker, int *fd, int kind) {
    char bytes[PIPE_SIZE];
    if (*fd < 0) return false;
    ssize_t got = read(*fd, bytes, sizeof(bytes));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0 || agent->flows[kind - LS_FRAME_OUTPUT] == LS_FLOW_CLOSED) got = 0;
    ls_frame_add(&agent->to, kind, worker->rank, bytes, (size_t)got);
    if (!got) close_fd(fd);
    return got > 0;
}

static void reap(struct agent *agent) {
    siginfo_t info = {0};
    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        struct ls_worker *worker = NULL;
        for (int i = 0; agent->workers && i < agent->launch.here; i++)
            if (!agent->workers[i].ended && agent->workers[i].pid == info.si_pid) worker = &agent->workers[i];
        if (worker) {
            ls_worker_reap(worker);
            ls_guard_remove(&agent->guard, worker->pid);
            agent->alive--;
            for (int i = 0; i < 32 && pass_on(agent, worker, &worker->out, LS_FRAME_OUTPUT); i++) continue;
            for (int i = 0; i < 32 && pass_on(agent, worker, &worker->err, LS_FRAME_ERRORS); i++) continue;
            ls_frame_say(&agent->to, LS_FRAME_ENDED, worker->rank, "%d\n%d", worker->exit_status, worker->by_signal);
        } else {
            (void)waitpid(info.si_pid, NULL, WNOHANG);
        }
        info.si_pid = 0;
    }
}

/* SIGTERM, SIGINT or SIGHUP to the agent itself is the end of its host, where that is another machine. */
static void read_signals(struct agent *agent) {
    struct signalfd_siginfo info;
    while (read(agent->signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD && !agent->here) agent->over = true;
    reap(agent);
}

static void feed(struct agent *agent) {
    if (agent->feed < 0 || (!agent->input.used && !agent->fed)) return;
    bool taken = ls_frame_write(&agent->input, agent->feed);
    if (agent->input.used && taken) return;
    if (taken && !agent->fed) return ls_frame_add(&agent->to, LS_FRAME_WANT, 0, NULL, 0);
    (void)close(agent->feed);
    agent->feed = -1;
}

/* ---- The loop --------------------------------------------------------------------------------------------------- */

static void turn(struct agent *agent) {
    struct pollfd few[FIXED_FDS], *polled = agent->polled ? agent->polled : few;
    int here = agent->workers ? agent->launch.here : 0;
    bool behind = agent->to.used > BEHIND_LIMIT;
    polled[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = agent->to.used ? STDOUT_FILENO : -1, .events = POLLOUT};
    polled[2] = (struct pollfd){.fd = agent->signals, .events = POLLIN};
    polled[3] = (struct pollfd){.fd = agent->input.used ? agent->feed : -1, .events = POLLOUT};
    for (int i = 0; i < here; i++) {
        int out = behind || agent->flows[0] == LS_FLOW_HELD ? -1 : agent->workers[i].out;
        int err = behind || agent->flows[1] == LS_FLOW_HELD ? -1 : agent->workers[i].err;
        polled[FIXED_FDS + 2 * i] = (struct pollfd){.fd = out, .events = POLLIN};
        polled[FIXED_FDS + 2 * i + 1] = (struct pollfd){.fd = err, .events = POLLIN};
    }
    if (poll(polled, (nfds_t)(FIXED_FDS + 2 * here), -1) < 0) return;
    for (int i = 0; i < here; i++) {
        struct ls_worker *worker = &agent->workers[i];
        if (polled[FIXED_FDS + 2 * i].revents) (void)pass_on(agent, worker, &worker->out, LS_FRAME_OUTPUT);
        if (polled[FIXED_FDS + 2 * i + 1].revents) (void)pass_on(agent, worker, &worker->err, LS_FRAME_ERRORS);
    }
    if (polled[2].revents) read_signals(agent);
    if (polled[0].revents) listen_to(agent);
    feed(agent);
    if (!ls_frame_write(&agent->to, STDOUT_FILENO)) agent->over = true;
}

/* Kills what still runs, and lets the launcher have what it has not read. */
static void clean_up(struct agent *agent, bool alone) {
    for (int i = 0; agent->workers && i < agent->launch.here; i++)
        ls_worker_signal(&agent->workers[i], SIGKILL, LS_SIGNAL_GROUP);
    while (agent->alive) {
        siginfo_t info;
        (void)waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
        reap(agent);
    }
    if (agent->guard.pid) ls_guard_stop(&agent->guard);
    if (alone) ls_launch_sweep();
    (void)ls_frame_write(&agent->to, STDOUT_FILENO);
    for (char **word = agent->launch.argv; word && *word; word++) free(*word);
    free(agent->launch.argv);
    free(agent->launch.cluster);
    free((char *)agent->launch.devices);
    free(agent->workers);
    free(agent->polled);
    ls_frame_buffer_free(&agent->from);
    ls_frame_buffer_free(&agent->to);
    ls_frame_buffer_free(&agent->input);
    if (agent->ports.count) ls_ports_free(&agent->ports);
}

/* No other signal ends it: they may be meant for all processes of a job. */
static int open_signals(void) {
    static const int heard[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigset_t all, set;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) (void)sigaddset(&set, heard[i]);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int agent_serve(void) {
    struct agent agent = {.feed = -1, .places = -1, .launch = {.input = -1}};
    (void)prctl(PR_SET_NAME, "lockstep-agent");
    ls_launch_set_signals(&agent.launch);
    agent.signals = open_signals();
    bool alone = ls_launch_adopt();
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    (void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    ls_frame_append(&agent.to, LS_FRAME_FIRST "\n", strlen(LS_FRAME_FIRST "\n"));
    (void)ls_frame_write(&agent.to, STDOUT_FILENO);
    while (!agent.over) turn(&agent);
    clean_up(&agent, alone);
    return 0;
}

int agent_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep agent", argc, argv, about, more, NULL, 0};
    int code = ls_options_read(&line, NULL);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (isatty(STDIN_FILENO)) return ls_usage_error(&line, "lockstep run starts it; it is not started by hand");
    return agent_serve();
}
