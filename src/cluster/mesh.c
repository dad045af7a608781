/* The mesh of control streams: the forming thread drives one small state machine a peer (resolve, connect, Hello) with
 * one poll() over all of them, so that nobody waits behind anybody. */
#include "cluster/mesh.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/auth_tls.h"
#include "cluster/auth_token.h"
#include "cluster/cluster_private.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/star.h"

static void open_control(struct ls_cluster *cluster, struct ls_peer *peer, int fd) {
    if (ls_rpc_stream_open(cluster->net.rpc, fd, peer->task->address, &peer->out)) {
        ls_dial_fail(&peer->control, ls_error());
        return;
    }
    ls_rpc_stream_set_user(peer->out, peer);
    peer->hello_deadline = ls_now() + LS_HELLO_TIMEOUT;
    ls_auth_token_open(cluster, peer->out);
}

static void step_control(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (peer->attempt_over) {
        ls_dial_fail(&peer->control, peer->why);
        peer->attempt_over = false;
    }
    if (peer->out && !peer->accepted && ls_now() >= peer->hello_deadline) {
        ls_rpc_stream_drop(peer->out);
        peer->out = NULL;
        if (!peer->in) ls_peer_adopt(peer, 0);
        ls_dial_fail(&peer->control, "no answer (connected, but it does not reply)");
    }
    if (peer->out || peer->differs || !ls_star_wants(cluster, peer)) return;
    int fd = ls_dial_step(&peer->control, peer->task->host, peer->task->port);
    if (fd >= 0)
        open_control(cluster, peer, fd);
    else if (peer->control.verdict)
        ls_auth_tls_judge(cluster, peer);
}

/* While the host of a lost process answers, its kernel will say when the process ends. */
static void step_fading(const struct ls_cluster *cluster, struct ls_peer *peer) {
    if (!peer->fading.stream || ls_now() < peer->fading.until) return;
    double unanswered = ls_rpc_stream_unanswered(peer->fading.stream);
    if (unanswered >= 0 && unanswered <= cluster->config.settings->heartbeat_limit)
        peer->fading.until = ls_now() + LS_FADING_TIMEOUT;
    else
        ls_peer_end_fading(peer);
}

void ls_mesh_step(struct ls_cluster *cluster) {
    cluster->star.step_at = ls_star_step(cluster);
    for (int rank = 0; rank < cluster->size; rank++) {
        if (rank == cluster->rank) continue;
        step_fading(cluster, &cluster->peers[rank]);
        step_control(cluster, &cluster->peers[rank]);
    }
}

static int64_t deputies_until(const struct ls_cluster *cluster) {
    return cluster->next.forming_since + LS_DEPUTY_TIMEOUT;
}

/* The convener needs all, and each its convener. In an elastic group in which all are deputies of each other they are
 * waited for, but not for ever: the end of their streams gives votes. */
static bool is_needed(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    if (ls_propose_is_own(cluster)) return true;
    if (cluster->phase != LS_PHASE_FORMING) return ls_star_is_deputy(cluster, peer);
    if (peer->rank == cluster->next.follows) return true;
    bool counts = cluster->elastic.least && cluster->size <= cluster->star.window + 1;
    return counts && ls_star_is_deputy(cluster, peer) && ls_now() < deputies_until(cluster);
}

/* While a generation is formed, who is not on its roster is not missing. */
static bool is_complete(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    if (!is_needed(cluster, peer)) return true;
    if (cluster->phase != LS_PHASE_FORMING) return ls_peer_connected(peer);
    uint64_t expected = cluster->proposal.roster[peer->rank];
    bool leads = ls_propose_is_own(cluster) || peer->rank == cluster->next.follows;
    bool made = leads ? ls_peer_connected(peer) : peer->accepted; /* a deputy that is ready already dials nobody */
    return !expected || (expected == peer->incarnation && made);
}

bool ls_mesh_complete(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && !is_complete(cluster, &cluster->peers[rank])) return false;
    return true;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The descriptors to wait for on behalf of one peer. */
static int64_t fill_slot(const struct ls_cluster *cluster, const struct ls_peer *peer, struct pollfd *slot) {
    int64_t until = LS_NEVER;
    *slot = (struct pollfd){.fd = -1};
    if (!peer->out && !peer->differs && ls_star_wants(cluster, peer))
        until = ls_dial_poll(&peer->control, slot);
    else if (peer->out && !peer->accepted)
        until = peer->hello_deadline;
    if (peer->fading.stream) until = earlier(until, peer->fading.until);
    return until;
}

int64_t ls_mesh_poll(const struct ls_cluster *cluster, struct pollfd *slots) {
    int64_t until = cluster->star.step_at;
    if (cluster->phase == LS_PHASE_FORMING && ls_now() < deputies_until(cluster))
        until = earlier(until, deputies_until(cluster));
    slots[0] = (struct pollfd){.fd = cluster->net.wake, .events = POLLIN};
    slots[1] = (struct pollfd){.fd = ls_abort_fd(cluster->config.abort), .events = POLLIN};
    for (int rank = 0; rank < cluster->size; rank++) {
        struct pollfd *own = slots + 2 + (size_t)rank;
        if (rank != cluster->rank)
            until = earlier(until, fill_slot(cluster, &cluster->peers[rank], own));
        else
            *own = (struct pollfd){.fd = -1};
    }
    return until;
}

void ls_mesh_describe(const struct ls_cluster *cluster, const char *times, char *text, size_t size) {
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
    text[0] = 0;
    if (missing) (void)snprintf(text, size, "%d of %d workers %s: %.760s%s", missing, cluster->size, times, list, more);
}
