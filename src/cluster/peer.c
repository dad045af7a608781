/* One other worker: what is known of its process, its streams and its shares. A worker meets few others, but for the
 * lowest ranks: what it holds and walks over grows with those. */
#include "cluster/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc_stream.h"
#include "resolver/cluster_view.h"

struct ls_peer *ls_peer_member(const struct ls_cluster *cluster, int index) {
    return cluster->peers[cluster->group.members[index]];
}

/* All find the lowest of them first. */
static void link_peer(struct ls_cluster *cluster, struct ls_peer *peer) {
    int before = peer->rank - 1;
    while (before >= 0 && (before == cluster->rank || !cluster->peers[before])) before--;
    struct ls_peer **at = before < 0 ? &cluster->first_peer : &cluster->peers[before]->next;
    peer->next = *at;
    *at = peer;
}

struct ls_peer *ls_peer_meet(struct ls_cluster *cluster, int rank) {
    if (cluster->peers[rank]) return cluster->peers[rank];
    struct ls_peer *peer = ls_alloc(sizeof(*peer));
    if (!peer) return NULL;
    peer->rank = rank;
    peer->task = ls_cluster_view_member(cluster->config.tf_config, rank);
    peer->name = peer->task->name;
    (void)snprintf(peer->where, sizeof(peer->where), "%s (%s)", peer->name, peer->task->address);
    ls_dial_init(&peer->knock.dial, NULL, NULL, NULL);
    ls_dial_init(&peer->attempt.dial, cluster->net.credentials.identity, cluster->net.relay, peer->task);
    cluster->peers[rank] = peer;
    if (rank != cluster->rank) link_peer(cluster, peer);
    return peer;
}

void ls_peer_share_free(struct ls_stored_share *share) {
    if (!share) return;
    ls_free(share->bytes.data);
    ls_free(share);
}

void ls_peer_renew(struct ls_peer *peer) {
    peer->end.left = peer->end.finished = peer->report.agreed = false;
    peer->shares.last = 0;
    while (peer->shares.list) {
        struct ls_stored_share *share = peer->shares.list;
        peer->shares.list = share->next;
        ls_peer_share_free(share);
    }
}

static void forget_past(struct ls_peer *peer) {
    peer->silence.over = peer->report.made = false;
    peer->generation = 0;
    peer->silence.lasts = 0;
    peer->rival = (struct ls_peer_rival){0};
    ls_quorum_release(&peer->report.ledger);
    ls_closed_release(&peer->report.closed);
    ls_peer_renew(peer);
}

static void free_peer(struct ls_peer *peer) {
    forget_past(peer);
    ls_dial_reset(&peer->attempt.dial);
    ls_dial_reset(&peer->knock.dial);
    ls_free(peer);
}

void ls_peer_free_all(struct ls_cluster *cluster) {
    while (cluster->first_peer) {
        struct ls_peer *peer = cluster->first_peer;
        cluster->first_peer = peer->next;
        free_peer(peer);
    }
    if (cluster->peers) ls_free(cluster->peers[cluster->rank]);
    ls_free(ls_steal(cluster->peers));
}

void ls_peer_adopt(struct ls_peer *peer, uint64_t incarnation) {
    if (peer->incarnation == incarnation) return;
    forget_past(peer);
    peer->incarnation = incarnation;
}

void ls_peer_end_out(struct ls_peer *peer, const char *why) {
    peer->out = NULL;
    peer->accepted = false;
    peer->attempt.over = true;
    (void)snprintf(peer->attempt.why, sizeof(peer->attempt.why), "%s", why);
}

void ls_peer_sever(struct ls_peer *peer, const char *why) {
    if (peer->in) ls_rpc_stream_drop(peer->in);
    if (peer->out) ls_rpc_stream_drop(peer->out);
    peer->in = NULL;
    ls_peer_end_out(peer, why);
    ls_peer_adopt(peer, 0);
}

void ls_peer_end_fading(struct ls_peer *peer) {
    if (peer->fading.stream) ls_rpc_stream_drop(peer->fading.stream);
    peer->fading.stream = NULL;
}

bool ls_peer_shows_end(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return !ls_credentials_has_tls(&cluster->net.credentials) || peer->silence.lasts < LS_HELLO_TIMEOUT;
}

void ls_peer_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *why) {
    bool wanted = cluster->elastic.least && cluster->generation && ls_peer_shows_end(cluster, peer);
    if (wanted && peer->out && peer->accepted) {
        ls_peer_end_fading(peer);
        peer->fading.stream = ls_steal(peer->out);
        peer->fading.incarnation = peer->incarnation;
        peer->fading.until = ls_now() + LS_FADING_TIMEOUT;
    }
    ls_peer_sever(peer, why);
}

bool ls_peer_connected(const struct ls_peer *peer) {
    return peer->accepted && peer->in;
}

bool ls_peer_is_survivor(const struct ls_peer *peer) {
    return ls_peer_connected(peer) && peer->generation;
}

const char *ls_peer_reason(const struct ls_peer *peer) {
    if (!peer->accepted) return peer->attempt.dial.why[0] ? peer->attempt.dial.why : "no answer yet";
    if (!peer->in) return "reached, but it has not connected to this worker yet";
    return "it is another process than the one that was asked";
}

struct ls_stored_share *ls_peer_find_share(const struct ls_peer *peer, uint64_t sequence) {
    struct ls_stored_share *share = peer->shares.list;
    while (share && share->sequence != sequence) share = share->next;
    return share;
}

struct ls_stored_share *ls_peer_take_share(struct ls_peer *peer, uint64_t sequence) {
    struct ls_stored_share *share = ls_peer_find_share(peer, sequence), **at = &peer->shares.list;
    while (*at != share) at = &(*at)->next;
    if (share) *at = share->next;
    return share;
}

bool ls_peer_is_member(const struct ls_cluster *cluster, int rank) {
    return cluster->roster[rank] != 0;
}

bool ls_peer_is_any_survivor(const struct ls_cluster *cluster) {
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->generation) return true;
    return false;
}
