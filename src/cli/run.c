/* lockstep run: N workers of one program, here or on a list of hosts, each with its own TF_CONFIG, as horovodrun -np N
 * and mpirun -np N start them. This file reads the command line; ports, workers, hosts, output and supervision have
 * files of their own. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/options.h"
#include "launch/run_elastic.h"
#include "launch/run_supervise.h"

#define MAX_WORKERS  1024
#define MAX_DEVICES  64
#define MAX_RESTARTS 1000000
#define MAX_EXPORTS  256

static const char about[] =
    "lockstep run: start N workers of a program, on this machine or on many\n"
    "\n"
    "usage: lockstep run -np N [OPTIONS] [--] COMMAND [ARGUMENTS...]\n"
    "\n"
    "Chooses N free ports of 127.0.0.1 and starts COMMAND N times, each with a TF_CONFIG that lists all N as\n"
    "workers and names its own index. Every line of output gets its rank before it ([0], [1], ...); lines are\n"
    "never mixed, and standard output and standard error stay apart. On a terminal the progress bar of rank 0's\n"
    "lockstep train is redrawn in place; other programs' bars survive where they end their lines with a carriage\n"
    "return and do not ask for a terminal. The command\n"
    "'lockstep' means this very program. Rank 0 reads the standard input unless that is a terminal, the other\n"
    "ranks read /dev/null.\n"
    "\n"
    "With -H or --hostfile the workers are divided over hosts, rank after rank. One agent a host is started through\n"
    "ssh, which asks for no password. Ports, environment and output go through its standard input and output.\n";
static const char more[] =
    "signals:\n"
    "  SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to every worker and its children, SIGUSR1 and SIGUSR2\n"
    "  to every worker; Ctrl-Z stops all. A signal that was ignored at the start (nohup) stays ignored. lockstep\n"
    "  train saves a checkpoint and ends after the first SIGINT or SIGTERM, and at once after the second. Whatever "
    "the\n"
    "  workers started ends with the run, even when the launcher itself is killed.\n"
    "\n"
    "environment of a worker:\n"
    "  TF_CONFIG         replaced: {\"cluster\":{\"worker\":[...]},\"task\":{\"type\":\"worker\",\"index\":i}}\n"
    "  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE  as torchrun gives them\n"
    "  LOCKSTEP_RESTART_COUNT  how often this worker was started anew\n"
    "  LOCKSTEP_RUN_ID   the same for all workers of this run\n"
    "  LOCKSTEP_COLUMNS  where the output goes to a terminal: its columns, for the progress bar of rank 0\n"
    "  LOCKSTEP_DEVICES  set by --devices\n"
    "  LOCKSTEP_REJOIN_TIMEOUT  0 without --restart, unless it is set: nobody would come back\n"
    "  LOCKSTEP_STOP_GRACE  five sixths of --stop-grace, unless it is set: parameter servers end before SIGKILL\n"
    "  LOCKSTEP_CLUSTER  tf_config: the variables of a launcher around this one do not count\n"
    "  LOCKSTEP_ELASTIC  set by --elastic, --min-np and --max-np\n"
    "  LOCKSTEP_ELASTIC_START, LOCKSTEP_ADDRESSES  set with --host-discovery-script: how many begin, where all are\n"
    "  OMP_NUM_THREADS   1 unless it is set: workers on one machine share its cores\n"
    "\n"
    "On another host a worker has the environment of the launcher, but for what belongs to the launcher's machine\n"
    "(HOME, USER, LOGNAME, SHELL, PWD, TMPDIR, HOSTNAME, DISPLAY, SSH_*, XDG_*, DBUS_*, SYSTEMD_*, SLURM_*, OMPI_*,\n"
    "PMI*, HOROVOD_*, BASH_FUNC_*, CUDA_VISIBLE_DEVICES): -x gives those too. It starts in the launcher's folder,\n"
    "where the host has that.\n"
    "\n"
    "examples:\n"
    "  lockstep run -np 8 -H node1:4,node2:4 -- lockstep train --model mlp --dataset digits\n"
    "  lockstep run -np 2 -- lockstep train --model mlp --dataset digits\n"
    "  lockstep run -np 4 --devices 2 ./my_program --epochs 5\n"
    "  lockstep run -np 4 --restart 20 -- lockstep train --dataset digits --checkpoint /data/checkpoints\n"
    "  lockstep run -np 4 --elastic 2 -- lockstep train --dataset digits\n"
    "  lockstep run --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh -- lockstep train --dataset digits\n"
    "\n"
    "exit status: 0 all workers succeeded; 1 a host cannot be had, or too few slots; 2 a bad command line; 126\n"
    "COMMAND cannot be executed; 127 COMMAND not found; else the exit status of the worker that failed first, 128 + n\n"
    "if signal n killed it. A worker that ends with 138 says that it lost another: one that fails otherwise within a\n"
    "second is named in its place.\n"
    "143 when lockstep train has stopped in order after SIGTERM, to the launcher or to one worker.\n";

/* Kinds, each with a colon and a number: "cpu:0,cpu:1". */
static bool good_device_list(const char *text) {
    const char *at = text;
    for (int count = 1, length = 0; count <= MAX_DEVICES; count++, at += length + 1, length = 0) {
        (void)sscanf(at, "%*[a-z]:%*[0-9]%n", &length);
        if (!length || !at[length]) return length && strlen(text) < 256; /* the size of the setting */
        if (at[length] != ',') return false;
    }
    return false;
}

static bool good_devices(const char *text) {
    char *end;
    long count = strtol(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end) return count >= 1 && count <= MAX_DEVICES;
    return good_device_list(text);
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

static int launch_on_hosts(struct ls_launch *launch, struct ls_supervision *supervision,
                           const struct ls_hosts_options *options) {
    struct ls_run_hosts hosts;
    ls_launch_set_signals(launch);
    int status = ls_hosts_open(options, launch, &hosts);
    supervision->hosts = &hosts;
    if (!status && !options->check) status = ls_supervise(supervision);
    ls_hosts_close(&hosts);
    return status;
}

static int launch_elastically(struct ls_launch *launch, struct ls_supervision *supervision,
                              struct ls_hosts_options *options, const struct ls_elastic_options *wanted) {
    struct ls_run_elastic elastic;
    int status = ls_elastic_begin(wanted, options, launch, &elastic);
    options->named = elastic.discover.hosts;
    options->named_count = elastic.discover.count;
    supervision->elastic = &elastic;
    if (!status) status = launch_on_hosts(launch, supervision, options);
    ls_elastic_end(&elastic);
    return status;
}

/* A parameter server that its workers do not leave ends by itself before SIGKILL. */
static void grant_grace(double stop) {
    char seconds[32];
    (void)snprintf(seconds, sizeof(seconds), "%.6g", stop * 5 / 6);
    if (stop > 0) (void)setenv("LOCKSTEP_STOP_GRACE", seconds, 0);
}

static int launch_all(struct ls_launch *launch, struct ls_supervision *supervision, struct ls_hosts_options *options,
                      const struct ls_elastic_options *elastic) {
    launch->here = launch->count;
    launch->local_size = launch->count - launch->servers;
    launch->input = isatty(STDIN_FILENO) ? -1 : STDIN_FILENO;
    ls_launch_raise_files(launch);
    grant_grace(supervision->stop);
    launch->columns = find_columns(supervision->prefix);
    draw_id(launch);
    ls_tools_slots own = {.target = "localhost", .name = "localhost", .slots = launch->count};
    options->alone = !elastic->script && !options->list && !options->file;
    if (options->alone) options->named = &own, options->named_count = 1;
    int status = elastic->script ? launch_elastically(launch, supervision, options, elastic)
                                 : launch_on_hosts(launch, supervision, options);
    free(launch->cluster);
    return status;
}

struct request {
    struct ls_launch launch;
    struct ls_supervision supervision;
    struct ls_hosts_options hosts;
    struct ls_elastic_options elastic;
    const char *exports[MAX_EXPORTS + 1];
};

static bool read_devices(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                         void *field) {
    (void)option;
    *(const char **)field = text;
    if (good_devices(text)) return true;
    return LS_REFUSE(line, "option '--devices' needs a number from 1 to %d or a list such as cpu:0,cpu:1, not '%s'",
                     MAX_DEVICES, text);
}

/* -x NAME or NAME=VALUE. */
static bool read_export(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    const char **exports = field;
    int count = 0;
    (void)option;
    while (exports[count]) count++;
    size_t length = strcspn(text, "=");
    if (!length || isdigit((unsigned char)*text) ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") < length)
        return LS_REFUSE(line, "option '-x' needs a variable's name, or NAME=VALUE, not '%s'", text);
    if (count == MAX_EXPORTS) return LS_REFUSE(line, "option '-x' is given more than %d times", MAX_EXPORTS);
    exports[count] = text;
    return true;
}

/* MIN:MAX seconds. */
static bool read_range(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       void *field) {
    double *range = field;
    char *end = NULL;
    range[0] = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    range[1] = end && *end == ':' && isdigit((unsigned char)end[1]) ? strtod(end + 1, &end) : -1;
    if (range[1] >= range[0] && range[0] >= 0 && range[1] <= 86400 && !*end) return true;
    return LS_REFUSE(line, "option '--%s' needs MIN:MAX seconds up to 86400, such as 10:300, not '%s'", option->name,
                     text);
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
    {"prefix-output-with-timestamp", NULL, "the time before each line", AT(supervision.times), true},
    {"output-filename", "DIR",
     "write what each worker prints also to DIR/rank.N/stdout and DIR/rank.N/stderr, without rank and time",
     AT(supervision.folder)},
    {"grace", "SECONDS",
     "how long the others may take to end by themselves after the first failure before they get SIGTERM, and 5 s later "
     "SIGKILL; as long for parameter servers after the workers' success; default 5",
     AT(supervision.grace), 0, 86400},
    {"stop-grace", "SECONDS",
     "how long the workers and parameter servers may take to save and end after SIGINT or SIGTERM to the launcher, "
     "before they get SIGKILL; default 30",
     AT(supervision.stop), 0, 86400},
    {"restart", "N",
     "start a worker that a signal killed, or that ended with 138 (it lost another), anew in its place: the same rank, "
     "TF_CONFIG and prefix; at most N times in all (0 to 1000000). The others keep their processes and wait for it "
     "(LOCKSTEP_REJOIN_TIMEOUT), give it their state, and all go on with the step that was lost. Where they end with "
     "138 instead, each of them counts; with lockstep train --checkpoint the new group goes on after the exact step. "
     "Nothing is restarted after a signal to the launcher, after a worker has succeeded, or after one has failed in "
     "another way or stopped with 143. Workers that are lost with their host start on spare slots of other hosts, or "
     "there when it is back; default 0",
     AT(supervision.restarts), 0, MAX_RESTARTS},
    {"restart-on", NULL,
     "which statuses of a worker that --restart takes for a reason: loss is a signal or 138; any is every status but "
     "0, also while the others wait for it; default loss",
     AT(supervision.any), false, .words = reasons},
    {"elastic", "MIN",
     "go on while MIN workers or more are left: a worker that is lost for good (a signal, or 138, beyond --restart) "
     "does not end the run, the others take its replicas over (LOCKSTEP_ELASTIC becomes MIN:N), as long as they are "
     "also most of those before the loss",
     AT(launch.elastic), 1, MAX_WORKERS},
    {0}};
static const struct ls_option host_rows[] = {
    {"hosts", "LIST",
     "start the workers on these hosts, as many on each as it has slots: host:slots,user@host:slots,[v6]:slots; "
     "without a number 1. A name that stands there twice adds its slots",
     AT(hosts.list), .letter = 'H'},
    {"hostfile", "FILE", "the same from a file: a host a line, as host slots=N, host:N or n[01-16]; # begins a comment",
     AT(hosts.file)},
    {"ssh-port", "PORT", "the port of ssh on the hosts", AT(hosts.port), 1, 65535},
    {"ssh-identity-file", "FILE", "the key that ssh shows", AT(hosts.identity)},
    {"rsh", "COMMAND", "start the agents through COMMAND HOST AGENT instead of ssh; words apart by blanks",
     AT(hosts.shell)},
    {"start-timeout", "SECONDS",
     "how long all hosts may take to answer, and with --restart a lost one to come back; default 30", AT(hosts.limit),
     1, 86400},
    {"network-interface", "IF",
     "the workers meet at the address of this interface (eth0), or in this network (10.0.0.0/8), of each host; "
     "default: the address at which ssh has reached it",
     AT(hosts.interface)},
    {"export", "NAME[=VALUE]",
     "give the workers this variable, also where it would stay here (below); may be given several times",
     offsetof(struct request, exports), LS_OPTION_READ, .read = read_export, .letter = 'x', .many = true},
    {"check-hosts", NULL, "reach all hosts, print what they say, and start nothing", AT(hosts.check), true},
    {"verbose", NULL, "say on standard error how each host was reached, and which ranks it has", AT(hosts.verbose),
     true},
    {0}};
static const struct ls_option elastic_rows[] = {
    {"host-discovery-script", "FILE",
     "a program that prints the hosts there are now, as in a hostfile; it is run each second. Hosts that come get "
     "workers, and the workers of hosts that go end, while the others go on",
     AT(elastic.script), .needs = "max-np N"},
    {"min-np", "N",
     "the fewest workers that begin and that go on (LOCKSTEP_ELASTIC becomes MIN:MAX); default: -np, else 1",
     AT(elastic.least), 1, MAX_WORKERS, .needs = "host-discovery-script FILE"},
    {"max-np", "N", "the most workers, and the tasks of TF_CONFIG", AT(elastic.most), 1, MAX_WORKERS,
     .needs = "host-discovery-script FILE"},
    {"elastic-timeout", "SECONDS", "how long too few slots are waited for, at the start and later; default 600",
     AT(elastic.timeout), 0, 86400, .needs = "host-discovery-script FILE"},
    {"blacklist-cooldown-range", "MIN:MAX",
     "a host where a signal killed a worker gets none for MIN seconds, twice as long after each further time, MAX at "
     "most, and none at all after ten times; default 10:300",
     offsetof(struct request, elastic.cool), LS_OPTION_READ, .read = read_range, .needs = "host-discovery-script FILE"},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0},
                                                {"several hosts", host_rows, 0},
                                                {"hosts that come and go", elastic_rows, 0},
                                                {"configuration", ls_config_options, 0},
                                                {0}};

/* The options of hosts that come and go; 0, or the exit status. */
static int check_elastic(const struct ls_command_line *line, struct request *request) {
    static const char *const others[] = {"hosts", "hostfile", "check-hosts", "ps", "elastic", "restart", "restart-on"};
    struct ls_elastic_options *elastic = &request->elastic;
    struct ls_launch *launch = &request->launch;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (ls_option_given(line, others[i]))
            return ls_usage_error(line, "option '--%s' does not go with '--host-discovery-script'", others[i]);
    if (!elastic->least) elastic->least = launch->count ? launch->count : 1;
    if (elastic->least > elastic->most)
        return ls_usage_error(line, "option '--min-np' needs a number up to --max-np %d, not %d", elastic->most,
                              elastic->least);
    if (access(elastic->script, X_OK))
        return ls_usage_error(line, "option '--host-discovery-script': cannot run '%s': %s", elastic->script,
                              strerror(errno));
    launch->count = elastic->most;
    launch->elastic = elastic->least;
    launch->moves = true;
    return line->next < line->argc ? 0 : ls_usage_error(line, "no command to start");
}

/* Contradictions between options; 0 if there is none, else the exit status. */
static int check_options(const struct ls_command_line *line, struct request *request) {
    const struct ls_launch *launch = &request->launch;
    const struct ls_hosts_options *hosts = &request->hosts;
    bool remote = hosts->list || hosts->file || request->elastic.script;
    static const char *const remote_only[] = {"ssh-port",          "ssh-identity-file", "rsh",    "start-timeout",
                                              "network-interface", "check-hosts",       "verbose"};
    for (size_t i = 0; !remote && i < sizeof(remote_only) / sizeof(remote_only[0]); i++)
        if (ls_option_given(line, remote_only[i]))
            return ls_usage_error(line, "option '--%s' needs '-H LIST' or '--hostfile FILE'", remote_only[i]);
    if (hosts->shell && !hosts->shell[strspn(hosts->shell, " ")])
        return ls_usage_error(line, "option '--rsh' needs a command");
    if (request->elastic.script) return check_elastic(line, request);
    if (hosts->check) return 0;
    if (!launch->count) return ls_usage_error(line, "how many workers? Give -np N");
    if (launch->elastic > launch->count)
        return ls_usage_error(line, "option '--elastic' needs a number up to -np %d, not %d", launch->count,
                              launch->elastic);
    if (request->supervision.any && !request->supervision.restarts)
        return ls_usage_error(line, "option '--restart-on' needs '--restart N'");
    return line->next < line->argc ? 0 : ls_usage_error(line, "no command to start");
}

int run_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep run", argc, argv, about, more, tables, 0};
    struct request request = {.supervision = {.prefix = true, .grace = LS_RUN_GRACE, .stop = LS_RUN_STOP},
                              .hosts = {.limit = LS_RUN_REACH, .serve = agent_serve},
                              .elastic = {.timeout = LS_RUN_SLOTS, .cool = {LS_RUN_COOL, LS_RUN_COOL_MOST}}};
    struct ls_launch *launch = &request.launch;
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if ((code = check_options(&line, &request))) return code;
    request.hosts.exports = request.exports;
    for (int i = 0; request.exports[i]; i++)
        if (strchr(request.exports[i], '=')) (void)putenv((char *)request.exports[i]);
    launch->count += launch->servers;
    launch->argv = line.argv + line.next;
    launch->restarts = request.supervision.restarts > 0;
    request.supervision.launch = launch;
    return launch_all(launch, &request.supervision, &request.hosts, &request.elastic);
}
