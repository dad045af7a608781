/* Joining: the caller's thread drives one small state machine a peer (resolve, connect, Hello, then the data
 * connection) with one poll() over all of them, so that nobody waits behind anybody, and says every few seconds who is
 * missing and why. Ready when every peer is connected in both directions and has its data connection; joined when all
 * have said that they are ready. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/state.h"

#define SLOTS_A_PEER 3 /* control connect, data connect, data answer */

/* What gRPC calls the peer: with TLS the name that its certificate must have. */
static const char *target_of(const struct ls_cluster *cluster, const struct ls_peer *peer,
                             char name[LS_CERTIFICATE_NAME]) {
    if (!ls_security_has_tls(&cluster->security)) return peer->task->address;
    ls_certify_name(ls_task_type_name(peer->task->type), peer->task->index, name);
    return name;
}

static void open_control(struct ls_cluster *cluster, struct ls_peer *peer, int fd) {
    char name[LS_CERTIFICATE_NAME];
    if (ls_rpc_open(cluster->rpc, fd, target_of(cluster, peer, name), &peer->out)) {
        ls_dial_fail(&peer->control, ls_error());
        return;
    }
    ls_rpc_set_user(peer->out, peer);
    peer->hello_deadline = ls_now() + LS_HELLO_TIMEOUT;
    ls_prove_open(cluster, peer->out);
}

static void step_control(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (peer->attempt_over) {
        ls_dial_fail(&peer->control, peer->why);
        peer->attempt_over = false;
    }
    if (peer->out && !peer->accepted && ls_now() >= peer->hello_deadline) {
        ls_rpc_drop(peer->out);
        peer->out = NULL;
        if (!peer->in) ls_peer_adopt(peer, 0);
        ls_dial_fail(&peer->control, "no answer (connected, but it does not reply)");
    }
    if (peer->out) return;
    int fd = ls_dial_step(&peer->control, peer->task->host, peer->task->port);
    if (fd >= 0) open_control(cluster, peer, fd);
}

static void fail_data(struct ls_peer *peer, const char *why) {
    ls_peer_end_data(peer);
    ls_dial_fail(&peer->data, why);
}

static void send_preface(struct ls_peer *peer, int fd, const uint8_t *preface) {
    peer->data_fd = fd;
    if (send(fd, preface, LS_PREFACE_SIZE, MSG_NOSIGNAL) != LS_PREFACE_SIZE)
        fail_data(peer, "its data connection was closed");
}

static void open_data(struct ls_cluster *cluster, struct ls_peer *peer, int fd) {
    uint8_t bytes[LS_PREFACE_SIZE];
    char name[LS_CERTIFICATE_NAME];
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION,
                                 .rank = cluster->rank,
                                 .generation = cluster->generation,
                                 .incarnation = cluster->incarnation,
                                 .attempt = ++peer->data_attempts};
    (void)ls_preface_sign(&preface, peer->key_out); /* one without a proof is refused */
    ls_preface_encode(&preface, bytes);
    peer->data_deadline = ls_now() + LS_HELLO_TIMEOUT;
    peer->data_incarnation = peer->incarnation;
    if (!ls_cluster_data_over_grpc(cluster))
        send_preface(peer, fd, bytes);
    else if (ls_rpc_link_open(cluster->rpc, fd, target_of(cluster, peer, name), bytes, sizeof(bytes), &peer->data_link))
        fail_data(peer, ls_error());
}

enum answer { ANSWER_NONE, ANSWER_YES, ANSWER_NO };

static enum answer read_byte(int fd) {
    uint8_t answer = 0;
    ssize_t size = recv(fd, &answer, 1, MSG_DONTWAIT);
    if (size < 0) return ANSWER_NONE;
    return size == 1 && answer == LS_PREFACE_ACK ? ANSWER_YES : ANSWER_NO;
}

static enum answer read_state(struct ls_link *link) {
    enum ls_rpc_link_state state = ls_rpc_link_state(link);
    if (state == LS_RPC_LINK_OPENING) return ANSWER_NONE;
    return state == LS_RPC_LINK_OPEN ? ANSWER_YES : ANSWER_NO;
}

static void accept_link(struct ls_peer *peer) {
    struct ls_link *link = ls_steal(peer->data_link);
    if (!link && ls_tcp_link_new(peer->data_fd, &link))
        fail_data(peer, ls_error());
    else
        peer->data_fd = -1;
    if (link) ls_peer_set_link(peer, link);
}

static void read_answer(struct ls_peer *peer) {
    enum answer answer = peer->data_link ? read_state(peer->data_link) : read_byte(peer->data_fd);
    if (answer == ANSWER_YES)
        accept_link(peer);
    else if (answer == ANSWER_NO)
        fail_data(peer, "its data connection was refused");
    else if (ls_now() >= peer->data_deadline)
        fail_data(peer, "its data connection gets no answer");
}

static bool is_opening(const struct ls_peer *peer) {
    return peer->data_fd >= 0 || peer->data_link;
}

/* The higher rank dials; the key comes with the answer to its Hello. */
static void step_data(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (is_opening(peer) && (!peer->accepted || peer->data_incarnation != peer->incarnation)) {
        ls_peer_end_data(peer);
        ls_dial_reset(&peer->data);
    }
    if (peer->rank > cluster->rank || !peer->accepted || peer->link) return;
    if (is_opening(peer)) {
        read_answer(peer);
        return;
    }
    int fd = ls_dial_step(&peer->data, peer->task->host, peer->task->port);
    if (fd >= 0) open_data(cluster, peer, fd);
}

static bool wants_data(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return peer->rank < cluster->rank && peer->accepted && !peer->link;
}

/* Steps all peers; true when all are complete. */
static bool step_all(struct ls_cluster *cluster) {
    bool complete = true;
    for (int rank = 0; rank < cluster->size; rank++) {
        if (rank == cluster->rank) continue;
        step_control(cluster, &cluster->peers[rank]);
        step_data(cluster, &cluster->peers[rank]);
        complete = complete && ls_peer_complete(&cluster->peers[rank]);
    }
    return complete;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* What to wait for on behalf of one peer. */
static int64_t fill_slots(const struct ls_cluster *cluster, const struct ls_peer *peer, struct pollfd *slots) {
    int64_t until = LS_NEVER;
    for (int i = 0; i < SLOTS_A_PEER; i++) slots[i] = (struct pollfd){.fd = -1};
    if (!peer->out)
        until = ls_dial_poll(&peer->control, &slots[0]);
    else if (!peer->accepted)
        until = peer->hello_deadline;
    if (!wants_data(cluster, peer)) return until;
    if (!is_opening(peer)) return earlier(until, ls_dial_poll(&peer->data, &slots[1]));
    slots[2] = (struct pollfd){.fd = peer->data_fd, .events = POLLIN}; /* over gRPC the poller wakes this thread */
    return earlier(until, peer->data_deadline);
}

static int64_t fill_all(const struct ls_cluster *cluster, struct pollfd *slots) {
    int64_t until = LS_NEVER;
    slots[0] = (struct pollfd){.fd = cluster->wake, .events = POLLIN};
    slots[1] = (struct pollfd){.fd = ls_abort_fd(cluster->config.abort), .events = POLLIN};
    for (int rank = 0; rank < cluster->size; rank++) {
        struct pollfd *own = slots + 2 + (size_t)rank * SLOTS_A_PEER;
        if (rank != cluster->rank)
            until = earlier(until, fill_slots(cluster, &cluster->peers[rank], own));
        else
            for (int i = 0; i < SLOTS_A_PEER; i++) own[i] = (struct pollfd){.fd = -1};
    }
    return until;
}

/* "2 of 4 workers since 10 s: worker:2 (10.0.0.3:2222): connection refused; ..." */
static void describe_missing(struct ls_cluster *cluster, char *text, size_t size) {
    char list[LS_ERROR_SIZE] = "";
    size_t used = 0;
    int missing = 0, untold = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank == cluster->rank || ls_peer_complete(peer)) continue;
        char one[512];
        int length = snprintf(one, sizeof(one), "%s%s: %s", missing++ ? "; " : "", peer->where, ls_peer_reason(peer));
        if (length < 0 || (size_t)length >= sizeof(one)) length = (int)strlen(one);
        if (used + (size_t)length + 240 > size) {
            untold++;
            continue;
        }
        memcpy(list + used, one, (size_t)length + 1);
        used += (size_t)length;
    }
    char more[32] = "";
    if (untold) (void)snprintf(more, sizeof(more), "; and %d more", untold);
    (void)snprintf(text, size, "%d of %d workers since %.0f s: %.760s%s", missing, cluster->size,
                   ls_seconds_since(cluster->started), list, more);
}

static ls_status report(struct ls_cluster *cluster, int64_t deadline, int64_t *next_report) {
    char text[LS_ERROR_SIZE];
    int64_t now = ls_now();
    if (now < deadline && now < *next_report) return LS_OK;
    ls_monitor_lock(&cluster->monitor);
    describe_missing(cluster, text, sizeof(text));
    bool ending = cluster->refusal != LS_OK;
    ls_monitor_unlock(&cluster->monitor);
    if (ending) {
        *next_report = LS_NEVER;
        return LS_OK;
    }
    if (now >= deadline)
        return ls_fail(
            LS_DEADLINE_EXCEEDED,
            "waited for %s. Start all tasks within %g s of each other, or set LOCKSTEP_JOIN_TIMEOUT (seconds) "
            "higher",
            text, cluster->config.join_timeout);
    ls_log_info(cluster->config.log, "waiting for %s", text);
    *next_report = now + (int64_t)(cluster->config.settings->report_interval * (double)LS_SECOND);
    return LS_OK;
}

/* A difference ends the join once everybody who can be reached soon is connected, or told already. */
static bool refused(const struct ls_cluster *cluster) {
    if (!cluster->refusal || ls_now() >= cluster->refusal_deadline) return cluster->refusal != LS_OK;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank != cluster->rank && !peer->told && !peer->accepted) return false;
    }
    return true;
}

/* One look at everything: LS_OK and *ready, or what ends the join. */
static ls_status look(struct ls_cluster *cluster, struct pollfd *slots, int64_t *until, bool *ready) {
    ls_status status = LS_OK;
    ls_monitor_lock(&cluster->monitor);
    if (step_all(cluster) && !cluster->refusal) {
        cluster->phase = LS_PHASE_READY;
        *ready = true;
    }
    *until = fill_all(cluster, slots);
    if (cluster->refusal) *until = earlier(*until, cluster->refusal_deadline);
    if (refused(cluster)) status = ls_fail(cluster->refusal, "%s", cluster->refusal_text);
    ls_monitor_unlock(&cluster->monitor);
    if (!status && ls_abort_raised(cluster->config.abort)) status = ls_abort_status(cluster->config.abort);
    return status;
}

static ls_status connect_all(struct ls_cluster *cluster, int64_t deadline) {
    size_t count = 2 + (size_t)cluster->size * SLOTS_A_PEER;
    LS_CLEANUP(ls_free_pointer) struct pollfd *slots = ls_alloc_array(count, sizeof(*slots));
    if (!slots) return ls_fail_memory("descriptors to poll", count * sizeof(*slots));
    int64_t next_report = ls_deadline_in(cluster->config.settings->report_interval);
    for (;;) {
        int64_t until;
        bool ready = false;
        ls_status status = look(cluster, slots, &until, &ready);
        if (!status && !ready) status = report(cluster, deadline, &next_report);
        if (status || ready) return status;
        until = earlier(until, earlier(deadline, next_report));
        if (poll(slots, (nfds_t)count, ls_poll_timeout(until, 1000)) > 0 && slots[0].revents) {
            eventfd_t events;
            (void)eventfd_read(cluster->wake, &events);
        }
    }
}

/* Nobody starts before everybody is connected to everybody. */
static ls_status confirm(struct ls_cluster *cluster, int64_t deadline) {
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *received = ls_alloc_array((size_t)cluster->size, sizeof(*received));
    if (!received) return ls_fail_memory("the joins", (size_t)cluster->size * sizeof(*received));
    int64_t left = deadline == LS_NEVER ? 0 : deadline - ls_now();
    double seconds = left > LS_SECOND ? (double)left / (double)LS_SECOND : 1;
    ls_status status = ls_cluster_exchange(cluster, "join", (struct ls_bytes){NULL, 0}, seconds, received);
    if (status == LS_DEADLINE_EXCEEDED)
        return ls_fail_context(status,
                               "connected to all workers, but not all of them to each other within the %g s of "
                               "LOCKSTEP_JOIN_TIMEOUT",
                               cluster->config.join_timeout);
    if (status) return status;
    for (int rank = 0; rank < cluster->size; rank++) ls_free(received[rank].data);
    ls_monitor_lock(&cluster->monitor);
    cluster->phase = LS_PHASE_MEMBER;
    ls_monitor_unlock(&cluster->monitor);
    return LS_OK;
}

static void give_up(struct ls_cluster *cluster, ls_status status) {
    char message[LS_ERROR_SIZE];
    (void)snprintf(message, sizeof(message), "%s", ls_error());
    struct ls_leave leave = {.code = status, .root = cluster->rank, .message = message};
    ls_cluster_end(cluster, &leave);
    (void)ls_fail(status, "%s", message);
}

ls_status ls_cluster_join(const struct ls_cluster_config *config, struct ls_cluster **made) {
    struct ls_cluster *cluster;
    int64_t deadline = ls_deadline_in(config->join_timeout);
    ls_status status = ls_cluster_new(config, &cluster);
    if (status) return status;
    status = connect_all(cluster, deadline);
    if (!status) status = confirm(cluster, deadline);
    if (status)
        give_up(cluster, status);
    else
        *made = cluster;
    return status;
}
