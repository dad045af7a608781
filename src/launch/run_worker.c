/* fork, the child's surroundings, exec; the child reports a failed exec through a pipe that a successful one closes. */
#define _GNU_SOURCE
#include "launch/run_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/run_supervise.h"

enum end { READ_END, WRITE_END };
enum { OUT, ERR, REPORT, PIPES };

double ls_launch_now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void ls_launch_raise_files(struct ls_launch *launch) {
    if (getrlimit(RLIMIT_NOFILE, &launch->files)) return;
    rlim_t wanted = 64 + 6 * (rlim_t)launch->here;
    struct rlimit raised = launch->files;
    if (raised.rlim_cur >= wanted) return;
    raised.rlim_cur = raised.rlim_max < wanted ? raised.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &raised);
}

void ls_launch_set_signals(struct ls_launch *launch) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    (void)sigprocmask(SIG_BLOCK, NULL, &launch->mask);
    (void)sigaction(SIGPIPE, &ignore, &launch->pipe_action);
    (void)sigaction(SIGCHLD, &normal, &launch->child_action);
}

void ls_launch_give_back(const struct ls_launch *launch) {
    (void)sigaction(SIGPIPE, &launch->pipe_action, NULL);
    (void)sigaction(SIGCHLD, &launch->child_action, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &launch->files);
    (void)sigprocmask(SIG_SETMASK, &launch->mask, NULL);
}

bool ls_launch_adopt(void) {
    siginfo_t info;
    bool alone = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0;
    (void)prctl(PR_SET_CHILD_SUBREAPER, alone);
    return alone;
}

void ls_launch_sweep(void) {
    for (int rounds = 0; rounds < 100; rounds++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        FILE *file = fopen(path, "re");
        int pid, found = 0;
        for (; file && fscanf(file, "%d", &pid) == 1; found++) (void)kill(pid, SIGKILL);
        if (file) (void)fclose(file);
        if (!found) return;
        while (waitpid(-1, NULL, 0) > 0) continue;
    }
}

/* Only rank 0 may read the launcher's standard input. */
static bool connect_streams(int pipes[PIPES][2], int input) {
    if (input < 0) input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || (input != STDIN_FILENO && dup2(input, STDIN_FILENO) < 0)) return false;
    return dup2(pipes[OUT][WRITE_END], STDOUT_FILENO) >= 0 && dup2(pipes[ERR][WRITE_END], STDERR_FILENO) >= 0;
}

static bool set_elastic(const struct ls_launch *launch) {
    char range[32];
    (void)snprintf(range, sizeof(range), "%d:%d", launch->elastic, launch->count - launch->servers);
    return !setenv("LOCKSTEP_ELASTIC", range, 1);
}

static bool set_number(const char *name, int number) {
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", number);
    return !setenv(name, text, 1);
}

/* Sets the variables that torchrun sets, under their names, and Lockstep's own. An outer launcher's do not count. */
static bool set_numbers(const struct ls_launch *launch, const struct ls_worker *worker) {
    int workers = launch->count - launch->servers;
    return set_number("RANK", worker->rank) && set_number("LOCAL_RANK", worker->local) &&
           set_number("WORLD_SIZE", workers) && set_number("LOCAL_WORLD_SIZE", launch->local_size) &&
           set_number("LOCKSTEP_RESTART_COUNT", worker->restarts) &&
           set_number("LOCKSTEP_COLUMNS", worker->rank ? 0 : launch->columns) &&
           !setenv("LOCKSTEP_CLUSTER", "tf_config", 1) && !setenv("LOCKSTEP_RUN_ID", launch->id, 1);
}

static bool set_environment(const struct ls_launch *launch, const struct ls_worker *worker) {
    char *config = NULL;
    if (asprintf(&config, "{\"cluster\":%s,\"task\":{\"type\":\"%s\",\"index\":%d}}", launch->cluster,
                 worker->server < 0 ? "worker" : "ps", worker->server < 0 ? worker->rank : worker->server) < 0)
        return false;
    bool set = set_numbers(launch, worker) && !setenv("TF_CONFIG", config, 1) && !setenv("OMP_NUM_THREADS", "1", 0);
    if (set && !launch->restarts) set = !setenv("LOCKSTEP_REJOIN_TIMEOUT", "0", 0);
    if (set && launch->elastic) set = set_elastic(launch);
    if (set && launch->start) set = set_number("LOCKSTEP_ELASTIC_START", launch->start);
    if (set && launch->devices) set = !setenv("LOCKSTEP_DEVICES", launch->devices, 1);
    free(config);
    return set;
}

/* The word lockstep means this very program, wherever it lies. */
static void execute(char **argv) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (!strcmp(argv[0], "lockstep") && length > 0) {
        self[length] = '\0';
        (void)execv(self, argv);
    }
    (void)execvp(argv[0], argv);
}

static _Noreturn void become_worker(const struct ls_launch *launch, const struct ls_guard *guard,
                                    const struct ls_worker *worker, int pipes[PIPES][2], pid_t parent) {
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* the launcher died before the line above */
    if (connect_streams(pipes, worker->rank ? -1 : launch->input) && set_environment(launch, worker)) {
        ls_guard_add(guard, getpid());
        ls_launch_give_back(launch);
        execute(launch->argv);
    }
    int error = errno;
    (void)!write(pipes[REPORT][WRITE_END], &error, sizeof(error));
    _exit(127);
}

static void close_ends(int pipes[PIPES][2], enum end end) {
    for (int i = 0; i < PIPES; i++)
        if (pipes[i][end] >= 0) (void)close(pipes[i][end]);
}

static int exec_failure(const char *command, int error) {
    (void)fprintf(stderr, "lockstep run: cannot start '%s': %s%s\n", command, strerror(error),
                  error == ENOENT ? " (neither a path nor a command in PATH)" : "");
    return error == ENOENT ? 127 : 126;
}

static int start_failure(int rank, const char *what) {
    (void)fprintf(stderr, "lockstep run: cannot start worker:%d: %s: %s\n", rank, what, strerror(errno));
    return 1;
}

/* Waits until the child has become the command, or LS_RUN_START is over; its errno where it cannot. */
static int read_report(int fd, const struct ls_worker *worker, const char *command) {
    struct pollfd slot = {.fd = fd, .events = POLLIN};
    double end = ls_launch_now() + LS_RUN_START, left = LS_RUN_START;
    int error = 0, ready;
    char name[24];
    while ((ready = poll(&slot, 1, (int)(1000 * left))) < 0 && errno == EINTR) left = fmax(0, end - ls_launch_now());
    if (ready > 0) return read(fd, &error, sizeof(error)) == sizeof(error) ? error : 0;
    ls_worker_name(worker, name, sizeof(name));
    (void)fprintf(stderr,
                  "lockstep run: warning: %s has not become '%s' after %g s: its file system does not answer; it is "
                  "waited for as one that runs\n",
                  name, command, LS_RUN_START);
    return 0;
}

int ls_worker_start(const struct ls_launch *launch, const struct ls_guard *guard, struct ls_worker *worker) {
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, error = 0, result = 0;
    bool made = !pipe2(pipes[OUT], O_CLOEXEC) && !pipe2(pipes[ERR], O_CLOEXEC) && !pipe2(pipes[REPORT], O_CLOEXEC);
    pid_t parent = getpid(), pid = made ? fork() : -1;
    if (!pid) become_worker(launch, guard, worker, pipes, parent);
    if (pid < 0) result = start_failure(worker->rank, made ? "fork (see ulimit -u)" : "pipe (see ulimit -n)");
    worker->pid = pid;
    worker->out = pipes[OUT][READ_END];
    worker->err = pipes[ERR][READ_END];
    close_ends(pipes, WRITE_END);
    if (!result) error = read_report(pipes[REPORT][READ_END], worker, launch->argv[0]);
    if (error) result = exec_failure(launch->argv[0], error);
    if (!result) pipes[OUT][READ_END] = pipes[ERR][READ_END] = -1; /* the worker's now */
    close_ends(pipes, READ_END);
    if (result && pid > 0) (void)waitpid(pid, NULL, 0);
    if (error) ls_guard_remove(guard, pid);
    return result;
}

void ls_worker_signal(const struct ls_worker *worker, int signal, enum ls_signal_way way) {
    if (worker->ended) return;
    if (way == LS_SIGNAL_LEAVE)
        (void)sigqueue(worker->pid, signal, (union sigval){.sival_int = LS_LAUNCH_LEAVE});
    else
        (void)kill(way == LS_SIGNAL_GROUP ? -worker->pid : worker->pid, signal);
}

void ls_worker_reap(struct ls_worker *worker) {
    int status = 0;
    (void)kill(-worker->pid, SIGKILL); /* the group's number is safe from reuse while its leader is a zombie */
    (void)waitpid(worker->pid, &status, 0);
    worker->ended = true;
    worker->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    worker->by_signal = WIFSIGNALED(status);
}

void ls_worker_name(const struct ls_worker *worker, char *text, size_t size) {
    bool serves = worker->server >= 0;
    (void)snprintf(text, size, "%s:%d", serves ? "ps" : "worker", serves ? worker->server : worker->rank);
}

void ls_worker_describe(const struct ls_worker *worker, char *text, size_t size) {
    char own[24];
    ls_worker_name(worker, own, sizeof(own));
    int used = snprintf(text, size, "%s (rank %d, pid %d%s%s) ", own, worker->rank, (int)worker->pid,
                        worker->host ? " on " : "", worker->host ? worker->host : "");
    if (used >= (int)size) return;
    int number = worker->exit_status - 128;
    const char *name = worker->by_signal ? sigabbrev_np(number) : NULL;
    if (worker->with_host)
        (void)snprintf(text + used, size - (size_t)used, "was lost with its host");
    else if (worker->by_signal)
        (void)snprintf(text + used, size - (size_t)used, "was killed by signal %d (SIG%s)", number, name ? name : "?");
    else
        (void)snprintf(text + used, size - (size_t)used, "ended with exit status %d", worker->exit_status);
}
