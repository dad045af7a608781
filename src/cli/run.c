/* lockstep run: N workers of one program on this machine, each with its own TF_CONFIG (what horovodrun -np N and mpirun
 * -np N are for). This file reads the command line; ports, workers, output and supervision have files of their own. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_ports.h"
#include "cli/run_supervise.h"

#define MAX_WORKERS  1024
#define MAX_DEVICES  64
#define MAX_RESTARTS 1000000

static const char help[] =
    "lockstep run: start N workers of a program on this machine\n"
    "\n"
    "usage: lockstep run -np N [OPTIONS] [--] COMMAND [ARGUMENTS...]\n"
    "\n"
    "Chooses N free ports of 127.0.0.1 and starts COMMAND N times, each with a TF_CONFIG that lists all N as\n"
    "workers and names its own index. Every line of output gets its rank before it ([0], [1], ...); lines are\n"
    "never mixed, standard output and standard error stay apart, and progress bars survive. The command\n"
    "'lockstep' means this very program. Rank 0 reads the standard input unless that is a terminal, the other\n"
    "ranks read /dev/null.\n"
    "\n"
    "options:\n"
    "  -np N, -n N      how many workers, 1 to 1024; must be given\n"
    "  --devices D      devices of each worker: auto (all GPUs, else one CPU), gpu, a number of CPU devices\n"
    "                   (1 to 64) or a list such as cpu:0,cpu:1; default: what LOCKSTEP_DEVICES says, else auto\n"
    "  --no-prefix      pass lines on as they are, without the rank\n"
    "  --prefix         the rank before each line (default)\n"
    "  --grace SECONDS  how long the others may take to end by themselves after the first failure before they\n"
    "                   get SIGTERM, and 5 s later SIGKILL; default 5\n"
    "  --restart N      start a worker that a signal killed, or that ended with 138 (it lost another), anew in its\n"
    "                   place: the same rank, TF_CONFIG and prefix; at most N times in all (0 to 1000000). The\n"
    "                   others keep their processes and wait for it (LOCKSTEP_REJOIN_TIMEOUT), give it their state,\n"
    "                   and all go on with the step that was lost. Where they end with 138 instead, each of them\n"
    "                   counts; with lockstep train --checkpoint the new group goes on after the exact step. Nothing "
    "is\n"
    "                   restarted after a signal to the launcher, after a worker has succeeded, or after one has\n"
    "                   failed in another way or stopped with 143; default 0\n"
    "  --elastic MIN    go on while MIN workers or more are left: a worker that is lost for good (a signal, or 138,\n"
    "                   beyond --restart) does not end the run, the others take its replicas over (LOCKSTEP_ELASTIC\n"
    "                   becomes MIN:N), as long as they are also most of those before the loss\n"
    "  --help           print this text\n"
    "\n"
    "signals:\n"
    "  SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to every worker and its children, SIGUSR1 and SIGUSR2\n"
    "  to every worker; Ctrl-Z stops all. A signal that was ignored at the start (nohup) stays ignored. Whatever\n"
    "  the workers started ends with the run, even when the launcher itself is killed.\n"
    "\n"
    "environment of a worker:\n"
    "  TF_CONFIG         replaced: {\"cluster\":{\"worker\":[...]},\"task\":{\"type\":\"worker\",\"index\":i}}\n"
    "  LOCKSTEP_DEVICES  set by --devices\n"
    "  LOCKSTEP_REJOIN_TIMEOUT  0 without --restart, unless it is set: nobody would come back\n"
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

/* The launcher's own signal state; the workers start with what was there before. */
static void set_signals(struct ls_launch *launch) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    (void)sigprocmask(SIG_BLOCK, NULL, &launch->mask);
    (void)sigaction(SIGPIPE, &ignore, &launch->pipe_action);
    (void)sigaction(SIGCHLD, &normal, &launch->child_action);
}

static int launch_all(struct ls_launch *launch, struct ls_supervision *supervision) {
    struct ls_ports ports;
    raise_file_limit(launch);
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

enum { DEVICES = 256, PREFIX, NO_PREFIX, GRACE, RESTART, ELASTIC };
static const struct option options[] = {{"np", required_argument, NULL, 'n'},
                                        {"devices", required_argument, NULL, DEVICES},
                                        {"prefix", no_argument, NULL, PREFIX},
                                        {"no-prefix", no_argument, NULL, NO_PREFIX},
                                        {"grace", required_argument, NULL, GRACE},
                                        {"restart", required_argument, NULL, RESTART},
                                        {"elastic", required_argument, NULL, ELASTIC},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

/* Takes one option; false after the error has been printed. */
static bool take_option(const struct ls_command_line *line, int option, struct ls_launch *launch,
                        struct ls_supervision *supervision) {
    int64_t count;
    switch (option) {
    case 'n':
        if (!ls_option_integer(line, "-np", optarg, 1, MAX_WORKERS, &count)) return false;
        launch->count = (int)count;
        return true;
    case DEVICES:
        launch->devices = optarg;
        if (good_devices(optarg)) return true;
        (void)ls_usage_error(line,
                             "option '--devices' needs a number from 1 to %d or a list such as cpu:0,cpu:1, not '%s'",
                             MAX_DEVICES, optarg);
        return false;
    case GRACE:
        return ls_option_number(line, "--grace", optarg, 0, 86400, &supervision->grace);
    case RESTART:
        if (!ls_option_integer(line, "--restart", optarg, 0, MAX_RESTARTS, &count)) return false;
        supervision->restarts = (int)count;
        launch->restarts = count > 0;
        return true;
    case ELASTIC:
        if (!ls_option_integer(line, "--elastic", optarg, 1, MAX_WORKERS, &count)) return false;
        launch->elastic = (int)count;
        return true;
    case PREFIX:
    case NO_PREFIX:
        supervision->prefix = option == PREFIX;
        return true;
    default:
        return false;
    }
}

int run_main(int argc, char **argv) {
    const struct ls_command_line line = {"lockstep run", argc, argv, "n:h", options};
    struct ls_launch launch = {0};
    struct ls_supervision supervision = {.launch = &launch, .prefix = true, .grace = LS_RUN_GRACE};
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (!take_option(&line, option, &launch, &supervision)) return LS_EXIT_USAGE;
    }
    if (!launch.count) return ls_usage_error(&line, "how many workers? Give -np N");
    if (launch.elastic > launch.count)
        return ls_usage_error(&line, "option '--elastic' needs a number up to -np %d, not %d", launch.count,
                              launch.elastic);
    if (optind >= argc) return ls_usage_error(&line, "no command to start");
    launch.argv = argv + optind;
    return launch_all(&launch, &supervision);
}
