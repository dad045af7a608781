/* Who follows whom, and what the one that is followed proposes (docs/protocol.md). The unanimous form: a generation has
 * all tasks of the cluster. */
#include <string.h>

#include "base/clock.h"
#include "base/point.h"
#include "cluster/state.h"

#define FIRST_PAUSE (20 * LS_MILLISECOND) /* between attempts; doubled by each that fails */
#define LAST_PAUSE  LS_SECOND

static bool is_survivor(const struct ls_cluster *cluster, int rank) {
    if (rank == cluster->rank) return cluster->generation != 0;
    return ls_peer_connected(&cluster->peers[rank]) && cluster->peers[rank].generation;
}

/* The lowest survivor that this worker is connected to, itself included; where it is connected to all and there is
 * none, rank 0; else -1. */
static int find_leader(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (is_survivor(cluster, rank)) return rank;
    return ls_mesh_connected(cluster) ? 0 : -1;
}

bool ls_convene_is_own(const struct ls_cluster *cluster) {
    return cluster->follows == cluster->rank;
}

/* Who follows another one must not be counted on by the one before any more. */
static void stop_following(struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        bool concerned = ls_convene_is_own(cluster) ? peer->reported : rank == cluster->follows;
        if (rank != cluster->rank && concerned) ls_peer_sever(peer, "another worker leads");
    }
    cluster->follows = -1;
}

static void report(struct ls_cluster *cluster, int leader) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_REPORT);
    message.report = cluster->own;
    message.report.heard = cluster->heard;
    ls_cluster_send(cluster->peers[leader].out, &message);
}

static void follow(struct ls_cluster *cluster, int leader) {
    if (cluster->follows >= 0) stop_following(cluster);
    cluster->follows = leader;
    if (leader == cluster->rank)
        cluster->phase = LS_PHASE_CONVENING;
    else
        cluster->phase = cluster->generation ? LS_PHASE_SEEKING : LS_PHASE_JOINING;
    if (leader != cluster->rank) report(cluster, leader);
}

void ls_convene_again(struct ls_cluster *cluster) {
    if (cluster->follows < 0) return;
    if (ls_convene_is_own(cluster))
        cluster->phase = LS_PHASE_CONVENING;
    else
        report(cluster, cluster->follows);
}

/* Whom it follows stays, but for a lower survivor. */
static bool is_better(const struct ls_cluster *cluster, int leader) {
    if (leader < 0 || leader == cluster->follows) return false;
    if (cluster->follows < 0) return true;
    return is_survivor(cluster, leader) && (leader < cluster->follows || !is_survivor(cluster, cluster->follows));
}

/* ---- Proposing -------------------------------------------------------------------------------------------------- */

static bool all_reported(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank != cluster->rank && (!peer->reported || !ls_peer_connected(peer))) return false;
    }
    return true;
}

static const struct ls_report *report_of(const struct ls_cluster *cluster, int rank) {
    return rank == cluster->rank ? &cluster->own : &cluster->peers[rank].report;
}

/* The smallest number above all that were heard of that is this worker's. */
static uint64_t next_number(const struct ls_cluster *cluster) {
    uint64_t size = (uint64_t)cluster->size, highest = cluster->heard;
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && report_of(cluster, rank)->heard > highest)
            highest = report_of(cluster, rank)->heard;
    return highest + 1 + (size + (uint64_t)cluster->rank - (highest + 1) % size) % size;
}

/* The furthest state, and the lowest that holds it. */
static void find_source(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    bool found = false;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_report *has = report_of(cluster, rank);
        if (!has->holds || (found && has->position <= proposal->position)) continue;
        found = true;
        proposal->source = rank;
        proposal->position = has->position;
    }
    for (int rank = 0; rank < cluster->size && found; rank++) {
        const struct ls_report *has = report_of(cluster, rank);
        if (!has->holds || has->position < proposal->position) proposal->copy = true;
    }
}

/* A new proposal takes the place of the one before, here and at the others. */
static void begin_forming(struct ls_cluster *cluster) {
    cluster->phase = LS_PHASE_FORMING;
    cluster->forming_since = ls_now();
    cluster->heard = cluster->proposal.number;
    cluster->sequence = 0;
    cluster->over = false;
    ls_mesh_drop_data(cluster);
    for (int rank = 0; rank < cluster->size; rank++) ls_peer_renew(&cluster->peers[rank]);
    ls_cluster_notify(cluster);
}

static void propose(struct ls_cluster *cluster) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_PROPOSE);
    struct ls_proposal *proposal = &cluster->proposal;
    *proposal = (struct ls_proposal){.number = next_number(cluster), .roster = proposal->roster};
    for (int rank = 0; rank < cluster->size; rank++)
        proposal->roster[rank] = rank == cluster->rank ? cluster->incarnation : cluster->peers[rank].incarnation;
    find_source(cluster);
    message.propose = (struct ls_propose){.number = proposal->number,
                                          .incarnations = proposal->roster,
                                          .size = cluster->size,
                                          .position = proposal->position,
                                          .source = proposal->source,
                                          .copy = proposal->copy};
    begin_forming(cluster);
    ls_reached("propose");
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank) ls_cluster_send(cluster->peers[rank].out, &message);
}

void ls_convene(struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_FORMING) return;
    int leader = find_leader(cluster);
    if (is_better(cluster, leader)) follow(cluster, leader);
    if (ls_convene_is_own(cluster) && all_reported(cluster) && ls_now() >= cluster->propose_at) propose(cluster);
}

/* ---- Attempts --------------------------------------------------------------------------------------------------- */

void ls_convene_fail(struct ls_cluster *cluster, const char *why) {
    if (cluster->proposal.failed) return;
    cluster->proposal.failed = true;
    int64_t pause = cluster->propose_pause ? cluster->propose_pause : FIRST_PAUSE;
    cluster->propose_at = ls_now() + pause;
    cluster->propose_pause = pause * 2 > LAST_PAUSE ? LAST_PAUSE : pause * 2;
    ls_abort_raise(cluster->config.abort, LS_UNAVAILABLE, why);
    ls_cluster_notify(cluster);
}

void ls_convene_fence(struct ls_cluster *cluster, const char *why) {
    if (!cluster->generation || cluster->phase >= LS_PHASE_MEMBER) return;
    if (cluster->proposal.taken) ls_convene_fail(cluster, why);
    cluster->phase = LS_PHASE_FENCED;
    ls_cluster_notify(cluster);
}

void ls_convene_forget(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (!peer->in) peer->reported = peer->agreed = false;
    if (cluster->follows == peer->rank && !ls_peer_connected(peer)) cluster->follows = -1;
}

bool ls_convene_is_attempting(const struct ls_cluster *cluster) {
    return cluster->phase == LS_PHASE_FORMING || cluster->phase == LS_PHASE_READY;
}

/* Who reports again while a generation is being formed has given that attempt up. */
static void receive_report(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_report *report) {
    peer->report = *report;
    peer->reported = true;
    if (ls_convene_is_attempting(cluster) && ls_convene_is_own(cluster))
        ls_convene_fail(cluster, "a member has given it up");
    ls_cluster_notify(cluster);
}

static bool receive_proposal(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_propose *propose) {
    struct ls_proposal *proposal = &cluster->proposal;
    if (propose->size != cluster->size) return false;
    if (cluster->follows != peer->rank || propose->incarnations[cluster->rank] != cluster->incarnation) return true;
    if (ls_convene_is_attempting(cluster) && proposal->taken)
        ls_convene_fail(cluster, "another attempt takes its place");
    memcpy(proposal->roster, propose->incarnations, (size_t)cluster->size * sizeof(*proposal->roster));
    *proposal = (struct ls_proposal){.number = propose->number,
                                     .roster = proposal->roster,
                                     .position = propose->position,
                                     .source = propose->source,
                                     .copy = propose->copy};
    begin_forming(cluster);
    return true;
}

static void enter(struct ls_cluster *cluster) {
    cluster->generation = cluster->proposal.number;
    memcpy(cluster->roster, cluster->proposal.roster, (size_t)cluster->size * sizeof(*cluster->roster));
    for (int rank = 0; rank < cluster->size; rank++) {
        cluster->peers[rank].reported = false;
        cluster->peers[rank].generation = cluster->generation;
    }
    cluster->follows = -1;
    cluster->propose_pause = 0;
    cluster->dropped = false;
    cluster->phase = LS_PHASE_MEMBER;
    ls_cluster_notify(cluster);
}

void ls_convene_begin(struct ls_cluster *cluster) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_BEGIN);
    message.number = cluster->proposal.number;
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && !cluster->peers[rank].agreed) return;
    enter(cluster);
    ls_reached("begin");
    message.generation = cluster->generation;
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank) ls_cluster_send(cluster->peers[rank].out, &message);
}

bool ls_convene_receive(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    bool named = message->number == cluster->proposal.number;
    switch (message->kind) {
    case LS_MESSAGE_REPORT:
        receive_report(cluster, peer, &message->report);
        return true;
    case LS_MESSAGE_PROPOSE:
        return cluster->phase >= LS_PHASE_MEMBER || receive_proposal(cluster, peer, &message->propose);
    case LS_MESSAGE_ACCEPT:
        if (named && ls_convene_is_own(cluster)) peer->agreed = true;
        ls_cluster_notify(cluster);
        return true;
    case LS_MESSAGE_BEGIN:
        if (named && cluster->phase == LS_PHASE_READY && !cluster->proposal.failed && cluster->follows == peer->rank)
            enter(cluster);
        return true;
    default:
        return false;
    }
}
