/* The caller's thread does it all. Rank 0 opens the port that its cluster is going to have, and closes it when all have
 * been told. The other ranks hold the port that they have chosen until they know the roster. */
#include "cluster/rendezvous/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "cluster/net/dial.h"
#include "cluster/net/listener.h"
#include "cluster/rendezvous/meet.h"
#include "cluster/security/certificate.h"

#define TURN        (100 * LS_MILLISECOND) /* at most, before the deadline is looked at */
#define FIRST_PORT  61440                  /* above the ports that Linux gives to clients */
#define PORTS       4096
#define SAME_TOKENS "give all workers the same token (LOCKSTEP_TOKEN_FILE or LOCKSTEP_TOKEN), or none"

struct visit {
    struct ls_cluster_view *spec;
    const struct ls_settings *settings;
    const struct ls_log *log;
    struct ls_credentials credentials;
    struct ls_refusals refusals;
    struct ls_relay *relay;
    struct ls_dial dial;
    int held; /* a bound socket of the own port; -1: none */
    struct ls_meet_ask ask;
    uint8_t nonce[LS_MEET_NONCE]; /* rank 0's */
    int64_t deadline, report;
    bool met;      /* rank 0 has taken the ask */
    char why[256]; /* the last connection's end, in words */
};

/* ---- rank 0 ---- */

struct hosting {
    struct visit *visit;
    struct ls_rendezvous *rendezvous; /* it outlives the listener, and has the credentials */
    const struct ls_tls_identity *identity;
};

static void take_ask(void *context, int fd) {
    const struct hosting *hosting = context;
    ls_rendezvous_server_take(hosting->rendezvous, fd, hosting->visit->relay);
}

static void note_difference(void *context) {
    (void)context; /* the caller knows the reason, and the refusals count it */
}

static ls_status open_port(struct hosting *hosting, struct ls_listener **listener) {
    struct visit *visit = hosting->visit;
    int fds[LS_MAX_LISTEN], count = 0;
    ls_status status = ls_address_listen(visit->spec, &visit->spec->tasks[0], visit->log, fds, &count);
    if (status) return status;
    const struct ls_listener_config config = {.listening = fds,
                                              .listening_count = count,
                                              .refusals = &visit->refusals,
                                              .relay = visit->relay,
                                              .identity = hosting->identity,
                                              .context = hosting,
                                              .meet = take_ask,
                                              .differed = note_difference};
    return ls_listener_new(&config, listener);
}

static ls_status host_rendezvous(struct visit *visit, struct ls_rendezvous **kept) {
    struct hosting hosting = {visit, NULL, visit->credentials.identity};
    struct ls_listener *listener = NULL;
    ls_status status =
        ls_rendezvous_server_new(visit->spec, visit->settings, visit->log, &visit->credentials, &hosting.rendezvous);
    if (!status) status = open_port(&hosting, &listener);
    if (!status) status = ls_rendezvous_server_collect(hosting.rendezvous);
    ls_listener_free(listener);
    if (status) ls_relay_free(ls_steal(visit->relay)); /* it has connections of the identity */
    return LS_HAND_OVER(status, kept, hosting.rendezvous, ls_rendezvous_server_free(hosting.rendezvous));
}

/* ---- the own port ---- */

/* Holds a free port until its listener opens it. The search begins elsewhere for each rank of each job. */
static ls_status hold_port(struct visit *visit) {
    uint64_t first = visit->spec->job + (uint64_t)visit->spec->id_in_cluster;
    for (uint64_t i = 0; i < PORTS && visit->held < 0; i++) {
        visit->ask.port = FIRST_PORT + (int)((first % PORTS + i) % PORTS);
        if (visit->ask.port != visit->spec->meet_port) visit->held = ls_address_hold(visit->ask.port);
    }
    if (visit->held >= 0) return LS_OK;
    return ls_fail(LS_RESOURCE_EXHAUSTED, "no port from %d to %d is free on this host", FIRST_PORT,
                   FIRST_PORT + PORTS - 1);
}

/* ---- the other ranks ---- */

static const char *address_of(const struct visit *visit) {
    return visit->spec->tasks[0].address;
}

/* Waits a turn for events on fd (-1: only for time to pass). */
static ls_status wait_turn(struct visit *visit, int fd, short events, int64_t until) {
    struct pollfd slot = {.fd = fd, .events = events};
    int64_t turn = ls_now() + TURN;
    (void)poll(&slot, 1, ls_poll_timeout(until < turn ? until : turn, 1000));
    bool connected = visit->met;
    const char *why = visit->dial.why[0] ? visit->dial.why : "no answer yet";
    if (ls_now() >= visit->deadline)
        return ls_fail(LS_DEADLINE_EXCEEDED,
                       connected ? "waited for all others to come to rank 0 at %s (rank 0 names them)"
                                 : "waited for rank 0 at %s: %s. Start all within LOCKSTEP_JOIN_TIMEOUT (seconds) of "
                                   "each other, or set it higher",
                       address_of(visit), why);
    if (ls_now() < visit->report) return LS_OK;
    visit->report = ls_deadline_in(visit->settings->report_interval);
    if (connected)
        ls_log_info(visit->log, "waiting for the others to come to rank 0 at %s", address_of(visit));
    else
        ls_log_info(visit->log, "waiting for rank 0 at %s: %s", address_of(visit), why);
    return LS_OK;
}

/* Reads all of size, or *got bytes to the end of the connection. */
static ls_status read_bytes(struct visit *visit, int fd, void *data, size_t size, size_t *got) {
    *got = 0;
    while (*got < size) {
        ssize_t done = recv(fd, (char *)data + *got, size - *got, MSG_DONTWAIT);
        if (done > 0) *got += (size_t)done;
        if (!done || (done < 0 && errno != EAGAIN && errno != EINTR)) return LS_OK;
        ls_status status = done < 0 ? wait_turn(visit, fd, POLLIN, LS_NEVER) : LS_OK;
        if (status) return status;
    }
    return LS_OK;
}

/* Reads one answer; *text is allocated, and NULL where the connection has ended before. */
static ls_status read_answer(struct visit *visit, int fd, struct ls_meet_answer *answer, char **text) {
    uint8_t header[LS_MEET_HEADER] = {0};
    size_t got;
    *text = NULL;
    ls_status status = read_bytes(visit, fd, header, sizeof(header), &got);
    if (status || !got) return status;
    if (got < sizeof(header) && memcmp(header, LS_TLS_HERE, sizeof(LS_TLS_HERE) - 1) != 0) return LS_OK;
    status = ls_meet_decode_answer(header, answer);
    if (status) return ls_fail_context(status, "rank 0 at %s", address_of(visit));
    char *made = ls_alloc(answer->length + 1);
    if (!made) return ls_fail_memory("rank 0's answer", answer->length);
    status = read_bytes(visit, fd, made, answer->length, &got);
    if (status || got < answer->length) {
        ls_free(made);
        return status;
    }
    *text = made;
    return LS_OK;
}

static ls_status check_proof(const struct visit *visit, const struct ls_meet_answer *answer, const char *purpose,
                             const char *text) {
    struct ls_secret token = ls_credentials_token(&visit->credentials);
    uint8_t proof[LS_PROOF_SIZE];
    if (!token.size) return LS_OK;
    if (ls_meet_prove(token, purpose, &visit->ask, visit->nonce, (struct ls_secret){text, answer->length}, proof) &&
        ls_proof_equal(proof, answer->proof, sizeof(proof)))
        return LS_OK;
    return ls_fail(LS_UNAUTHENTICATED, "rank 0 at %s has another token than rank %d, or none: " SAME_TOKENS,
                   address_of(visit), visit->ask.rank);
}

static ls_status prove_token(struct visit *visit, int fd, const struct ls_meet_answer *answer, const char *text) {
    uint8_t proof[LS_PROOF_SIZE];
    struct ls_secret token = ls_credentials_token(&visit->credentials);
    if (!token.size)
        return ls_fail(LS_UNAUTHENTICATED, "rank 0 at %s has a token and rank %d has none: " SAME_TOKENS,
                       address_of(visit), visit->ask.rank);
    memcpy(visit->nonce, text, sizeof(visit->nonce));
    ls_status status = check_proof(visit, answer, "challenge", text);
    if (status) return status;
    if (ls_meet_prove(token, "ask", &visit->ask, visit->nonce, (struct ls_secret){0}, proof))
        (void)send(fd, proof, sizeof(proof), MSG_NOSIGNAL | MSG_DONTWAIT);
    return LS_OK;
}

static ls_status take_roster(struct visit *visit, const struct ls_meet_answer *answer, const char *text) {
    struct ls_cluster_view *spec = visit->spec;
    ls_status status = check_proof(visit, answer, "roster", text);
    if (!status) status = ls_meet_read_roster(spec, text, answer->length);
    if (!status) status = ls_cluster_view_complete(spec);
    return status;
}

/* UNAVAILABLE passes: rank 0 is asked again. */
static ls_status hear_refusal(struct visit *visit, ls_status code, const char *text) {
    if (code != LS_UNAVAILABLE) return ls_fail(code, "rank 0 at %s: %s", address_of(visit), text);
    (void)snprintf(visit->why, sizeof(visit->why), "%s", text);
    return LS_OK;
}

/* Talks on a connection until the roster has come (*done), or the connection ends, or an error ends the job. */
static ls_status talk(struct visit *visit, int fd, bool *done) {
    uint8_t bytes[LS_MEET_SIZE];
    struct ls_meet_answer answer;
    char *text = NULL;
    memset(visit->nonce, 0, sizeof(visit->nonce));
    (void)snprintf(visit->why, sizeof(visit->why), "it has closed the connection");
    ls_meet_encode_ask(&visit->ask, bytes);
    (void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    visit->met = true;
    ls_status status = read_answer(visit, fd, &answer, &text);
    if (!status && text && answer.kind == LS_MEET_CHALLENGE) {
        status = prove_token(visit, fd, &answer, text);
        ls_free(ls_steal(text));
        if (!status) status = read_answer(visit, fd, &answer, &text);
    }
    if (!status && text && answer.kind == LS_MEET_ROSTER) {
        status = take_roster(visit, &answer, text);
        *done = !status;
    } else if (!status && text && answer.kind == LS_MEET_REFUSAL) {
        text[answer.length] = 0;
        status = hear_refusal(visit, answer.code, text);
    }
    ls_free(text);
    visit->met = false;
    return status;
}

/* The certificate is refused, or only one side has TLS: dialling again does not help. */
static ls_status judge_dial(const struct visit *visit) {
    switch (visit->dial.verdict) {
    case LS_DIAL_WITHOUT_TLS:
        return ls_fail(LS_UNAUTHENTICATED,
                       "rank %d has TLS and rank 0 at %s has none: set LOCKSTEP_TLS_* on all, or "
                       "on none",
                       visit->ask.rank, address_of(visit));
    case LS_DIAL_UNTRUSTED:
        return ls_fail(LS_UNAUTHENTICATED, "rank %d refuses the certificate of rank 0 at %s: it %s", visit->ask.rank,
                       address_of(visit), visit->dial.why);
    case LS_DIAL_REFUSED:
        return ls_fail(LS_UNAUTHENTICATED, "rank 0 at %s refuses the certificate of rank %d: it %s", address_of(visit),
                       visit->ask.rank, visit->dial.why);
    default:
        return LS_OK;
    }
}

static ls_status ask_rank_0(struct visit *visit) {
    const struct ls_cluster_view *spec = visit->spec;
    ls_status status = LS_OK;
    bool done = false;
    ls_dial_init(&visit->dial, visit->credentials.identity, visit->relay, &spec->tasks[0]);
    while (!status && !done) {
        struct pollfd slot;
        int fd = ls_dial_step(&visit->dial, spec->meet_host, spec->meet_port);
        if (fd >= 0) {
            status = talk(visit, fd, &done);
            (void)close(fd);
            if (!status && !done) ls_dial_fail(&visit->dial, visit->why);
            continue;
        }
        status = judge_dial(visit);
        int64_t until = ls_dial_poll(&visit->dial, &slot);
        if (!status) status = wait_turn(visit, slot.fd, slot.events, until);
    }
    ls_dial_reset(&visit->dial);
    return status;
}

static ls_status visit_rank_0(struct visit *visit) {
    const struct ls_cluster_view *spec = visit->spec;
    visit->ask.protocol = LS_PROTOCOL_VERSION;
    visit->ask.rank = spec->id_in_cluster;
    visit->ask.size = spec->num_workers;
    visit->ask.token = ls_credentials_token(&visit->credentials).size;
    visit->ask.job = spec->job;
    visit->deadline = ls_deadline_in(visit->settings->join_timeout);
    visit->report = ls_deadline_in(visit->settings->report_interval);
    ls_status status = ls_entropy_fill(visit->ask.nonce, LS_MEET_NONCE);
    if (!status) status = hold_port(visit);
    if (!status) status = ask_rank_0(visit);
    if (visit->held >= 0) (void)close(visit->held);
    visit->held = -1;
    return status;
}

/* ---- both ---- */

static ls_status meet(struct visit *visit, struct ls_rendezvous **kept) {
    char name[LS_CERTIFICATE_NAME];
    ls_certificate_name("worker", visit->spec->id_in_cluster, name);
    ls_status status = ls_credentials_read(visit->settings, name, visit->log, &visit->credentials);
    if (!status) status = ls_relay_new(&visit->refusals, &visit->relay);
    if (status) return status;
    return visit->spec->id_in_cluster ? visit_rank_0(visit) : host_rendezvous(visit, kept);
}

/* The variables of AWS Batch do not say the main node's own name to itself. */
static ls_status name_rank_0(struct ls_cluster_view *spec) {
    char own[256] = "localhost";
    if (*spec->meet_host) return LS_OK;
    (void)gethostname(own, sizeof(own) - 1);
    return ls_cluster_view_place(&spec->tasks[0], own, spec->meet_port);
}

ls_status ls_rendezvous_meet(struct ls_cluster_view *spec, const struct ls_settings *settings, const struct ls_log *log,
                             struct ls_rendezvous **kept) {
    if (!spec->meet_port) return LS_OK;
    struct visit visit = {.spec = spec, .settings = settings, .log = log, .refusals = {.log = log}, .held = -1};
    ls_status status = name_rank_0(spec);
    if (!status) status = meet(&visit, kept);
    struct ls_kept_error error = ls_kept_error_of(status);
    ls_relay_free(visit.relay);
    ls_refusals_report(&visit.refusals);
    ls_credentials_release(&visit.credentials);
    return ls_kept_error_raise(&error);
}
