/* The mesh of connections: the forming thread drives one small state machine a peer (resolve, connect, Hello, then the
 * data connection of a proposal) with one poll() over all of them, so that nobody waits behind anybody. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
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
                                 .generation = cluster->proposal.number,
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

static bool is_expected(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return cluster->phase == LS_PHASE_FORMING && peer->accepted &&
           peer->incarnation == cluster->proposal.roster[peer->rank];
}

/* The higher rank dials. */
static bool wants_data(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return peer->rank < cluster->rank && is_expected(cluster, peer) && !peer->link;
}

static void step_data(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (is_opening(peer) && (!peer->accepted || peer->data_incarnation != peer->incarnation)) {
        ls_peer_end_data(peer);
        ls_dial_reset(&peer->data);
    }
    if (!wants_data(cluster, peer)) return;
    if (is_opening(peer)) {
        read_answer(peer);
        return;
    }
    int fd = ls_dial_step(&peer->data, peer->task->host, peer->task->port);
    if (fd >= 0) open_data(cluster, peer, fd);
}

void ls_mesh_step(struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        if (rank == cluster->rank) continue;
        step_control(cluster, &cluster->peers[rank]);
        step_data(cluster, &cluster->peers[rank]);
    }
}

bool ls_mesh_connected(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && !ls_peer_connected(&cluster->peers[rank])) return false;
    return true;
}

/* While a generation is formed, who is not on its roster is not missing. */
static bool is_complete(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    if (cluster->phase != LS_PHASE_FORMING) return ls_peer_connected(peer);
    return !cluster->proposal.roster[peer->rank] || (is_expected(cluster, peer) && ls_peer_complete(peer));
}

bool ls_mesh_complete(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && !is_complete(cluster, &cluster->peers[rank])) return false;
    return true;
}

void ls_mesh_drop_data(struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        ls_peer_set_link(peer, NULL);
        ls_peer_end_data(peer);
        ls_dial_reset(&peer->data);
    }
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

int64_t ls_mesh_poll(const struct ls_cluster *cluster, struct pollfd *slots) {
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

void ls_mesh_describe(const struct ls_cluster *cluster, int64_t since, char *text, size_t size) {
    char list[LS_ERROR_SIZE] = "";
    size_t used = 0;
    int missing = 0, untold = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank == cluster->rank || is_complete(cluster, peer)) continue;
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
                   ls_seconds_since(since), list, more);
}
