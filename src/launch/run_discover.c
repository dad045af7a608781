/* The output has the forms of a hostfile. No line at all is a list without hosts. */
#define _GNU_SOURCE
#include "launch/run_discover.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MOST (256 << 10)

static _Noreturn void become_script(const struct ls_discovery *discover, int out) {
    char path[4096], *words[] = {path, NULL};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(path, sizeof(path), "%s%s", strchr(discover->script, '/') ? "" : "./", discover->script);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(126);
    ls_launch_give_back(discover->launch);
    (void)execvp(path, words);
    (void)fprintf(stderr, "cannot start %s: %s\n", path, strerror(errno));
    _exit(126);
}

static void start_script(struct ls_discovery *discover) {
    int ends[2];
    discover->next = ls_launch_now() + LS_RUN_DISCOVER;
    if (pipe2(ends, O_CLOEXEC)) return;
    discover->pid = fork();
    if (!discover->pid) become_script(discover, ends[1]);
    (void)close(ends[1]);
    if (discover->pid < 0) discover->pid = 0, (void)close(ends[0]);
    if (!discover->pid) return;
    discover->out = ends[0];
    (void)fcntl(discover->out, F_SETFL, O_NONBLOCK);
    discover->used = 0;
    discover->end = ls_launch_now() + discover->limit;
}

void ls_discover_fill(const struct ls_discovery *discover, struct pollfd *polled) {
    *polled = (struct pollfd){.fd = discover->pid ? discover->out : -1, .events = POLLIN};
}

double ls_discover_next_at(const struct ls_discovery *discover) {
    return discover->pid ? discover->end : discover->next;
}

int ls_discover_slots(const struct ls_discovery *discover) {
    int slots = 0;
    for (int i = 0; i < discover->count; i++) slots += discover->hosts[i].slots;
    return slots;
}

/* ---- What it has printed ---------------------------------------------------------------------------------------- */

/* Nothing but comments and blanks. */
static bool is_empty(const struct ls_discovery *discover) {
    bool comment = false;
    for (size_t i = 0; i < discover->used; i++) {
        char at = discover->text[i];
        comment = at == '#' || (comment && at != '\n');
        if (!comment && !isspace((unsigned char)at)) return false;
    }
    return true;
}

static bool fail(struct ls_discovery *discover, const char *what, const char *detail) {
    (void)snprintf(discover->why, sizeof(discover->why), "host discovery script %.200s: %s%.400s", discover->script,
                   what, detail);
    return false;
}

static bool read_hosts(struct ls_discovery *discover) {
    ls_tools_slots *hosts = NULL;
    int count = 0, fd = memfd_create("hosts", MFD_CLOEXEC);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    bool kept = fd >= 0 && write(fd, discover->text, discover->used) == (ssize_t)discover->used;
    bool good = kept && (is_empty(discover) || !ls_tools_hosts(NULL, path, &hosts, &count));
    if (fd >= 0) (void)close(fd);
    if (!kept) return fail(discover, "no memory for its output", "");
    if (!good) {
        const char *said = strstr(ls_error(), path);
        return fail(discover, "its output", said ? said + strlen(path) : ls_error());
    }
    ls_memory_free(discover->hosts);
    discover->hosts = hosts;
    discover->count = count;
    return true;
}

/* True if it has ended well, with a list. */
static bool take_end(struct ls_discovery *discover, bool late) {
    int status = 0;
    char text[64];
    (void)kill(-discover->pid, SIGKILL); /* what it has left behind, or the script itself, which is late */
    (void)waitpid(discover->pid, &status, 0);
    if (discover->out >= 0) (void)close(discover->out);
    discover->pid = 0;
    discover->next = ls_launch_now() + LS_RUN_DISCOVER;
    discover->why[0] = 0;
    (void)snprintf(text, sizeof(text), "%g s (--start-timeout)", discover->limit);
    if (late) return fail(discover, "it takes longer than ", text);
    if (discover->used == TEXT_MOST) return fail(discover, "it prints more than 256 KB", "");
    (void)snprintf(text, sizeof(text), WIFSIGNALED(status) ? "signal %d" : "exit status %d",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status ? fail(discover, "it ended with ", text) : read_hosts(discover);
}

/* Takes what has been printed; false when no more comes. */
static bool read_more(struct ls_discovery *discover) {
    ssize_t got = 1;
    if (discover->out < 0) return false;
    while (discover->used < TEXT_MOST && got > 0) {
        got = read(discover->out, discover->text + discover->used, TEXT_MOST - discover->used);
        if (got > 0) discover->used += (size_t)got;
    }
    if (got) return discover->used < TEXT_MOST;
    (void)close(discover->out);
    discover->out = -1;
    return false;
}

static bool has_ended(const struct ls_discovery *discover) {
    siginfo_t info = {0};
    return !waitid(P_PID, (id_t)discover->pid, &info, WEXITED | WNOWAIT | WNOHANG) && info.si_pid;
}

enum ls_discovered ls_discover_step(struct ls_discovery *discover) {
    if (!discover->text && !(discover->text = malloc(TEXT_MOST))) return LS_DISCOVERED_NOTHING;
    if (!discover->pid && ls_launch_now() >= discover->next) start_script(discover);
    if (!discover->pid) return LS_DISCOVERED_NOTHING;
    bool more = read_more(discover), late = ls_launch_now() >= discover->end, full = discover->used == TEXT_MOST;
    if (!late && !full && (more || !has_ended(discover))) return LS_DISCOVERED_NOTHING;
    return take_end(discover, late) ? LS_DISCOVERED_HOSTS : LS_DISCOVERED_FAILURE;
}

void ls_discover_end(struct ls_discovery *discover) {
    if (discover->pid) (void)take_end(discover, true);
    free(discover->text);
    ls_memory_free(discover->hosts);
    *discover = (struct ls_discovery){0};
}
