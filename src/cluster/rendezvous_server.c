/* A caller goes through these states: PROVING (it has a challenge; only with a token), WAITING (its place is noted, and
 * others are missing), TELLING (the roster or a refusal is being sent). The listener's thread takes callers in, the
 * rendezvous' own thread does the rest; the monitor guards everything. A worker's host is the address that it connects
 * from; one that comes over loopback is on rank 0's own host. */
#include "cluster/rendezvous_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/entropy.h"
#include "base/memory.h"
#include "base/monitor.h"
#include "base/status.h"
#include "base/thread.h"
#include "cluster/auth_tls.h"
#include "cluster/net/listener.h"
#include "cluster/meet.h"
#include "cluster/security/certificate.h"

#define SPARE_CALLERS 64
#define SAME_TOKENS   "give all workers the same token (LOCKSTEP_TOKEN_FILE or LOCKSTEP_TOKEN)"

enum state { PROVING, WAITING, TELLING };
struct caller {
    struct caller *next;
    int fd;
    enum state state;
    int64_t deadline;
    char who[LS_ADDRESS_TEXT], own[LS_ADDRESS_TEXT]; /* both ends' addresses */
    struct ls_meet_ask ask;
    uint8_t nonce[LS_MEET_NONCE];
    char *words; /* to be sent, NULL: nothing */
    size_t size, sent;
};

struct ls_rendezvous {
    struct ls_monitor monitor;
    struct ls_cluster_view *spec;
    const struct ls_settings *settings;
    const struct ls_log *log;
    struct ls_credentials credentials;
    struct caller *callers;
    int caller_count, placed; /* placed: with rank 0 */
    struct place {
        char host[LS_ADDRESS_TEXT]; /* "": it has not come */
        int port;
    } * places;                     /* [size] */
    char own_host[LS_ADDRESS_TEXT]; /* this host, as others see it; "": only this host has called */
    char *roster;                   /* NULL: not all have come */
    size_t roster_size;
    bool stopping, thread_runs;
    int wake;
    pthread_t thread;
};

/* ---- addresses ---- */

/* The host of "10.0.0.9:4711" or "[fd00::9]:4711"; of an IPv4 address in IPv6's clothes the IPv4 address. */
static void read_host(const char *who, char host[LS_ADDRESS_TEXT]) {
    const char *mapped = "::ffff:", *begin = *who == '[' ? who + 1 : who;
    const char *end = *who == '[' ? strchr(who, ']') : strrchr(who, ':');
    if (!strncmp(begin, mapped, strlen(mapped)) && strchr(begin, '.')) begin += strlen(mapped);
    (void)snprintf(host, LS_ADDRESS_TEXT, "%.*s", end && end > begin ? (int)(end - begin) : 0, begin);
}

/* The caller's host; "" for this one. */
static void find_host(struct ls_rendezvous *rendezvous, const struct caller *caller, char host[LS_ADDRESS_TEXT]) {
    char own[LS_ADDRESS_TEXT];
    read_host(caller->who, host);
    read_host(caller->own, own);
    bool here = ls_address_is_loopback(host) || !strcmp(host, own);
    if (here) host[0] = 0;
    if (!*rendezvous->own_host && !ls_address_is_loopback(own))
        (void)snprintf(rendezvous->own_host, sizeof(rendezvous->own_host), "%s", own);
}

/* ---- words ---- */

/* Queues an answer and its text. After it the caller is closed, if it is TELLING. */
static void answer_caller(struct ls_rendezvous *rendezvous, struct caller *caller, struct ls_meet_answer *answer,
                          const char *purpose, const char *text) {
    struct ls_secret token = ls_credentials_token(&rendezvous->credentials);
    struct ls_secret bytes = {text, answer->length};
    ls_free(caller->words);
    caller->size = LS_MEET_HEADER + answer->length;
    caller->sent = 0;
    caller->words = ls_alloc(caller->size);
    if (!caller->words) caller->size = 0;
    if (!caller->words) return;
    if (token.size) (void)ls_meet_prove(token, purpose, &caller->ask, caller->nonce, bytes, answer->proof);
    ls_meet_encode_answer(answer, (uint8_t *)caller->words);
    memcpy(caller->words + LS_MEET_HEADER, text, answer->length);
}

/* Refuses with the words of the thread's last error. */
static void refuse_caller(struct ls_rendezvous *rendezvous, struct caller *caller, ls_status code) {
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text), "%s", ls_error());
    ls_log_warning(rendezvous->log, "rank %d (%s) is refused: %s", caller->ask.rank, caller->who, text);
    struct ls_meet_answer answer = {.kind = LS_MEET_REFUSAL, .code = code, .length = strlen(text)};
    answer_caller(rendezvous, caller, &answer, "refusal", text);
    caller->state = TELLING;
    caller->deadline = ls_now() + LS_HELLO_TIMEOUT;
}

static void tell_roster(struct ls_rendezvous *rendezvous, struct caller *caller) {
    struct ls_meet_answer answer = {.kind = LS_MEET_ROSTER, .length = rendezvous->roster_size};
    answer_caller(rendezvous, caller, &answer, "roster", rendezvous->roster);
    caller->state = TELLING;
    caller->deadline = ls_now() + LS_HELLO_TIMEOUT;
}

/* ---- places ---- */

static ls_status make_roster(struct ls_rendezvous *rendezvous) {
    struct ls_cluster_view *spec = rendezvous->spec;
    const char *own = *rendezvous->own_host ? rendezvous->own_host : "127.0.0.1";
    ls_status status = LS_OK;
    for (int i = 0; i < spec->task_count && !status; i++) {
        const struct place *place = &rendezvous->places[i];
        status = ls_cluster_view_place(&spec->tasks[i], *place->host ? place->host : own, place->port);
    }
    if (!status) status = ls_cluster_view_complete(spec);
    if (!status) rendezvous->roster = ls_meet_print_roster(spec, &rendezvous->roster_size);
    return !status && !rendezvous->roster ? ls_fail_memory("a roster", 0) : status;
}

static ls_status check_ask(const struct ls_rendezvous *rendezvous, const struct ls_meet_ask *ask) {
    int size = rendezvous->spec->num_workers;
    if (ask->protocol != LS_PROTOCOL_VERSION)
        return ls_fail(LS_INVALID_ARGUMENT, "rank %d has protocol %u and rank 0 has %u: start all from the same build",
                       ask->rank, ask->protocol, LS_PROTOCOL_VERSION);
    if (ask->size != size)
        return ls_fail(LS_INVALID_ARGUMENT, "rank %d says that there are %d workers, and rank 0 that there are %d",
                       ask->rank, ask->size, size);
    if (ask->job != rendezvous->spec->job)
        return ls_fail(LS_INVALID_ARGUMENT, "rank %d is of another job than rank 0: give each job a port of its own",
                       ask->rank);
    bool token = ls_credentials_token(&rendezvous->credentials).size;
    if (ask->token != token)
        return ls_fail(LS_UNAUTHENTICATED, "rank 0 has %s token and rank %d has %s: " SAME_TOKENS ", or none",
                       token ? "a" : "no", ask->rank, token ? "none" : "one");
    return LS_OK;
}

/* One rank is one process: until all have come the first counts, later its place. */
static ls_status take_place(struct ls_rendezvous *rendezvous, const struct caller *caller) {
    char host[LS_ADDRESS_TEXT];
    struct place *place = &rendezvous->places[caller->ask.rank];
    find_host(rendezvous, caller, host);
    if (rendezvous->roster && caller->ask.rank && !strcmp(host, place->host)) return LS_OK;
    if (rendezvous->roster && caller->ask.rank)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "rank %d has its place at %s, and who asks is at %s: start it anew on the same host",
                       caller->ask.rank, rendezvous->spec->tasks[caller->ask.rank].address, caller->who);
    if (place->port)
        return ls_fail(LS_INVALID_ARGUMENT, "two processes say that they are rank %d of %d: one at %s, one at %s",
                       caller->ask.rank, caller->ask.size, *place->host ? place->host : "rank 0's host", caller->who);
    (void)snprintf(place->host, sizeof(place->host), "%s", host);
    place->port = caller->ask.port;
    rendezvous->placed++;
    return LS_OK;
}

static void admit(struct ls_rendezvous *rendezvous, struct caller *caller) {
    ls_status status = take_place(rendezvous, caller);
    caller->state = WAITING;
    caller->deadline = LS_NEVER;
    if (!status && !rendezvous->roster && rendezvous->placed == rendezvous->spec->num_workers)
        status = make_roster(rendezvous);
    if (status) {
        refuse_caller(rendezvous, caller, status);
        return;
    }
    for (struct caller *at = rendezvous->callers; at && rendezvous->roster; at = at->next)
        if (at->state == WAITING) tell_roster(rendezvous, at);
}

static void challenge(struct ls_rendezvous *rendezvous, struct caller *caller) {
    struct ls_meet_answer answer = {.kind = LS_MEET_CHALLENGE, .length = LS_MEET_NONCE};
    caller->deadline = ls_now() + LS_HELLO_TIMEOUT;
    if (!ls_entropy_fill(caller->nonce, LS_MEET_NONCE))
        answer_caller(rendezvous, caller, &answer, "challenge", (const char *)caller->nonce);
}

/* ---- callers; with the monitor held ---- */

static void end_caller(struct ls_rendezvous *rendezvous, struct caller **at) {
    struct caller *caller = *at;
    *at = caller->next;
    rendezvous->caller_count--;
    if (caller->state == WAITING && !rendezvous->roster) { /* it has gone before the others came: it may come again */
        rendezvous->places[caller->ask.rank] = (struct place){0};
        rendezvous->placed--;
    }
    (void)close(caller->fd);
    ls_free(caller->words);
    ls_free(caller);
    ls_monitor_broadcast(&rendezvous->monitor);
}

static void hear_proof(struct ls_rendezvous *rendezvous, struct caller *caller) {
    uint8_t shown[LS_PROOF_SIZE], proof[LS_PROOF_SIZE];
    struct ls_secret token = ls_credentials_token(&rendezvous->credentials);
    if (recv(caller->fd, shown, sizeof(shown), MSG_PEEK | MSG_DONTWAIT) < (ssize_t)sizeof(shown)) return;
    (void)recv(caller->fd, shown, sizeof(shown), MSG_DONTWAIT);
    if (ls_meet_prove(token, "ask", &caller->ask, caller->nonce, (struct ls_secret){0}, proof) &&
        ls_proof_equal(shown, proof, sizeof(proof)))
        admit(rendezvous, caller);
    else
        refuse_caller(
            rendezvous, caller,
            ls_fail(LS_UNAUTHENTICATED, "rank %d and rank 0 have different tokens: " SAME_TOKENS, caller->ask.rank));
}

static bool has_gone(const struct caller *caller) {
    char byte;
    ssize_t size = recv(caller->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return !size || (size < 0 && errno != EAGAIN && errno != EINTR) || (size > 0 && caller->state == WAITING);
}

/* Sends what is queued. True: the caller is to be closed. */
static bool send_words(struct caller *caller) {
    while (caller->sent < caller->size) {
        ssize_t done =
            send(caller->fd, caller->words + caller->sent, caller->size - caller->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (done <= 0) return true;
        caller->sent += (size_t)done;
    }
    return caller->state == TELLING;
}

static bool attend(struct ls_rendezvous *rendezvous, struct caller *caller, short events) {
    if (events & (POLLIN | POLLHUP | POLLERR) && caller->state != TELLING && has_gone(caller)) return true;
    if (events & POLLIN && caller->state == PROVING) hear_proof(rendezvous, caller);
    return send_words(caller) || ls_now() >= caller->deadline;
}

static struct pollfd *fill_slots(struct ls_rendezvous *rendezvous, int *count, int64_t *until) {
    struct pollfd *slots = ls_alloc_array((size_t)rendezvous->caller_count + 1, sizeof(*slots));
    *count = 0;
    *until = LS_NEVER;
    if (!slots) return NULL;
    slots[(*count)++] = (struct pollfd){.fd = rendezvous->wake, .events = POLLIN};
    for (const struct caller *at = rendezvous->callers; at; at = at->next) {
        short events = at->sent < at->size ? POLLOUT : POLLIN;
        slots[(*count)++] = (struct pollfd){.fd = at->fd, .events = events};
        if (at->deadline < *until) *until = at->deadline;
    }
    return slots;
}

/* Callers are added at the list's end alone, so that slot i stays the i-th caller's while the monitor is free. */
static void attend_all(struct ls_rendezvous *rendezvous, const struct pollfd *slots, int count) {
    struct caller **at = &rendezvous->callers;
    for (int i = 1; i < count && *at; i++) {
        if (attend(rendezvous, *at, slots[i].revents))
            end_caller(rendezvous, at);
        else
            at = &(*at)->next;
    }
}

static void *serve(void *argument) {
    struct ls_rendezvous *rendezvous = argument;
    ls_monitor_lock(&rendezvous->monitor);
    while (!rendezvous->stopping) {
        eventfd_t events;
        int count;
        int64_t until;
        struct pollfd *slots = fill_slots(rendezvous, &count, &until);
        ls_monitor_unlock(&rendezvous->monitor);
        (void)poll(slots, (nfds_t)count, slots ? ls_poll_timeout(until, 60000) : 100);
        if (slots && slots[0].revents) (void)eventfd_read(rendezvous->wake, &events);
        ls_monitor_lock(&rendezvous->monitor);
        if (slots) attend_all(rendezvous, slots, count);
        ls_free(slots);
    }
    ls_monitor_unlock(&rendezvous->monitor);
    return NULL;
}

/* ---- from the listener ---- */

static ls_status check_certificate(const struct ls_rendezvous *rendezvous, struct ls_relay *relay,
                                   const struct caller *caller) {
    char name[LS_CERTIFICATE_NAME];
    if (!ls_credentials_has_tls(&rendezvous->credentials)) return LS_OK;
    ls_auth_tls_name("worker", caller->ask.rank, name);
    LS_CLEANUP(ls_free_pointer) char *certificate = ls_relay_certificate(relay, caller->fd);
    if (certificate && ls_certificate_verify(certificate, rendezvous->credentials.authority, name) == LS_OK)
        return LS_OK;
    char why[256];
    (void)snprintf(why, sizeof(why), "%s", certificate ? ls_error() : "is missing");
    return ls_fail(LS_UNAUTHENTICATED,
                   "rank 0 refuses who says it is rank %d: its certificate (LOCKSTEP_TLS_CERTIFICATE) %s",
                   caller->ask.rank, why);
}

static void add_caller(struct ls_rendezvous *rendezvous, struct caller *caller, ls_status refused) {
    struct caller **end = &rendezvous->callers;
    while (*end) end = &(*end)->next;
    *end = caller;
    rendezvous->caller_count++;
    if (!refused) refused = check_ask(rendezvous, &caller->ask);
    if (refused)
        refuse_caller(rendezvous, caller, refused);
    else if (ls_credentials_token(&rendezvous->credentials).size)
        challenge(rendezvous, caller);
    else
        admit(rendezvous, caller);
    (void)eventfd_write(rendezvous->wake, 1);
}

void ls_rendezvous_server_take(struct ls_rendezvous *rendezvous, int fd, struct ls_relay *relay) {
    uint8_t bytes[LS_MEET_SIZE];
    struct caller *caller = ls_alloc(sizeof(*caller));
    if (!caller || recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) != LS_MEET_SIZE ||
        ls_meet_decode_ask(bytes, &caller->ask)) {
        ls_free(caller);
        (void)close(fd);
        return;
    }
    caller->fd = fd;
    ls_address_tune(fd);
    caller->state = PROVING;
    if (ls_credentials_has_tls(&rendezvous->credentials)) {
        ls_relay_describe(relay, fd, caller->who);
        ls_relay_describe_own(relay, fd, caller->own);
    } else {
        ls_address_describe(fd, caller->who);
        ls_address_describe_own(fd, caller->own);
    }
    ls_status status = check_certificate(rendezvous, relay, caller);
    ls_monitor_lock(&rendezvous->monitor);
    if (rendezvous->caller_count < rendezvous->spec->num_workers + SPARE_CALLERS) {
        add_caller(rendezvous, caller, status);
    } else {
        (void)close(fd);
        ls_free(caller);
    }
    ls_monitor_unlock(&rendezvous->monitor);
}

/* ---- rank 0 itself ---- */

/* "ranks 2, 5 and 7 more", with the monitor held. */
static void name_missing(const struct ls_rendezvous *rendezvous, char *text, size_t size) {
    int missing = rendezvous->spec->num_workers - rendezvous->placed, named = 0;
    size_t used = (size_t)snprintf(text, size, missing == 1 ? "rank " : "ranks ");
    for (int rank = 1; rank < rendezvous->spec->num_workers && named < 16; rank++)
        if (!rendezvous->places[rank].port)
            used += (size_t)snprintf(text + used, size - used, "%s%d", named++ ? ", " : "", rank);
    if (missing > named) (void)snprintf(text + used, size - used, " and %d more", missing - named);
}

static ls_status give_up(struct ls_rendezvous *rendezvous, const char *missing) {
    ls_status status = ls_fail(LS_DEADLINE_EXCEEDED,
                               "rank 0 waited for %s at port %d of %s. Start all %d within %g s of each other, or set "
                               "LOCKSTEP_JOIN_TIMEOUT (seconds) higher",
                               missing, rendezvous->spec->meet_port, rendezvous->spec->tasks[0].host,
                               rendezvous->spec->num_workers, rendezvous->settings->join_timeout);
    for (struct caller *at = rendezvous->callers; at; at = at->next)
        if (at->state == WAITING) refuse_caller(rendezvous, at, status);
    (void)eventfd_write(rendezvous->wake, 1);
    return status;
}

/* Until the last word has gone. */
static void drain(struct ls_rendezvous *rendezvous) {
    int64_t deadline = ls_now() + LS_HELLO_TIMEOUT;
    while (rendezvous->callers && ls_monitor_wait(&rendezvous->monitor, deadline)) continue;
}

ls_status ls_rendezvous_server_collect(struct ls_rendezvous *rendezvous) {
    int64_t deadline = ls_deadline_in(rendezvous->settings->join_timeout);
    double interval = rendezvous->settings->report_interval;
    int64_t report = ls_deadline_in(interval);
    char missing[256], error[LS_ERROR_SIZE];
    ls_status status = LS_OK;
    ls_monitor_lock(&rendezvous->monitor);
    while (!rendezvous->roster && !status) {
        (void)ls_monitor_wait(&rendezvous->monitor, report < deadline ? report : deadline);
        name_missing(rendezvous, missing, sizeof(missing));
        if (rendezvous->roster) break;
        if (ls_now() >= deadline) status = give_up(rendezvous, missing);
        if (status || ls_now() < report) continue;
        ls_log_info(rendezvous->log, "waiting for %s at port %d of %s", missing, rendezvous->spec->meet_port,
                    rendezvous->spec->tasks[0].host);
        report = ls_deadline_in(interval);
    }
    (void)snprintf(error, sizeof(error), "%s", status ? ls_error() : "");
    drain(rendezvous);
    ls_monitor_unlock(&rendezvous->monitor);
    return status ? ls_fail(status, "%s", error) : LS_OK;
}

void ls_rendezvous_server_free(struct ls_rendezvous *rendezvous) {
    if (!rendezvous) return;
    ls_monitor_lock(&rendezvous->monitor);
    rendezvous->stopping = true;
    ls_monitor_unlock(&rendezvous->monitor);
    if (rendezvous->thread_runs) {
        (void)eventfd_write(rendezvous->wake, 1);
        (void)pthread_join(rendezvous->thread, NULL);
    }
    while (rendezvous->callers) end_caller(rendezvous, &rendezvous->callers);
    if (rendezvous->wake >= 0) (void)close(rendezvous->wake);
    ls_credentials_release(&rendezvous->credentials);
    ls_free(rendezvous->places);
    free(rendezvous->roster); /* of open_memstream */
    ls_monitor_destroy(&rendezvous->monitor);
    ls_free(rendezvous);
}

ls_status ls_rendezvous_server_new(struct ls_cluster_view *spec, const struct ls_settings *settings,
                                   const struct ls_log *log, struct ls_credentials *credentials,
                                   struct ls_rendezvous **made) {
    struct ls_rendezvous *rendezvous = ls_alloc(sizeof(*rendezvous));
    ls_status status = rendezvous ? ls_monitor_init(&rendezvous->monitor) : LS_RESOURCE_EXHAUSTED;
    if (status) {
        ls_free(rendezvous);
        ls_credentials_release(credentials);
        return ls_fail_memory("a rendezvous", sizeof(*rendezvous));
    }
    rendezvous->spec = spec;
    rendezvous->settings = settings;
    rendezvous->log = log;
    rendezvous->credentials = *credentials;
    rendezvous->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rendezvous->places = ls_alloc_array((size_t)spec->num_workers, sizeof(*rendezvous->places));
    if (rendezvous->wake < 0 || !rendezvous->places)
        status = ls_fail_memory("a rendezvous", (size_t)spec->num_workers * sizeof(*rendezvous->places));
    if (!status) {
        rendezvous->places[0].port = spec->meet_port;
        rendezvous->placed = 1;
        status = ls_thread_start(&rendezvous->thread, "ls-rendezvous", serve, rendezvous);
        rendezvous->thread_runs = !status;
    }
    if (status)
        ls_rendezvous_server_free(rendezvous);
    else
        *made = rendezvous;
    return status;
}
