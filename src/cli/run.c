/* lockstep run: N workers of one program on this machine, each with its own TF_CONFIG, as horovodrun -np N and mpirun
 * -np N start them. This file reads the command line; ports, workers, output and supervision have files of their own.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_ports.h"
#include "cli/run_supervise.h"

#define MAX_WORKERS  1024
#define MAX_DEVICES  64
#define MAX_RESTARTS 1000000

static const char about[] =
    "lockstep run: start N workers of a program on this machine\n"
    "\n"
    "usage: lockstep run -np N [OPTIONS] [--] COMMAND [ARGUMENTS...]\n"
    "\n"
    "Chooses N free ports of 127.0.0.1 and starts COMMAND N times, each with a TF_CONFIG that lists all N as\n"
    "workers and names its own index. Every line of output gets its rank before it ([0], [1], ...); lines are\n"
    "never mixed, and standard output and standard error stay apart. On a terminal the progress bar of rank 0's\n"
    "lockstep train is redrawn in place; other programs' bars survive where they end their lines with a carriage\n"
    "return and do not ask for a terminal. The command\n"
    "'lockstep' means this very program. Rank 0 reads the standard input unless that is a terminal, the other\n"
    "ranks read /dev/null.\n";
static const char more[] =
    "signals:\n"
    "  SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to every worker and its children, SIGUSR1 and SIGUSR2\n"
    "  to every worker; Ctrl-Z stops all. A signal that was ignored at the start (nohup) stays ignored. lockstep\n"
    "  train saves a checkpoint and ends after the first SIGINT or SIGTERM, and at once after the second. Whatever "
    "the\n"
    "  workers started ends with the run, even when the launcher itself is killed (then what has left its worker's\n"
    "  group is known by LOCKSTEP_RUN_ID in its environment).\n"
    "\n"
    "environment of a worker:\n"
    "  TF_CONFIG         replaced: {\"cluster\":{\"worker\":[...]},\"task\":{\"type\":\"worker\",\"index\":i}}\n"
    "  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE  as torchrun gives them\n"
    "  LOCKSTEP_RESTART_COUNT  how often this worker was started anew\n"
    "  LOCKSTEP_RUN_ID   the same for all workers of this run\n"
    "  LOCKSTEP_COLUMNS  where the output goes to a terminal: its columns, for the progress bar of rank 0\n"
    "  LOCKSTEP_DEVICES  set by --devices\n"
    "  LOCKSTEP_REJOIN_TIMEOUT  0 without --restart, unless it is set: nobody would come back\n"
    "  LOCKSTEP_CLUSTER  tf_config: the variables of a launcher around this one do not count\n"
    "  LOCKSTEP_ELASTIC  set by --elastic\n"
    "  OMP_NUM_THREADS   1 unless it is set: workers on one machine share its cores\n"
    "\n"
    "examples:\n"
    "  lockstep run -np 2 -- lockstep train --model mlp --dataset digits\n"
    "  lockstep run -np 4 --devices 2 ./my_program --epochs 5\n"
    "  lockstep run -np 4 --restart 20 -- lockstep train --dataset digits --checkpoint /data/checkpoints\n"
    "  lockstep run -np 4 --elastic 2 -- lockstep train --dataset digits\n"
    "\n"
    "exit status: 0 all workers succeeded; 2 a bad command line; 126 COMMAND cannot be executed; 127 COMMAND not\n"
    "found; else the exit status of the worker that failed first, 128 + n if signal n killed it. A worker that\n"
    "ends with 138 says that it lost another: one that fails otherwise within a second is named in its place.\n"
    "143 when lockstep train has stopped in order after SIGTERM, to the launcher or to one worker.\n";

/* One entry of a device list: a kind, a colon, a number ("cpu:0"); returns its end, or NULL. */
static const char *skip_device(const char *text) {
    const char *at = text;
    while (islower((unsigned char)*at)) at++;
    if (at == text || *at++ != ':') return NULL;
    const char *number = at;
    while (isdigit((unsigned char)*at)) at++;
    return at == number ? NULL : at;
}

static bool good_device_list(const char *text) {
    int count = 0;
    for (const char *at = text; (at = skip_device(at)); at++) {
        if (++count > MAX_DEVICES) return false;
        if (!*at) return strlen(text) < 256; /* the size of the setting */
        if (*at != ',') return false;
    }
    return false;
}

static bool good_devices(const char *text) {
    char *end;
    long count = strtol(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end) return count >= 1 && count <= MAX_DEVICES;
    return good_device_list(text);
}

/* Room for two pipes and three sockets a worker; the workers get the old limit back. */
static void raise_file_limit(struct ls_launch *launch) {
    if (getrlimit(RLIMIT_NOFILE, &launch->files)) return;
    rlim_t wanted = 64 + 6 * (rlim_t)launch->count;
    struct rlimit raised = launch->files;
    if (raised.rlim_cur >= wanted) return;
    raised.rlim_cur = raised.rlim_max < wanted ? raised.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &raised);
}

/* Sets the launcher's own signal state; the workers start with the state before it. */
static void set_signals(struct ls_launch *launch) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    (void)sigprocmask(SIG_BLOCK, NULL, &launch->mask);
    (void)sigaction(SIGPIPE, &ignore, &launch->pipe_action);
    (void)sigaction(SIGCHLD, &normal, &launch->child_action);
}

/* The room for a line of rank 0; 0 where no terminal shows it. */
static int find_columns(bool prefix) {
    struct winsize size;
    int taken = prefix ? (int)strlen("[0] ") : 0;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) return 0;
    return size.ws_col > taken ? size.ws_col - taken : 80 - taken;
}

/* No two runs of a machine have the same. */
static void draw_id(struct ls_launch *launch) {
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    (void)snprintf(launch->id, sizeof(launch->id), "%d-%llx", (int)getpid(),
                   (unsigned long long)time.tv_sec * 1000000000ULL + (unsigned long long)time.tv_nsec);
}

static int launch_all(struct ls_launch *launch, struct ls_supervision *supervision) {
    struct ls_ports ports;
    raise_file_limit(launch);
    launch->columns = find_columns(supervision->prefix);
    draw_id(launch);
    if (!ls_ports_take(launch->count, &ports)) return 1;
    launch->ports = ports.ports;
    supervision->ports = &ports;
    int status = 1;
    if (ls_launch_cluster(launch)) {
        set_signals(launch);
        status = ls_supervise(supervision);
    } else {
        (void)fprintf(stderr, "lockstep run: no memory for TF_CONFIG\n");
    }
    free(launch->cluster);
    ls_ports_free(&ports);
    return status;
}

struct request {
    struct ls_launch launch;
    struct ls_supervision supervision;
};

static bool read_devices(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                         void *field) {
    (void)option;
    *(const char **)field = text;
    if (good_devices(text)) return true;
    return ls_usage_error(line,
                          "option '--devices' needs a number from 1 to %d or a list such as cpu:0,cpu:1, not '%s'",
                          MAX_DEVICES, text) == 0;
}

static const char *const reasons[] = {"loss", "any", NULL};

#define AT(field) LS_OPTION_AT(struct request, field)

static const struct ls_option rows[] = {
    {"np", "N", "how many workers, 1 to 1024; must be given", AT(launch.count), 1, MAX_WORKERS, .letter = 'n'},
    {"ps", "K", "parameter servers beside the workers, 0 to 1024: the same command, which serves in them; default 0",
     AT(launch.servers), 0, MAX_WORKERS},
    {"devices", "D",
     "devices of each worker: auto (all GPUs, else one CPU), gpu, a number of CPU devices (1 to 64) or a list such as "
     "cpu:0,cpu:1; default: what LOCKSTEP_DEVICES says, else auto",
     offsetof(struct request, launch.devices), LS_OPTION_READ, .read = read_devices},
    {"no-prefix", NULL, "pass lines on as they are, without the rank", AT(supervision.prefix), false},
    {"prefix", NULL, "the rank before each line (default)", AT(supervision.prefix), true},
    {"grace", "SECONDS",
     "how long the others may take to end by themselves after the first failure before they get SIGTERM, and 5 s later "
     "SIGKILL; default 5",
     AT(supervision.grace), 0, 86400},
    {"stop-grace", "SECONDS",
     "how long the workers may take to save and end after SIGINT or SIGTERM to the launcher before they get SIGKILL; "
     "default 30",
     AT(supervision.stop), 0, 86400},
    {"restart", "N",
     "start a worker that a signal killed, or that ended with 138 (it lost another), anew in its place: the same rank, "
     "TF_CONFIG and prefix; at most N times in all (0 to 1000000). The others keep their processes and wait for it "
     "(LOCKSTEP_REJOIN_TIMEOUT), give it their state, and all go on with the step that was lost. Where they end with "
     "138 instead, each of them counts; with lockstep train --checkpoint the new group goes on after the exact step. "
     "Nothing is restarted after a signal to the launcher, after a worker has succeeded, or after one has failed in "
     "another way or stopped with 143; default 0",
     AT(supervision.restarts), 0, MAX_RESTARTS},
    {"restart-on", NULL,
     "which statuses of a worker that --restart takes for a reason: loss is a signal or 138; any is every status but "
     "0, "
     "also while the others wait for it; default loss",
     AT(supervision.any), false, .words = reasons},
    {"elastic", "MIN",
     "go on while MIN workers or more are left: a worker that is lost for good (a signal, or 138, beyond --restart) "
     "does not end the run, the others take its replicas over (LOCKSTEP_ELASTIC becomes MIN:N), as long as they are "
     "also most of those before the loss",
     AT(launch.elastic), 1, MAX_WORKERS},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int run_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep run", argc, argv, about, more, tables, 0};
    struct request request = {.supervision = {.prefix = true, .grace = LS_RUN_GRACE, .stop = LS_RUN_STOP}};
    struct ls_launch *launch = &request.launch;
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if (!launch->count) return ls_usage_error(&line, "how many workers? Give -np N");
    if (launch->elastic > launch->count)
        return ls_usage_error(&line, "option '--elastic' needs a number up to -np %d, not %d", launch->count,
                              launch->elastic);
    if (request.supervision.any && !request.supervision.restarts)
        return ls_usage_error(&line, "option '--restart-on' needs '--restart N'");
    if (line.next >= argc) return ls_usage_error(&line, "no command to start");
    launch->count += launch->servers;
    launch->argv = argv + line.next;
    launch->restarts = request.supervision.restarts > 0;
    request.supervision.launch = launch;
    return launch_all(launch, &request.supervision);
}
