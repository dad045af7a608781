/* ssh is told to ask nobody anything (BatchMode) and checks the keys of hosts as it does for its user. The command line
 * holds nothing but the path of this program: the rest goes through the agent's standard input. */
#define _GNU_SOURCE
#include "launch/run_reach.h"

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

static _Noreturn void become_shell(const struct ls_run_hosts *hosts, struct ls_host *host) {
    const struct ls_hosts_options *options = hosts->options;
    char command[20000], text[8192], port[16], self[] = "/proc/self/exe", agent[] = "agent", *words[WORDS_MOST];
    char name[] = "lockstep", flag_port[] = "-p", flag_identity[] = "-i", end[] = "--";
    int count = 0;
    make_command(command, sizeof(command));
    (void)snprintf(port, sizeof(port), "%d", options->port);
    if (host->here) {
        char *own[] = {name, agent, NULL};
        (void)execv(self, own);
    } else {
        count = make_words(options, text, sizeof(text), words);
        if (options->port) words[count++] = flag_port, words[count++] = port;
        if (options->identity) words[count++] = flag_identity, words[count++] = (char *)options->identity;
        if (!options->shell) words[count++] = end;
        words[count++] = host->named.target;
        words[count++] = command;
        words[count] = NULL;
        (void)execvp(words[0], words);
    }
    (void)fprintf(stderr, "cannot start %s: %s\n", host->here ? self : words[0], strerror(errno));
    _exit(127);
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
    bool made = !pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC) && !pipe2(err, O_CLOEXEC);
    host->pid = made ? fork() : -1;
    if (!host->pid) {
        (void)setpgid(0, 0); /* what the terminal sends is the launcher's */
        ls_guard_add(&hosts->guard, getpid());
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) _exit(127);
        ls_launch_give_back(hosts->launch);
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
    struct pollfd err = {.fd = host->err, .events = POLLIN};
    while (poll(&err, 1, 500) > 0 && ls_frame_read(&host->said, host->err)) continue;
    ls_frame_append(&host->said, "\n", 1);
    show(hosts, host);
    pid_t ended = 0;
    for (int i = 0; i < 100 && !(ended = waitpid(host->pid, &status, WNOHANG)); i++) (void)usleep(5000);
    if (ended > 0) ls_guard_remove(&hosts->guard, host->pid), host->pid = -1;
    if (*host->last)
        (void)snprintf(host->why, sizeof(host->why), "%s", host->last);
    else if (ended > 0 && WIFEXITED(status))
        (void)snprintf(host->why, sizeof(host->why), "its remote shell ended with exit status %d and no word",
                       WEXITSTATUS(status));
    else
        (void)snprintf(host->why, sizeof(host->why), "its remote shell ended without a word");
}

static void attend(struct ls_run_hosts *hosts, struct ls_host *host, const struct pollfd *polled, double began) {
    bool over = polled[1].revents && !ls_frame_read(&host->from, host->out);
    if (polled[0].revents && !ls_frame_write(&host->to, host->in)) (void)close(host->in), host->in = -1;
    if (polled[2].revents && !ls_frame_read(&host->said, host->err)) (void)close(host->err), host->err = -1;
    show(hosts, host);
    ls_reach_answer(hosts, host);
    if (host->ready) host->answered = ls_launch_now() - began;
    if (over && !host->ready && !*host->why) explain_end(hosts, host);
}

static bool is_settled(const struct ls_host *host) {
    return host->ready || *host->why;
}

/* One round for the hosts that have not answered; false if all have, or have failed. */
static bool wait_once(struct ls_run_hosts *hosts, struct pollfd *polled, double began, double end) {
    int waiting = 0;
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        bool settled = is_settled(host);
        waiting += !settled;
        polled[3 * i] = (struct pollfd){.fd = settled || !host->to.used ? -1 : host->in, .events = POLLOUT};
        polled[3 * i + 1] = (struct pollfd){.fd = settled ? -1 : host->out, .events = POLLIN};
        polled[3 * i + 2] = (struct pollfd){.fd = settled ? -1 : host->err, .events = POLLIN};
    }
    double left = end - ls_launch_now();
    if (!waiting || left <= 0) return false;
    (void)poll(polled, 3 * (nfds_t)hosts->count, (int)(left * 1000) + 1);
    for (int i = 0; i < hosts->count; i++)
        if (!is_settled(&hosts->hosts[i])) attend(hosts, &hosts->hosts[i], polled + 3 * i, began);
    return true;
}

static bool report(const struct ls_run_hosts *hosts) {
    bool all = true;
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        if (host->ready) continue;
        all = false;
        if (*host->why)
            (void)fprintf(stderr, "lockstep run: host %s: %s\n", host->named.name, host->why);
        else
            (void)fprintf(stderr, "lockstep run: host %s: no answer in %g s (--start-timeout)%s%s\n", host->named.name,
                          hosts->options->limit, *host->last ? "; it said: " : "", host->last);
    }
    return all;
}

bool ls_reach(struct ls_run_hosts *hosts) {
    double began = ls_launch_now();
    struct pollfd *polled = calloc(3 * (size_t)hosts->count, sizeof(*polled));
    if (!polled) return false;
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        const char *shell = host->here ? "here" : hosts->options->shell ? hosts->options->shell : "ssh";
        if (hosts->options->verbose)
            (void)fprintf(stderr, "lockstep run: host %s: starting an agent: %s\n", host->named.name, shell);
        ls_reach_start(hosts, host);
    }
    while (wait_once(hosts, polled, began, began + hosts->options->limit)) continue;
    free(polled);
    return report(hosts);
}
