/* The source of a generation's data links: the caller's thread dials, while it waits for a link, by one small state
 * machine a peer (resolve, connect, preface, answer). */
#include "cluster/data_source.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/cluster_private.h"
#include "cluster/data_link.h"
#include "cluster/peer.h"
#include "cluster/rpc/rpc_link.h"
#include "collective/link/tcp.h"

/* ---- dialling ---- */

static void fail_opening(struct ls_peer_data *data, const char *why) {
    ls_data_link_end_opening(data);
    ls_dial_fail(&data->dial, why);
}

static void send_preface(struct ls_peer_data *data, int fd, const uint8_t *preface) {
    data->fd = fd;
    if (send(fd, preface, LS_PREFACE_SIZE, MSG_NOSIGNAL) != LS_PREFACE_SIZE)
        fail_opening(data, "its data connection was closed");
}

static void open_link(struct ls_cluster *cluster, struct ls_peer *peer, int fd) {
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION,
                                 .rank = cluster->rank,
                                 .to = peer->rank,
                                 .generation = cluster->proposal.number,
                                 .incarnation = cluster->incarnation,
                                 .attempt = ++peer->data.attempts};
    (void)ls_preface_sign(&preface, cluster->proposal.key); /* one without a proof is refused */
    ls_preface_encode(&preface, bytes);
    peer->data.deadline = ls_now() + LS_HELLO_TIMEOUT;
    if (!ls_data_link_uses_grpc(cluster))
        send_preface(&peer->data, fd, bytes);
    else if (ls_rpc_link_open(cluster->net.rpc, fd, peer->task->address, bytes, sizeof(bytes), &peer->data.opening))
        fail_opening(&peer->data, ls_error());
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

static void accept_link(struct ls_peer_data *data) {
    struct ls_link *link = ls_steal(data->opening);
    if (!link && ls_tcp_link_new(data->fd, &link))
        fail_opening(data, ls_error());
    else
        data->fd = -1;
    data->link = link;
}

static void read_answer(struct ls_peer_data *data) {
    enum answer answer = data->opening ? read_state(data->opening) : read_byte(data->fd);
    if (answer == ANSWER_YES)
        accept_link(data);
    else if (answer == ANSWER_NO)
        fail_opening(data, "its data connection was refused");
    else if (ls_now() >= data->deadline)
        fail_opening(data, "its data connection gets no answer");
}

static bool is_opening(const struct ls_peer_data *data) {
    return data->fd >= 0 || data->opening;
}

/* ---- the source of a generation ---- */

struct data_source {
    struct ls_link_source source; /* first */
    struct ls_cluster *cluster;   /* borrowed; not used when the source is closed: it may be gone then */
    uint64_t generation;
};

static struct data_source *source_of(struct ls_link_source *source) {
    return (struct data_source *)(void *)source;
}

/* The one that the link is to; NULL: there is no memory. With the monitor held. */
static struct ls_peer *peer_of(const struct data_source *source, int rank) {
    return ls_peer_meet(source->cluster, source->cluster->members[rank]);
}

/* The higher rank dials. */
static bool dials(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return peer->rank < cluster->rank;
}

static void dial_on(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (is_opening(&peer->data)) {
        read_answer(&peer->data);
        return;
    }
    int fd = ls_dial_step(&peer->data.dial, peer->task->host, peer->task->port);
    if (fd >= 0) open_link(cluster, peer, fd);
}

/* The control plane holds the other one for alive, and it cannot be reached. */
static ls_status give_up_dial(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    const struct ls_peer *own = cluster->peers[cluster->rank];
    if (!peer->data.dial.why[0] || ls_now() - peer->data.asked < LS_LINK_TIMEOUT) return LS_OK;
    return ls_fail(LS_UNAVAILABLE, "%s (rank %d) and %s (rank %d) are cut off from each other: %s for %.0f s",
                   own->where, own->rank, peer->where, peer->rank, peer->data.dial.why,
                   ls_seconds_since(peer->data.asked));
}

static ls_status find_link(struct ls_cluster *cluster, struct ls_peer *peer, struct ls_link **link) {
    if (!peer->data.asked) peer->data.asked = ls_now();
    if (!peer->data.link && dials(cluster, peer)) dial_on(cluster, peer);
    *link = ls_steal(peer->data.link);
    return *link || !dials(cluster, peer) ? LS_OK : give_up_dial(cluster, peer);
}

static ls_status take_link(struct ls_link_source *base, int rank, struct ls_link **link) {
    const struct data_source *source = source_of(base);
    struct ls_cluster *cluster = source->cluster;
    eventfd_t events;
    ls_status status = LS_OK;
    *link = NULL;
    (void)eventfd_read(cluster->net.link_wake, &events);
    ls_monitor_lock(&cluster->monitor);
    struct ls_peer *peer = peer_of(source, rank);
    if (!peer)
        status = ls_fail_memory("a peer", sizeof(*peer));
    else if (ls_data_link_is_open(cluster, source->generation))
        status = find_link(cluster, peer, link);
    ls_monitor_unlock(&cluster->monitor);
    return status;
}

static int64_t poll_link(struct ls_link_source *base, int rank, struct pollfd *slot) {
    const struct data_source *source = source_of(base);
    struct ls_cluster *cluster = source->cluster;
    int64_t until = LS_NEVER;
    *slot = (struct pollfd){.fd = cluster->net.link_wake, .events = POLLIN};
    ls_monitor_lock(&cluster->monitor);
    const struct ls_peer *peer = peer_of(source, rank);
    if (!peer) {
        until = ls_now(); /* take says that there is no memory */
    } else if (!dials(cluster, peer) || !ls_data_link_is_open(cluster, source->generation)) {
        until = LS_NEVER; /* the listener's thread wakes this one, or the abort flag */
    } else if (!is_opening(&peer->data)) {
        until = ls_dial_poll(&peer->data.dial, slot);
    } else {
        until = peer->data.deadline; /* over gRPC the poller wakes this thread */
        if (peer->data.fd >= 0) slot->fd = peer->data.fd;
    }
    ls_monitor_unlock(&cluster->monitor);
    return until;
}

static void describe_link(struct ls_link_source *base, int rank, char *text, size_t size) {
    const struct data_source *source = source_of(base);
    ls_monitor_lock(&source->cluster->monitor);
    const struct ls_peer *peer = peer_of(source, rank);
    const char *why = peer && peer->data.dial.why[0] ? peer->data.dial.why : "no answer yet";
    (void)snprintf(text, size, "%s: %s", peer ? peer->where : "no memory",
                   !peer || dials(source->cluster, peer) ? why : "it has not connected to this worker yet");
    ls_monitor_unlock(&source->cluster->monitor);
}

static void close_source(struct ls_link_source *base) {
    ls_free(base);
}

static const struct ls_link_source_ops source_ops = {take_link, poll_link, describe_link, close_source};

/* A proposal that was taken may have failed since, and another one may stand in its place. */
static ls_status check_attempt(const struct ls_cluster *cluster) {
    const struct ls_proposal *proposal = &cluster->proposal;
    if (cluster->phase >= LS_PHASE_MEMBER || (proposal->taken && !proposal->failed)) return LS_OK;
    return ls_fail(LS_UNAVAILABLE, "another attempt takes the place of this one");
}

ls_status ls_data_source_new(struct ls_cluster *cluster, struct ls_link_source **made) {
    *made = NULL;
    if (cluster->count == 1) return LS_OK;
    struct data_source *source = ls_alloc(sizeof(*source));
    if (!source) return ls_fail_memory("a source of links", sizeof(*source));
    source->source = (struct ls_link_source){&source_ops, ls_data_link_uses_grpc(cluster) ? "grpc" : "tcp"};
    source->cluster = cluster;
    ls_monitor_lock(&cluster->monitor);
    ls_status status = check_attempt(cluster);
    source->generation = cluster->proposal.number;
    ls_monitor_unlock(&cluster->monitor);
    if (status)
        ls_free(source);
    else
        *made = &source->source;
    return status;
}
