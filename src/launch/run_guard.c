/* The guard lives in a session of its own with every signal blocked and nothing open but the pipe. */
#define _GNU_SOURCE
#include "launch/run_guard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct groups {
    int count;
    pid_t *groups;
};

static void leave_everything(int pipe_fd) {
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "lockstep-guard");
    int null = open("/dev/null", O_RDWR);
    int fd = fcntl(pipe_fd, F_DUPFD, 3);
    for (int i = 0; i < 3; i++) (void)dup2(null, i);
    (void)dup2(fd, 3);
    (void)close_range(4, ~0U, 0);
}

static void change(struct groups *groups, pid_t change) {
    if (change > 0) {
        groups->groups[groups->count++] = change;
        return;
    }
    for (int i = 0; i < groups->count; i++)
        if (groups->groups[i] == -change) groups->groups[i--] = groups->groups[--groups->count];
}

/* True if the process was started with that variable in its environment. */
static bool has_variable(const char *pid, const char *variable) {
    char path[64], *line = NULL;
    size_t size = 0;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&line, &size, 0, file) > 0) found = !strcmp(line, variable);
    free(line);
    if (file) (void)fclose(file);
    return found;
}

/* Kills the processes that have left the groups; it knows them by the variable in the environment that they inherited.
 * Returns the number of processes killed. */
static int kill_marked(const char *variable) {
    DIR *processes = opendir("/proc");
    int killed = 0;
    for (const struct dirent *entry; processes && (entry = readdir(processes));) {
        if (!isdigit((unsigned char)*entry->d_name) || !has_variable(entry->d_name, variable)) continue;
        killed += !kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
    }
    if (processes) (void)closedir(processes);
    return killed;
}

static void watch_groups(struct groups *groups, const char *variable) {
    for (;;) {
        pid_t group;
        ssize_t got = read(3, &group, sizeof(group));
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof(group)) break;
        change(groups, group);
    }
    for (int i = 0; i < groups->count; i++) (void)kill(-groups->groups[i], SIGKILL);
    for (int rounds = 0; groups->count && rounds < 100 && kill_marked(variable); rounds++) (void)usleep(10000);
}

bool ls_guard_start(int count, const char *name, const char *value, struct ls_guard *guard) {
    int ends[2];
    char variable[96];
    (void)snprintf(variable, sizeof(variable), "%s=%s", name, value);
    struct groups groups = {0, calloc((size_t)count, sizeof(pid_t))};
    if (!groups.groups || pipe2(ends, O_CLOEXEC)) {
        (void)fprintf(stderr, "lockstep run: cannot start: %s\n", strerror(errno));
        free(groups.groups);
        return false;
    }
    pid_t pid = fork();
    if (!pid) {
        leave_everything(ends[0]);
        watch_groups(&groups, variable);
        _exit(0);
    }
    free(groups.groups);
    (void)close(ends[0]);
    *guard = (struct ls_guard){pid, ends[1]};
    if (pid > 0) return true;
    (void)fprintf(stderr, "lockstep run: cannot start a process: %s\n", strerror(errno));
    (void)close(ends[1]);
    return false;
}

/* A guard that is gone cannot be told anything: the workers still end with their agent, through PR_SET_PDEATHSIG. */
static void tell_guard(const struct ls_guard *guard, pid_t change) {
    while (write(guard->pipe, &change, sizeof(change)) < 0 && errno == EINTR) continue;
}

void ls_guard_add(const struct ls_guard *guard, pid_t group) {
    tell_guard(guard, group);
}

void ls_guard_remove(const struct ls_guard *guard, pid_t group) {
    tell_guard(guard, -group);
}

void ls_guard_stop(struct ls_guard *guard) {
    (void)close(guard->pipe);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) continue;
}
