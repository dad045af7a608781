/* All probes in one poll() loop. One round of dialling each: who asks wants to know how it is now. */
#include "tools/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/grow.h"
#include "base/new.h"
#include "cluster/net/preface.h"
#include "cluster/security/credentials.h"
#include "base/plain.h"

#define ANSWER_MAX ((size_t)1 << 20)
static const char first_line[] = "lockstep=1\n", last_line[] = "\nend=1\n";

static void finish_probe(struct ls_probe *probe, enum ls_probe_state state, const char *why) {
    probe->state = state;
    (void)snprintf(probe->why, sizeof(probe->why), "%s", why);
    if (probe->fd >= 0) (void)close(probe->fd);
    probe->fd = -1;
    ls_dial_reset(&probe->dial);
}

/* ---- an answer ---- */

static bool is_whole(const struct ls_probe *probe) {
    size_t first = sizeof(first_line) - 1, last = sizeof(last_line) - 1;
    return probe->size >= first + last && !memcmp(probe->answer, first_line, first) &&
           !memcmp(probe->answer + probe->size - last, last_line, last) && !memchr(probe->answer, 0, probe->size);
}

/* All that a worker with TLS says to who asks without; it keeps the connection open for a while. */
static bool wants_tls(const struct ls_probe *probe) {
    return probe->size == sizeof(LS_TLS_HERE) - 1 && !memcmp(probe->answer, LS_TLS_HERE, probe->size);
}

static void judge_answer(struct ls_probe *probe) {
    if (is_whole(probe))
        finish_probe(probe, LS_PROBE_ANSWERED, "");
    else if (wants_tls(probe))
        finish_probe(probe, LS_PROBE_FOREIGN,
                     "it has TLS: set LOCKSTEP_TLS_* here too, to a certificate of its authority");
    else if (probe->size && memcmp(probe->answer, first_line, 8))
        finish_probe(probe, LS_PROBE_FOREIGN, "something else listens there: its answer is not Lockstep's");
    else if (probe->size)
        finish_probe(probe, LS_PROBE_FOREIGN, "its answer was cut off");
    else
        finish_probe(
            probe, LS_PROBE_FOREIGN,
            "it closes the connection without an answer: something else listens there, or a Lockstep without probes");
}

static bool make_room(struct ls_probe *probe) {
    const struct ls_growth growth = {1, 8192, ANSWER_MAX, "an answer"};
    return !ls_grow(&probe->answer, &probe->capacity, probe->size + 2, &growth);
}

static void receive_answer(struct ls_probe *probe) {
    while (probe->state == LS_PROBE_UNDER_WAY) {
        if (!make_room(probe)) {
            finish_probe(probe, LS_PROBE_FOREIGN, "something else listens there: its answer has no end");
            return;
        }
        ssize_t got = recv(probe->fd, probe->answer + probe->size, probe->capacity - probe->size - 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got > 0) {
            if (!probe->size) probe->round_trip = ls_now() - probe->asked;
            probe->size += (size_t)got;
            probe->answer[probe->size] = 0;
        }
        if (got <= 0 || is_whole(probe) || wants_tls(probe)) judge_answer(probe);
    }
}

static void ask_task(struct ls_probe *probe, int fd) {
    probe->fd = fd;
    probe->asked = ls_now();
    if (send(fd, LS_PROBE_REQUEST, LS_PROBE_SIZE, MSG_NOSIGNAL) != LS_PROBE_SIZE) judge_answer(probe);
}

static void step(struct ls_probe *probe) {
    if (probe->fd >= 0) {
        receive_answer(probe);
        return;
    }
    int fd = ls_dial_step(&probe->dial, probe->task->host, probe->task->port);
    if (fd >= 0)
        ask_task(probe, fd);
    else if (probe->dial.retry_at)
        finish_probe(probe, LS_PROBE_UNREACHABLE, probe->dial.why);
}

/* Steps each probe under way, and fills slots and *until for the next wait. Returns how many are still under way. */
static int step_all(struct ls_probe *probes, int count, struct pollfd *slots, int64_t *until) {
    int going = 0;
    for (int i = 0; i < count; i++) {
        struct ls_probe *probe = &probes[i];
        slots[i] = (struct pollfd){.fd = -1};
        if (probe->state == LS_PROBE_UNDER_WAY) step(probe);
        if (probe->state != LS_PROBE_UNDER_WAY) continue;
        going++;
        int64_t own = *until;
        if (probe->fd >= 0)
            slots[i] = (struct pollfd){.fd = probe->fd, .events = POLLIN};
        else
            own = ls_dial_poll(&probe->dial, &slots[i]);
        if (own < *until) *until = own;
    }
    return going;
}

static void give_up_waiting(struct ls_probe *probe, double seconds) {
    char why[128];
    bool connected = probe->fd >= 0;
    if (probe->state != LS_PROBE_UNDER_WAY) return;
    if (connected)
        (void)ls_plain_text(why, sizeof(why), "somebody listens there, but does not answer within %g s", seconds);
    else
        (void)ls_plain_text(why, sizeof(why), "%s within %g s",
                            probe->dial.fd >= 0 ? "no answer" : "its name is not resolved", seconds);
    finish_probe(probe, connected ? LS_PROBE_SILENT : LS_PROBE_UNREACHABLE, why);
}

/* A probe with LOCKSTEP_TLS_* asks workers that have TLS. */
struct guard {
    struct ls_settings settings;
    struct ls_credentials security;
    struct ls_refusals refusals;
    struct ls_relay *relay;
};

static void release_guard(struct guard *guard) {
    ls_relay_free(guard->relay);
    ls_credentials_release(&guard->security);
}

static ls_status make_guard(struct guard *guard) {
    ls_status status = ls_settings_read(&guard->settings);
    if (!status) status = ls_credentials_read_tls(&guard->settings, NULL, NULL, &guard->security);
    if (!status) status = ls_relay_new(&guard->refusals, &guard->relay);
    return status;
}

static void prepare_dial(struct ls_probe *probe, const struct guard *guard) {
    probe->fd = -1;
    ls_dial_init(&probe->dial, guard->security.identity, guard->relay, NULL); /* the answer says which task it is */
}

static ls_status ask_all(struct ls_probe *probes, int count, double seconds) {
    int64_t deadline = ls_deadline_in(seconds);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct pollfd, slots, (size_t)count, "descriptors to poll");
    for (int64_t until = deadline; step_all(probes, count, slots, &until) && ls_now() < deadline; until = deadline)
        (void)poll(slots, (nfds_t)count, ls_poll_timeout(until, 1000));
    for (int i = 0; i < count; i++) give_up_waiting(&probes[i], seconds);
    return LS_OK;
}

ls_status ls_probe_all(struct ls_probe *probes, int count, double seconds) {
    LS_CLEANUP(release_guard) struct guard guard = {.relay = NULL};
    ls_status status = make_guard(&guard);
    for (int i = 0; i < count && !status; i++) prepare_dial(&probes[i], &guard);
    return status ? status : ask_all(probes, count, seconds);
}

void ls_probe_free(struct ls_probe *probe) {
    free(probe->answer);
    probe->answer = NULL;
}

/* ---- its fields ---- */

static const char *find_field(const struct ls_probe *probe, const char *field) {
    size_t length = strlen(field);
    for (const char *line = probe->answer; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, field, length) && line[length] == '=') return line + length + 1;
    }
    return "";
}

const char *ls_probe_text(const struct ls_probe *probe, const char *field, char *text, size_t size) {
    const char *value = find_field(probe, field);
    (void)snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = '?';
    return text;
}

int64_t ls_probe_number(const struct ls_probe *probe, const char *field) {
    return strtoll(find_field(probe, field), NULL, 10);
}

char *ls_probe_cluster(const struct ls_probe *probe) {
    const char *begin = strstr(probe->answer, "\ncluster."), *end = probe->answer + probe->size - strlen(last_line);
    if (!begin || begin > end) return ls_strdup("");
    char *text = ls_strdup(begin + 1);
    if (text) text[end - begin] = 0;
    return text;
}

void ls_probe_digest(const char *cluster, char digest[13]) {
    char hex[65];
    if (ls_digest_sha256(cluster, strlen(cluster), hex)) hex[0] = 0;
    (void)snprintf(digest, 13, "%.12s", hex);
}

/* ---- lists ---- */

int ls_probes_count(const struct ls_cluster_view *config) {
    return config->num_workers + config->num_servers;
}

ls_status ls_probes_new(const struct ls_cluster_view *config, struct ls_probe **probes) {
    size_t count = (size_t)ls_probes_count(config);
    LS_NEW_ARRAY(struct ls_probe, made, count, "probes");
    for (int rank = 0; rank < (int)count; rank++) {
        made[rank].task = ls_cluster_view_member(config, rank);
        if (made[rank].task) continue;
        ls_free(made);
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: no task has rank %d", rank);
    }
    *probes = made;
    return LS_OK;
}

void ls_probes_free(struct ls_probe *probes, int count) {
    for (int i = 0; probes && i < count; i++) ls_probe_free(&probes[i]);
    ls_free(probes);
}
