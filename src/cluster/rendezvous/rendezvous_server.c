/* A caller goes through these states: PROVING (it has a challenge; only with a token), WAITING (its place is noted, and
 * others are missing), TELLING (the roster or a refusal is being sent). The listener's thread takes callers in, the
 * rendezvous' own thread does the rest; the monitor guards everything. A worker's host is the address that it connects
 * from; one that comes over loopback is on rank 0's own host.
 *
 * A stranger may ask, too (docs/security.md, "Strangers"). So whatever a caller sends is read at once, for poll() tells
 * of unread bytes for ever. Callers that owe their proof give way when there are too many. Nobody waits for them. */
#include "cluster/rendezvous/rendezvous.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/accept.h"
#include "base/clock.h"
#include "base/deadlines.h"
#include "base/random.h"
#include "base/kept_error.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/thread.h"
#include "cluster/net/listener.h"
#include "cluster/rendezvous/meet_caller.h"
#include "resolver/tf_config.h"

#define SPARE_CALLERS 256 /* more than there are workers; from one address half as many */
#define SAME_TOKENS   "give all workers the same token (LOCKSTEP_TOKEN_FILE or LOCKSTEP_TOKEN)"

struct ls_rendezvous {
    struct ls_monitor monitor;
    struct ls_cluster_view *spec;
    const struct ls_settings *settings;
    const struct ls_log *log;
    struct ls_refusals refusals;
    struct ls_credentials credentials;
    struct ls_meet_caller *callers;
    int caller_count, spare; /* spare: how many more than workers may be here */
    int placed;              /* with rank 0 */
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

/* The caller's host; "" for this one. */
static void find_host(struct ls_rendezvous *rendezvous, const struct ls_meet_caller *caller,
                      char host[LS_ADDRESS_TEXT]) {
    char own[LS_ADDRESS_TEXT];
    ls_meet_caller_host(caller->who, host);
    ls_meet_caller_host(caller->own, own);
    bool here = ls_tf_config_address_is_loopback(host) || !strcmp(host, own);
    if (here) host[0] = 0;
    if (!*rendezvous->own_host && !ls_tf_config_address_is_loopback(own))
        (void)snprintf(rendezvous->own_host, sizeof(rendezvous->own_host), "%s", own);
}

/* ---- words ---- */

static void answer_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller, struct ls_meet_answer answer,
                          const char *purpose, const char *text) {
    ls_meet_caller_answer(caller, ls_credentials_token(&rendezvous->credentials), &answer, purpose, text);
    if (answer.kind != LS_MEET_CHALLENGE) caller->state = LS_MEET_TELLING;
    caller->deadline = ls_now() + LS_HELLO_TIMEOUT;
}

/* Tells the words of the thread's last error. */
static void tell_refusal(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller, ls_status code) {
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text), "%s", ls_error());
    answer_caller(rendezvous, caller, (struct ls_meet_answer){LS_MEET_REFUSAL, code, strlen(text), {0}}, "refusal",
                  text);
}

static void refuse_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller, ls_status code,
                          enum ls_refusal kind) {
    tell_refusal(rendezvous, caller, code);
    ls_refusals_note(&rendezvous->refusals, kind, caller->who, ls_error());
}

static void tell_roster(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    const struct ls_meet_answer answer = {.kind = LS_MEET_ROSTER, .length = rendezvous->roster_size};
    answer_caller(rendezvous, caller, answer, "roster", rendezvous->roster);
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

/* The caller's place is free again where the roster has not gone out. */
static void leave_place(struct ls_rendezvous *rendezvous, const struct ls_meet_caller *caller) {
    if (caller->state != LS_MEET_WAITING || rendezvous->roster) return;
    rendezvous->places[caller->ask.rank] = (struct place){0};
    rendezvous->placed--;
}

/* The rendezvous' thread closes it at its next turn. */
static void dismiss(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    leave_place(rendezvous, caller);
    caller->state = LS_MEET_TELLING;
    caller->size = caller->sent = 0;
    (void)shutdown(caller->fd, SHUT_RDWR);
}

/* A caller that has taken this rank's place and has gone since gives it back. */
static void look_at_holder(struct ls_rendezvous *rendezvous, int rank) {
    for (struct ls_meet_caller *at = rendezvous->callers; at; at = at->next)
        if (at->state == LS_MEET_WAITING && at->ask.rank == rank && ls_meet_caller_has_gone(at))
            dismiss(rendezvous, at);
}

/* Two callers are one rank, and both are there. Each has proved to be a worker: that is a mistake, which ends the
 * second. Without a proof one of them may be a stranger: the second asks again until the first has gone. */
static ls_status refuse_second(const struct ls_rendezvous *rendezvous, const struct ls_meet_caller *caller) {
    const struct ls_credentials *credentials = &rendezvous->credentials;
    const char *host = rendezvous->places[caller->ask.rank].host;
    bool proved = ls_credentials_token(credentials).size || ls_credentials_has_tls(credentials);
    return ls_fail(proved || !caller->ask.rank ? LS_INVALID_ARGUMENT : LS_UNAVAILABLE,
                   "two processes say that they are rank %d of %d: one at %s, one at %s: give each its own rank",
                   caller->ask.rank, caller->ask.size, *host ? host : "rank 0's host", caller->who);
}

/* One rank is one process: until all have come the first that is there counts, later its place. */
static ls_status take_place(struct ls_rendezvous *rendezvous, const struct ls_meet_caller *caller) {
    char host[LS_ADDRESS_TEXT];
    struct place *place = &rendezvous->places[caller->ask.rank];
    find_host(rendezvous, caller, host);
    if (rendezvous->roster && caller->ask.rank && !strcmp(host, place->host)) return LS_OK;
    if (rendezvous->roster && caller->ask.rank)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "rank %d has its place at %s, and who asks is at %s: start it anew on the same host",
                       caller->ask.rank, rendezvous->spec->tasks[caller->ask.rank].address, caller->who);
    look_at_holder(rendezvous, caller->ask.rank);
    if (place->port) return refuse_second(rendezvous, caller);
    (void)snprintf(place->host, sizeof(place->host), "%s", host);
    place->port = caller->ask.port;
    rendezvous->placed++;
    return LS_OK;
}

static void admit_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    ls_status status = take_place(rendezvous, caller);
    ls_address_tune(caller->fd); /* it may wait long, and its host may vanish */
    caller->state = LS_MEET_WAITING;
    caller->deadline = LS_NEVER;
    if (!status && !rendezvous->roster && rendezvous->placed == rendezvous->spec->num_workers)
        status = make_roster(rendezvous);
    if (status) {
        refuse_caller(rendezvous, caller, status, LS_REFUSED_DIFFERENT);
        return;
    }
    for (struct ls_meet_caller *at = rendezvous->callers; at && rendezvous->roster; at = at->next)
        if (at->state == LS_MEET_WAITING) tell_roster(rendezvous, at);
}

static void challenge(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    const struct ls_meet_answer answer = {.kind = LS_MEET_CHALLENGE, .length = LS_MEET_NONCE};
    caller->deadline = ls_now() + LS_HELLO_TIMEOUT;
    if (ls_entropy_fill(caller->nonce, LS_MEET_NONCE)) return;
    answer_caller(rendezvous, caller, answer, "challenge", (const char *)caller->nonce);
    (void)ls_meet_caller_send(caller); /* at once, for its time may be short */
}

/* ---- callers; with the monitor held ---- */

static void end_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller **at) {
    struct ls_meet_caller *caller = *at;
    *at = caller->next;
    rendezvous->caller_count--;
    leave_place(rendezvous, caller); /* it has gone before the others came: it may come again */
    ls_meet_caller_free(caller);
    ls_monitor_broadcast(&rendezvous->monitor);
}

static void judge_proof(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    uint8_t proof[LS_PROOF_SIZE];
    struct ls_secret token = ls_credentials_token(&rendezvous->credentials);
    if (ls_meet_prove(token, "ask", &caller->ask, caller->nonce, (struct ls_secret){0}, proof) &&
        ls_proof_equal(caller->shown, proof, sizeof(proof)))
        admit_caller(rendezvous, caller);
    else
        refuse_caller(
            rendezvous, caller,
            ls_fail(LS_UNAUTHENTICATED, "rank %d and rank 0 have different tokens: " SAME_TOKENS, caller->ask.rank),
            LS_REFUSED_TOKEN);
}

static bool attend_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller, short events) {
    bool heard = events & (POLLIN | POLLHUP | POLLERR);
    if (heard && caller->state == LS_MEET_WAITING && ls_meet_caller_has_gone(caller)) return true;
    if (heard && caller->state == LS_MEET_PROVING && ls_meet_caller_hear(caller)) return true;
    if (caller->state == LS_MEET_PROVING && caller->heard == sizeof(caller->shown)) judge_proof(rendezvous, caller);
    if (ls_meet_caller_send(caller)) return true;
    if (ls_now() < caller->deadline) return false;
    ls_refusals_note(&rendezvous->refusals, LS_REFUSED_SILENT, caller->who, "it has asked for addresses, and no more");
    return true;
}

static struct pollfd *list_slots(struct ls_rendezvous *rendezvous, int *count, int64_t *until) {
    struct pollfd *slots = ls_alloc_array((size_t)rendezvous->caller_count + 1, sizeof(*slots));
    *count = 0;
    *until = LS_NEVER;
    if (!slots) return NULL;
    slots[(*count)++] = (struct pollfd){.fd = rendezvous->wake, .events = POLLIN};
    for (const struct ls_meet_caller *at = rendezvous->callers; at; at = at->next) {
        short events = at->sent < at->size ? POLLOUT : POLLIN;
        slots[(*count)++] = (struct pollfd){.fd = at->fd, .events = events};
        if (at->deadline < *until) *until = at->deadline;
    }
    return slots;
}

/* Callers are added at the list's end alone, so that slot i stays the i-th caller's while the monitor is free. */
static void attend_all(struct ls_rendezvous *rendezvous, const struct pollfd *slots, int count) {
    struct ls_meet_caller **at = &rendezvous->callers;
    for (int i = 1; i < count && *at; i++) {
        if (attend_caller(rendezvous, *at, slots[i].revents))
            end_caller(rendezvous, at);
        else
            at = &(*at)->next;
    }
}

static void *serve_callers(void *argument) {
    struct ls_rendezvous *rendezvous = argument;
    ls_monitor_lock(&rendezvous->monitor);
    while (!rendezvous->stopping) {
        eventfd_t events;
        int count;
        int64_t until;
        struct pollfd *slots = list_slots(rendezvous, &count, &until);
        ls_monitor_unlock(&rendezvous->monitor);
        ls_accept_rest(count - 1);
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
                                   const struct ls_meet_caller *caller) {
    if (!ls_credentials_has_tls(&rendezvous->credentials)) return LS_OK;
    LS_CLEANUP(ls_free_pointer) char *certificate = ls_relay_certificate(relay, caller->fd);
    if (!ls_credentials_check(&rendezvous->credentials, certificate, "worker", caller->ask.rank)) return LS_OK;
    char why[256];
    (void)snprintf(why, sizeof(why), "%s", ls_error());
    return ls_fail(LS_UNAUTHENTICATED,
                   "rank 0 refuses who says it is rank %d: its certificate (LOCKSTEP_TLS_CERTIFICATE) %s",
                   caller->ask.rank, why);
}

/* Makes room for one more: the oldest that owes its proof gives way, of this source where that has too many. */
static void make_place(struct ls_rendezvous *rendezvous, const struct ls_rate_source *source) {
    struct ls_meet_caller *oldest = NULL, *oldest_there = NULL;
    int count = 0, there = 0, workers = rendezvous->spec->num_workers;
    for (struct ls_meet_caller *at = rendezvous->callers; at; at = at->next) {
        if (at->state != LS_MEET_PROVING) continue;
        if (!count++) oldest = at;
        if (ls_rate_limit_source_equal(&at->source, source) && !there++) oldest_there = at;
    }
    bool crowd = there >= workers + rendezvous->spare / 2;
    if (!crowd && count < workers + rendezvous->spare) return;
    struct ls_meet_caller *leaves = crowd ? oldest_there : oldest;
    ls_refusals_note(&rendezvous->refusals, LS_REFUSED_CROWD, leaves->who, "too many ask for addresses and no more");
    dismiss(rendezvous, leaves);
}

static void add_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller) {
    struct ls_meet_caller **end = &rendezvous->callers;
    while (*end) end = &(*end)->next;
    *end = caller;
    rendezvous->caller_count++;
    (void)eventfd_write(rendezvous->wake, 1);
}

/* A caller that is refused is told so at once and closed: the rendezvous' thread sleeps on. */
static void take_caller(struct ls_rendezvous *rendezvous, struct ls_meet_caller *caller, ls_status refused) {
    enum ls_refusal kind = refused ? LS_REFUSED_CERTIFICATE : LS_REFUSED_DIFFERENT;
    bool token = ls_credentials_token(&rendezvous->credentials).size;
    bool full = rendezvous->caller_count >= 2 * (rendezvous->spec->num_workers + rendezvous->spare);
    if (!refused) refused = check_ask(rendezvous, &caller->ask);
    if (refused) refuse_caller(rendezvous, caller, refused, kind);
    if (full || (refused && ls_meet_caller_send(caller))) {
        ls_meet_caller_free(caller);
        return;
    }
    if (!refused && token) make_place(rendezvous, &caller->source);
    add_caller(rendezvous, caller);
    if (!refused && token)
        challenge(rendezvous, caller);
    else if (!refused)
        admit_caller(rendezvous, caller);
}

void ls_rendezvous_server_take(struct ls_rendezvous *rendezvous, int fd, struct ls_relay *relay) {
    bool relayed = ls_credentials_has_tls(&rendezvous->credentials);
    struct ls_meet_caller *caller = ls_meet_caller_new(fd, relayed ? relay : NULL);
    if (!caller) return;
    ls_status status = check_certificate(rendezvous, relay, caller);
    LS_HOLD(&rendezvous->monitor);
    take_caller(rendezvous, caller, status);
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
    for (struct ls_meet_caller *at = rendezvous->callers; at; at = at->next)
        if (at->state == LS_MEET_WAITING) tell_refusal(rendezvous, at, status);
    (void)eventfd_write(rendezvous->wake, 1);
    return status;
}

static bool is_drained(const struct ls_rendezvous *rendezvous) {
    for (const struct ls_meet_caller *at = rendezvous->callers; at; at = at->next)
        if (at->awaited) return false;
    return true;
}

/* Until the words that are under way now have gone. A caller that owes its proof is served later, or dials again. */
static void drain_callers(struct ls_rendezvous *rendezvous) {
    int64_t deadline = ls_now() + LS_HELLO_TIMEOUT;
    for (struct ls_meet_caller *at = rendezvous->callers; at; at = at->next) at->awaited = at->state == LS_MEET_TELLING;
    while (!is_drained(rendezvous) && ls_monitor_wait(&rendezvous->monitor, deadline)) continue;
}

ls_status ls_rendezvous_server_collect(struct ls_rendezvous *rendezvous) {
    int64_t deadline = ls_deadline_in(rendezvous->settings->join_timeout);
    double interval = rendezvous->settings->report_interval;
    int64_t report = ls_deadline_in(interval);
    char missing[256];
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
    struct ls_kept_error kept = ls_kept_error_of(status);
    drain_callers(rendezvous);
    ls_monitor_unlock(&rendezvous->monitor);
    return ls_kept_error_raise(&kept);
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
    ls_refusals_report(&rendezvous->refusals);
    ls_credentials_release(&rendezvous->credentials);
    ls_free(rendezvous->places);
    free(rendezvous->roster); /* of open_memstream */
    ls_monitor_destroy(&rendezvous->monitor);
    ls_free(rendezvous);
}

ls_status ls_rendezvous_server_new(struct ls_cluster_view *spec, const struct ls_settings *settings,
                                   const struct ls_log *log, struct ls_credentials *credentials,
                                   struct ls_rendezvous **made) {
    LS_NEW(struct ls_rendezvous, rendezvous, "a rendezvous");
    ls_status status = ls_monitor_init(&rendezvous->monitor);
    rendezvous->spec = spec;
    rendezvous->settings = settings;
    rendezvous->log = log;
    rendezvous->refusals.log = log;
    rendezvous->spare = ls_accept_most(SPARE_CALLERS, 1);
    rendezvous->credentials = *credentials;
    rendezvous->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rendezvous->places = ls_alloc_array((size_t)spec->num_workers, sizeof(*rendezvous->places));
    if (!status && (rendezvous->wake < 0 || !rendezvous->places))
        status = ls_fail_memory("a rendezvous", (size_t)spec->num_workers * sizeof(*rendezvous->places));
    if (!status) {
        rendezvous->places[0].port = spec->meet_port;
        rendezvous->placed = 1;
        status = ls_thread_start(&rendezvous->thread, "ls-rendezvous", serve_callers, rendezvous);
        rendezvous->thread_runs = !status;
    }
    *(status ? &rendezvous->credentials : credentials) = (struct ls_credentials){0};
    return LS_HAND_OVER(status, made, rendezvous, ls_rendezvous_server_free(rendezvous));
}
