/* The star of control streams. A worker dials the `window` lowest ranks other than itself, and whoever dials it. So the
 * lowest ranks are connected to all, the others to those few: streams grow as window x N, not as N x N. The lowest
 * survivor leads. The other ranks of the window are deputies: when the one that leads is lost, all are connected to the
 * next already.
 *
 * A worker that follows nobody but itself widens its window, doubled each time, up to WIDEST windows. With that it
 * probes ranks that lie evenly among the others, twice as many each time. A survivor probes those below it, each
 * LS_WIDEN_INTERVAL: all of the window may have been lost at once. An elastic one probes all others too, after
 * LS_SETTLE_TIMEOUT: a generation may run without it. A joiner of a unanimous group waits: the lowest ranks must come
 * back anyway. A Beat says which rank leads, so a worker that has reached any other one finds the lowest survivor. Few
 * are left then that follow nobody and probe more: where the lowest n are lost, each of the others dials few of them,
 * not n. */
#include "cluster/star.h"

#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/servers.h"
#include "cluster/rpc/rpc_stream.h"

#define WIDEST      4 /* windows */
#define SOUGHT_MOST 8 /* missing workers that a convener dials itself, to say why they are missing */

int ls_star_coordinator(const struct ls_cluster *cluster) {
    return (int)(cluster->generation % (uint64_t)cluster->size);
}

bool ls_star_coordinates(const struct ls_cluster *cluster) {
    return ls_star_coordinator(cluster) == cluster->rank;
}

bool ls_star_counts(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    if (cluster->phase < LS_PHASE_MEMBER || !ls_peer_is_member(cluster, peer->rank)) return true;
    return ls_star_coordinates(cluster) || peer->rank == ls_star_coordinator(cluster);
}

/* One of the `width` lowest ranks other than this worker's. */
static bool is_within(const struct ls_cluster *cluster, int rank, int width) {
    return rank < width + (cluster->rank < width);
}

bool ls_star_is_deputy(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return is_within(cluster, peer->rank, cluster->net.star.window) && !ls_servers_has(cluster, peer->rank);
}

/* Returns true if it follows nobody but itself. */
static bool is_alone(const struct ls_cluster *cluster) {
    return cluster->next.follows < 0 || ls_propose_is_own(cluster);
}

static bool is_probed(const struct ls_cluster *cluster, int rank) {
    const struct ls_star *star = &cluster->net.star;
    return rank < star->reach && rank % star->stride == 0 && is_alone(cluster);
}

bool ls_star_wants(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return peer->in || peer->rank == cluster->net.star.leader || peer->rank < cluster->net.star.sought ||
           is_within(cluster, peer->rank, cluster->net.star.width) || is_probed(cluster, peer->rank);
}

void ls_star_reset(struct ls_cluster *cluster) {
    struct ls_star *star = &cluster->net.star;
    bool joins = !cluster->generation;
    int64_t window = cluster->config.settings->control_window;
    star->window = star->width = window < cluster->size ? (int)window : cluster->size;
    star->widen_pause = joins ? LS_SECOND : LS_WIDEN_INTERVAL;
    star->widen_at = ls_now() + star->widen_pause;
    star->leader = -1;
    star->sought = star->reach = 0;
}

/* The rank below which a worker that follows nobody but itself dials all at last. Without elastic all tasks come to the
 * one that leads. With elastic the others may be a running generation, of which this worker is to hear that it is left
 * out. */
static int widest(const struct ls_cluster *cluster) {
    bool patient = ls_now() - cluster->next.seeking_since < LS_SETTLE_TIMEOUT;
    if (cluster->elastic.least && !patient) return cluster->size;
    return cluster->generation ? cluster->rank : 0;
}

static void widen(struct ls_cluster *cluster) {
    struct ls_star *star = &cluster->net.star;
    int reach = widest(cluster);
    if (cluster->phase >= LS_PHASE_FORMING || !is_alone(cluster) || !reach) return;
    if (star->width < WIDEST * star->window) star->width *= 2;
    if (reach == star->reach) {
        if (star->stride > 1) star->stride /= 2;
        return;
    }
    star->reach = reach;
    star->stride = 1;
    while (reach / (2 * star->stride) >= star->window) star->stride *= 2;
}

/* The rank below which no more than SOUGHT_MOST workers are missing. */
static int find_sought(const struct ls_cluster *cluster) {
    int rank = 0;
    if (!ls_propose_is_own(cluster) || cluster->phase >= LS_PHASE_FORMING) return 0;
    for (int missing = 0; rank < cluster->size; rank++) {
        missing += rank != cluster->rank && (!cluster->peers[rank] || !cluster->peers[rank]->in);
        if (missing > SOUGHT_MOST) break;
    }
    return rank;
}

/* Meets those that are wanted by their rank alone; one for which there is no memory, another time. */
static void meet_wanted(struct ls_cluster *cluster) {
    const struct ls_star *star = &cluster->net.star;
    for (int rank = 0; rank < cluster->size && (rank < star->sought || is_within(cluster, rank, star->width)); rank++)
        (void)ls_peer_meet(cluster, rank);
    for (int rank = 0; rank < star->reach && is_alone(cluster); rank += star->stride) (void)ls_peer_meet(cluster, rank);
}

int64_t ls_star_step(struct ls_cluster *cluster) {
    struct ls_star *star = &cluster->net.star;
    star->sought = find_sought(cluster);
    if (ls_now() >= star->widen_at) {
        widen(cluster);
        star->widen_at = ls_now() + star->widen_pause;
    }
    meet_wanted(cluster);
    return star->widen_at;
}

void ls_star_hear(struct ls_cluster *cluster, int leader) {
    int known = cluster->net.star.leader;
    bool possible = leader >= 0 && leader < cluster->size && leader != cluster->rank && leader != known;
    bool better =
        known < 0 || leader < known || *cluster->peers[known]->attempt.dial.why; /* that one cannot be reached */
    if (!possible || !better || cluster->phase >= LS_PHASE_FORMING) return;
    if (!ls_peer_meet(cluster, leader)) return;
    cluster->net.star.leader = leader;
    ls_outbox_notify(cluster);
}

/* The lower rank of a pair decides alone whether the two stay connected, so that both find the same. */
static bool stays(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    int lower = peer->rank < cluster->rank ? peer->rank : cluster->rank, members = 0;
    if (!cluster->roster[peer->rank] || ls_star_counts(cluster, peer)) return true;
    for (int rank = 0; rank < lower; rank++) members += cluster->roster[rank] != 0;
    return members < cluster->net.star.window;
}

void ls_star_prune(struct ls_cluster *cluster) {
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if ((peer->in || peer->out) && !stays(cluster, peer)) ls_peer_sever(peer, "the generation does not need it");
}
