/* The agent of this machine is a fork of the launcher. ssh brings the others: it is told to ask nobody anything
 * (BatchMode) and checks the keys of hosts as it does for its user. The command line
 * holds nothing but the path of this program: the rest goes through the agent's standard input. */
#define _GNU_SOURCE
#include "launch/run_hosts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MOST 64

/* ---- The remote shell's command line ---------------------------------------------------------------------------- */

/* A command for any login shell: this very program's path, else lockstep in the PATH there. */
static void make_command(char *command, size_t size) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = 0;
    size_t used =
        (size_t)snprintf(command, size, "exec sh -c 'test -x \"$0\" && exec \"$0\" agent; exec lockstep agent' '");
    for (const char *at = self; *at && used < size - 8; at++)
        used += (size_t)snprintf(command + used, size - used, *at == '\'' ? "'\\''" : "%c", *at);
    (void)snprintf(command + used, size - used, "'");
}

/* The words of --rsh, or ssh and its options. Text is room for words. */
static int make_words(const struct ls_hosts_options *options, char *text, size_t size, char **words) {
    char *rest = text, *word;
    (void)snprintf(text, size, "%s",
                   options->shell ? options->shell
                                  : "ssh -T -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3");
    int count = 0;
    while (count < WORDS_MOST - 10 && (word = strtok_r(rest, " ", &rest))) words[count++] = word;
    return count;
}

static _Noreturn void become_shell(const struct ls_run_hosts *hosts, const struct ls_host *host) {
    const struct ls_hosts_options *options = hosts->options;
    char command[20000], text[8192], port[16], *words[WORDS_MOST];
    char flag_port[] = "-p", flag_identity[] = "-i", end[] = "--";
    int count = make_words(options, text, sizeof(text), words);
    make_command(command, sizeof(command));
    (void)snprintf(port, sizeof(port), "%d", options->port);
    if (options->port) words[count++] = flag_port, words[count++] = port;
    if (options->identity) words[count++] = flag_identity, words[count++] = (char *)options->identity;
    if (!options->shell) words[count++] = end;
    words[count++] = (char *)host->named.target;
    words[count++] = command;
    words[count] = NULL;
    (void)execvp(words[0], words);
    (void)fprintf(stderr, "cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* An agent here is this program already, and starts sooner without exec. It closes what exec would have closed. */
static _Noreturn void become_agent(const struct ls_run_hosts *hosts, const struct ls_host *host) {
    DIR *folder = opendir("/proc/self/fd");
    if (host == hosts->hosts) (void)fcntl(hosts->launch->input, F_SETFD, 0);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd > STDERR_FILENO && fd != dirfd(folder) && fcntl(fd, F_GETFD) & FD_CLOEXEC) (void)close(fd);
    }
    if (folder) (void)closedir(folder);
    _exit(hosts->options->serve());
}

static void ask(const struct ls_run_hosts *hosts, struct ls_host *host) {
    char *payload = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&payload, &size);
    if (!out) return;
    (void)fprintf(out, "%s%c%d%c%s%c", ls_version(), 0, host->count, 0,
                  hosts->options->interface ? hosts->options->interface : "", 0);
    for (int i = 0; i < host->count && host->ports[0]; i++) (void)fprintf(out, "%d%c", host->ports[i], 0);
    if (!fclose(out)) ls_frame_add(&host->to, LS_FRAME_TAKE, 0, payload, size);
    free(payload);
}

void ls_reach_start(struct ls_run_hosts *hosts, struct ls_host *host) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    bool made = !pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC) && (hosts->options->alone || !pipe2(err, O_CLOEXEC));
    host->pid = made ? fork() : -1;
    if (!host->pid) {
        (void)setpgid(0, 0); /* what the terminal sends is the launcher's */
        ls_guard_add(&hosts->guard, getpid());
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || (!hosts->options->alone && dup2(err[1], 2) < 0)) _exit(127);
        ls_launch_give_back(hosts->launch);
        if (host->here) become_agent(hosts, host);
        become_shell(hosts, host);
    }
    if (host->pid < 0) (void)snprintf(host->why, sizeof(host->why), "cannot start a process: %s", strerror(errno));
    int theirs[] = {in[0], out[1], err[1]}, ours[] = {in[1], out[0], err[0]};
    for (int i = 0; i < 3; i++) {
        if (theirs[i] >= 0) (void)close(theirs[i]);
        if (ours[i] >= 0) (void)fcntl(ours[i], F_SETFL, O_NONBLOCK);
    }
    host->in = ours[0];
    host->out = ours[1];
    host->err = ours[2];
    ask(hosts, host);
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

char *ls_reach_line(struct ls_host *host) {
    struct ls_frame_buffer *said = &host->said;
    if (!said->used) return NULL;
    char *begin = said->data + said->start, *end = memchr(begin, '\n', said->used);
    if (!end && said->used > 4096) end = begin + 4095; /* no line of people */
    if (!end) return NULL;
    *end = 0;
    if (end > begin && end[-1] == '\r') end[-1] = 0;
    ls_frame_drop(said, (size_t)(end + 1 - begin));
    if (*begin) (void)snprintf(host->last, sizeof(host->last), "%s", begin);
    return begin;
}

/* The line that comes before the first frame; a login shell's own words there are a fault that has a name. */
static void greet(struct ls_host *host) {
    struct ls_frame_buffer *from = &host->from;
    if (!from->used) return;
    char *begin = from->data + from->start, *end = memchr(begin, '\n', from->used);
    if (!end && from->used < 1024) return;
    int length = (int)(end ? end - begin : 1024);
    host->greeted = length == (int)strlen(LS_FRAME_FIRST) && !memcmp(begin, LS_FRAME_FIRST, (size_t)length);
    if (host->greeted) return ls_frame_drop(from, (size_t)length + 1);
    (void)snprintf(host->why, sizeof(host->why),
                   "its shell printed '%.*s' before the agent's answer: what it reads at its start (.bashrc, .profile) "
                   "must print nothing where there is no terminal",
                   length > 200 ? 200 : length, begin);
}

/* The part of SSH_CONNECTION ("client port server port") that begins with word number at. */
static void copy_word(const char *text, int at, char *word, size_t size) {
    for (; at && *text; text++) at -= *text == ' ';
    (void)snprintf(word, size, "%.*s", (int)strcspn(text, " "), text);
}

static bool read_ready(struct ls_run_hosts *hosts, struct ls_host *host, struct ls_run_frame *frame) {
    const char *version = ls_frame_text(frame), *machine = ls_frame_text(frame), *address = ls_frame_text(frame),
               *connection = ls_frame_text(frame);
    if (!version || !machine || !address || !connection || !ls_frame_number(frame, 0, 1 << 20, &host->processors))
        return false;
    for (int i = 0; i < host->count; i++)
        if (!ls_frame_number(frame, 1, 65535, &host->ports[i])) return false;
    (void)snprintf(host->machine, sizeof(host->machine), "%s", machine);
    (void)snprintf(host->address, sizeof(host->address), "%s", address);
    if (!hosts->options->shell && !host->here && !*host->address)
        copy_word(connection, 2, host->address, sizeof(host->address));
    if (!hosts->options->shell && !host->here && !*hosts->own) copy_word(connection, 0, hosts->own, sizeof(hosts->own));
    return host->ready = true;
}

void ls_reach_answer(struct ls_run_hosts *hosts, struct ls_host *host) {
    struct ls_run_frame frame;
    if (!host->greeted) greet(host);
    int got = host->greeted ? ls_frame_next(&host->from, &frame) : 0;
    if (!got) return;
    const char *why = got > 0 && frame.kind == LS_FRAME_REFUSED ? ls_frame_text(&frame) : NULL;
    if (got > 0 && frame.kind == LS_FRAME_READY && read_ready(hosts, host, &frame)) return;
    (void)snprintf(host->why, sizeof(host->why), "%s", why ? why : "its agent's answer is broken");
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

static void show(const struct ls_run_hosts *hosts, struct ls_host *host) {
    for (char *line; (line = ls_reach_line(host));)
        if (hosts->options->verbose) (void)fprintf(stderr, "lockstep run: host %s: %s\n", host->named.name, line);
}

/* The remote shell has ended before an answer: its last words, and those that are still on their way. */
static void explain_end(const struct ls_run_hosts *hosts, struct ls_host *host) {
    int status = 0;
    const char *what = host->here ? "its agent" : "its remote shell";
    struct pollfd err = {.fd = host->err, .events = POLLIN};
    while (host->err >= 0 && poll(&err, 1, 500) > 0 && ls_frame_read(&host->said, host->err)) continue;
    ls_frame_append(&host->said, "\n", 1);
    show(hosts, host);
    pid_t ended = 0;
    for (int i = 0; i < 100 && !(ended = waitpid(host->pid, &status, WNOHANG)); i++) (void)usleep(5000);
    if (ended > 0) ls_guard_remove(&hosts->guard, host->pid), host->pid = -1;
    if (*host->last)
        (void)snprintf(host->why, sizeof(host->why), "%s", host->last);
    else if (ended > 0 && WIFEXITED(status))
        (void)snprintf(host->why, sizeof(host->why), "%s ended with exit status %d and no word", what,
                       WEXITSTATUS(status));
    else
        (void)snprintf(host->why, sizeof(host->why), "%s ended without a word", what);
}

static void attend(struct ls_run_hosts *hosts, struct ls_host *host, double began) {
    if (host->ready || *host->why) return;
    show(hosts, host);
    ls_reach_answer(hosts, host);
    if (host->ready) host->answered = ls_launch_now() - began;
    if (host->out < 0 && !host->ready && !*host->why) explain_end(hosts, host);
}

/* One round for the hosts that have not answered; false if all have, or have failed. */
static bool wait_once(struct ls_run_hosts *hosts, struct pollfd *polled, double began) {
    int waiting = 0;
    double left = began + hosts->options->limit - ls_launch_now();
    for (int i = 0; i < hosts->count; i++) waiting += !hosts->hosts[i].ready && !*hosts->hosts[i].why;
    if (!waiting || left <= 0) return false;
    ls_hosts_fill(hosts, polled, NULL);
    (void)poll(polled, LS_HOSTS_POLLS((nfds_t)hosts->count), (int)(left * 1000) + 1);
    ls_hosts_move(hosts, polled);
    for (int i = 0; i < hosts->count; i++) attend(hosts, &hosts->hosts[i], began);
    return true;
}

static bool report(const struct ls_run_hosts *hosts) {
    bool all = true;
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        char name[300] = "";
        if (host->ready) continue;
        all = false;
        if (!hosts->options->alone) (void)snprintf(name, sizeof(name), "host %s: ", host->named.name);
        if (*host->why)
            (void)fprintf(stderr, "lockstep run: %s%s\n", name, host->why);
        else
            (void)fprintf(stderr, "lockstep run: %sno answer in %g s (--start-timeout)%s%s\n", name,
                          hosts->options->limit, *host->last ? "; it said: " : "", host->last);
    }
    return all;
}

bool ls_reach(struct ls_run_hosts *hosts) {
    double began = ls_launch_now();
    struct pollfd *polled = calloc(LS_HOSTS_POLLS((size_t)hosts->count), sizeof(*polled));
    if (!polled) return false;
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        const char *shell = host->here ? "here" : hosts->options->shell ? hosts->options->shell : "ssh";
        if (hosts->options->verbose)
            (void)fprintf(stderr, "lockstep run: host %s: starting an agent: %s\n", host->named.name, shell);
        ls_reach_start(hosts, host);
    }
    while (wait_once(hosts, polled, began)) continue;
    free(polled);
    return report(hosts);
}
