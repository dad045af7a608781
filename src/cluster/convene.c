/* Who follows whom, and what the one that is followed proposes (docs/protocol.md): a generation of all tasks, or, with
 * elastic, of those that are there. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/point.h"
#include "cluster/state.h"

#define FIRST_PAUSE (20 * LS_MILLISECOND) /* between attempts; doubled by each that fails */
#define LAST_PAUSE  LS_SECOND
#define ADMIT_PAUSE (10 * LS_SECOND) /* between two stops for somebody who comes in */

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
    if (cluster->least) message.report.ledger = ls_ledger_rosters(&cluster->ledger);
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

static const struct ls_report *report_of(const struct ls_cluster *cluster, int rank) {
    return rank == cluster->rank ? &cluster->own : &cluster->peers[rank].report;
}

/* Fills cluster->present with this worker and those whose Reports it holds; returns how many they are. */
static int find_present(struct ls_cluster *cluster) {
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        bool own = rank == cluster->rank, here = own || (peer->reported && ls_peer_connected(peer));
        cluster->present[rank] = !here ? 0 : own ? cluster->incarnation : peer->incarnation;
        count += here;
    }
    return count;
}

/* The smallest number above all that were heard of that is this worker's. */
static uint64_t next_number(const struct ls_cluster *cluster) {
    uint64_t size = (uint64_t)cluster->size, highest = cluster->heard;
    for (int rank = 0; rank < cluster->size; rank++)
        if (cluster->present[rank] && rank != cluster->rank && report_of(cluster, rank)->heard > highest)
            highest = report_of(cluster, rank)->heard;
    return highest + 1 + (size + (uint64_t)cluster->rank - (highest + 1) % size) % size;
}

/* The furthest state, and the lowest that holds it. */
static void find_source(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    bool found = false;
    proposal->source = cluster->rank;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_report *has = report_of(cluster, rank);
        if (!cluster->present[rank] || !has->holds || (found && has->position <= proposal->position)) continue;
        found = true;
        proposal->source = rank;
        proposal->position = has->position;
    }
    for (int rank = 0; rank < cluster->size && found; rank++) {
        const struct ls_report *has = report_of(cluster, rank);
        if (cluster->present[rank] && (!has->holds || has->position < proposal->position)) proposal->copy = true;
    }
}

/* ---- Elastic ---------------------------------------------------------------------------------------------------- */

int64_t ls_convene_shrinks_at(const struct ls_cluster *cluster) {
    const struct ls_settings *settings = cluster->config.settings;
    double wait = settings->rejoin_timeout;
    if (!cluster->least || !cluster->generation) return LS_NEVER;
    if (wait < settings->heartbeat_limit) wait = settings->heartbeat_limit; /* all who are left have found the loss */
    return ls_deadline_after(cluster->seeking_since, wait);
}

int64_t ls_convene_settles_at(const struct ls_cluster *cluster) {
    return cluster->least && cluster->generation ? cluster->seeking_since + LS_SETTLE_TIMEOUT : LS_NEVER;
}

/* Gathers what those present know into the proposal's ledger, but for this worker's own attempts that have come to
 * nothing: who has died in one must not keep the others from going on. *newest: the generation that any of them has
 * entered. */
static bool gather_ledger(struct ls_cluster *cluster, uint64_t *newest) {
    struct ls_ledger *known = &cluster->proposal.ledger;
    struct ls_rosters own = ls_ledger_rosters(&cluster->ledger);
    known->count = 0;
    *newest = cluster->generation;
    if (!ls_ledger_add_all(known, &own)) return false;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        struct ls_rosters rosters = ls_ledger_rosters(&peer->ledger);
        if (rank == cluster->rank || !cluster->present[rank]) continue;
        if (!ls_ledger_add_all(known, &rosters)) return false;
        if (peer->generation > *newest) *newest = peer->generation;
    }
    ls_ledger_drop_own(known, cluster->rank, cluster->incarnation, cluster->generation);
    ls_ledger_forget(known, *newest);
    bool entered = cluster->generation && cluster->generation == *newest; /* an attempt of its roster may hide it */
    return !entered || ls_ledger_add(known, cluster->generation, cluster->roster);
}

/* Nobody of the newest generation is missing, and no joiner that knocks. */
static bool is_whole(const struct ls_cluster *cluster, uint64_t newest) {
    const uint64_t *roster =
        newest == cluster->generation ? cluster->roster : ls_ledger_find(&cluster->proposal.ledger, newest);
    bool settled = ls_now() >= ls_convene_settles_at(cluster);
    for (int rank = 0; rank < cluster->size; rank++) {
        bool knocks = rank != cluster->rank && cluster->peers[rank].in && !settled;
        bool expected = !roster || roster[rank] || knocks;
        if (expected && !cluster->present[rank]) return false;
    }
    return true;
}

static int64_t patience_ends_at(const struct ls_cluster *cluster) {
    return ls_deadline_after(cluster->seeking_since, cluster->config.settings->collective_timeout);
}

int64_t ls_convene_awaits_until(const struct ls_cluster *cluster) {
    int64_t until = patience_ends_at(cluster);
    if (!cluster->least || !cluster->generation || ls_now() >= until) return 0;
    if (!ls_convene_is_own(cluster)) return until; /* the one that it follows knows */
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank != cluster->rank && is_survivor(cluster, rank) && !peer->reported) return until;
    }
    return 0;
}

/* The first generation needs all tasks. */
static bool may_go_on(struct ls_cluster *cluster, int count) {
    uint64_t newest;
    if (!cluster->generation || !gather_ledger(cluster, &newest)) return false;
    if (count < cluster->least || !ls_ledger_permits(&cluster->proposal.ledger, cluster->present)) return false;
    bool shrinks = ls_now() >= ls_convene_shrinks_at(cluster) && !ls_convene_awaits_until(cluster);
    return shrinks || is_whole(cluster, newest);
}

static bool may_propose(struct ls_cluster *cluster) {
    int count = find_present(cluster);
    uint64_t newest;
    if (ls_now() < cluster->propose_at) return false;
    if (cluster->least && cluster->generation) return may_go_on(cluster, count);
    return count == cluster->size && (!cluster->least || gather_ledger(cluster, &newest));
}

static bool is_lowest_member(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->rank; rank++)
        if (cluster->roster[rank]) return false;
    return true;
}

void ls_convene_admit(struct ls_cluster *cluster) {
    bool running = cluster->least && cluster->phase == LS_PHASE_MEMBER && !cluster->failure.status;
    if (!running || ls_now() < cluster->admit_at || !is_lowest_member(cluster)) return;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        char text[LS_ERROR_SIZE];
        if (rank == cluster->rank || cluster->roster[rank] || !peer->in) continue;
        (void)snprintf(text, sizeof(text), "%s (rank %d, %s) comes in", peer->name, rank, peer->task->address);
        cluster->admit_at = ls_now() + ADMIT_PAUSE;
        ls_control_stop(cluster, rank, text);
        return;
    }
}

/* ---- Attempts --------------------------------------------------------------------------------------------------- */

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

void ls_convene_renew(struct ls_proposal *proposal, uint64_t number) {
    *proposal = (struct ls_proposal){.number = number, .roster = proposal->roster, .ledger = proposal->ledger};
}

static bool add_proposal(struct ls_cluster *cluster) {
    return ls_ledger_add(&cluster->proposal.ledger, cluster->proposal.number, cluster->proposal.roster);
}

bool ls_convene_keep(struct ls_cluster *cluster) {
    struct ls_rosters known = ls_ledger_rosters(&cluster->proposal.ledger);
    return !cluster->least || ls_ledger_add_all(&cluster->ledger, &known);
}

static void propose(struct ls_cluster *cluster) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_PROPOSE);
    struct ls_proposal *proposal = &cluster->proposal;
    ls_convene_renew(proposal, next_number(cluster));
    memcpy(proposal->roster, cluster->present, (size_t)cluster->size * sizeof(*proposal->roster));
    find_source(cluster);
    message.propose = (struct ls_propose){.number = proposal->number,
                                          .incarnations = proposal->roster,
                                          .size = cluster->size,
                                          .position = proposal->position,
                                          .source = proposal->source,
                                          .copy = proposal->copy};
    if (cluster->least && !add_proposal(cluster)) return;
    if (!ls_convene_keep(cluster)) return;
    if (cluster->least) message.propose.ledger = ls_ledger_rosters(&proposal->ledger);
    begin_forming(cluster);
    ls_reached("propose");
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && proposal->roster[rank]) ls_cluster_send(cluster->peers[rank].out, &message);
}

void ls_convene(struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_FORMING) return;
    int leader = find_leader(cluster);
    if (is_better(cluster, leader)) follow(cluster, leader);
    if (ls_convene_is_own(cluster) && may_propose(cluster)) propose(cluster);
}

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

static void fail_if_member(struct ls_cluster *cluster, const struct ls_peer *peer, const char *why) {
    if (cluster->proposal.roster[peer->rank]) ls_convene_fail(cluster, why);
}

/* Who reports again while a generation is being formed has given that attempt up. */
static bool receive_report(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_report *report) {
    peer->ledger.size = cluster->size;
    peer->ledger.count = 0;
    if (report->ledger.count && report->ledger.size != cluster->size) return false;
    if (!ls_ledger_add_all(&peer->ledger, &report->ledger)) return false;
    peer->report = (struct ls_report){.holds = report->holds, .position = report->position, .heard = report->heard};
    peer->reported = true;
    if (ls_convene_is_attempting(cluster) && ls_convene_is_own(cluster))
        fail_if_member(cluster, peer, "a member has given it up");
    ls_cluster_notify(cluster);
    return true;
}

static bool names_all(const struct ls_propose *propose) {
    for (int rank = 0; rank < propose->size; rank++)
        if (!propose->incarnations[rank]) return false;
    return true;
}

static bool receive_proposal(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_propose *propose) {
    struct ls_proposal *proposal = &cluster->proposal;
    if (propose->size != cluster->size || (!cluster->least && !names_all(propose))) return false;
    if (propose->ledger.count && propose->ledger.size != cluster->size) return false;
    if (cluster->follows != peer->rank || propose->incarnations[cluster->rank] != cluster->incarnation) return true;
    if (ls_convene_is_attempting(cluster) && proposal->taken)
        ls_convene_fail(cluster, "another attempt takes its place");
    memcpy(proposal->roster, propose->incarnations, (size_t)cluster->size * sizeof(*proposal->roster));
    ls_convene_renew(proposal, propose->number);
    proposal->position = propose->position;
    proposal->source = propose->source;
    proposal->copy = propose->copy;
    proposal->ledger.count = 0;
    begin_forming(cluster);
    return ls_ledger_add_all(&proposal->ledger, &propose->ledger);
}

/* Who is left out is to hear of it: a survivor when it dials again. A joiner may still be taken in later. */
static void settle_peer(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (cluster->roster[peer->rank]) {
        peer->reported = false;
        peer->generation = cluster->generation;
    } else if (peer->generation && peer->rank != cluster->rank) {
        ls_peer_sever(peer, "the group has gone on without it");
    }
}

static void enter(struct ls_cluster *cluster) {
    cluster->generation = cluster->proposal.number;
    memcpy(cluster->roster, cluster->proposal.roster, (size_t)cluster->size * sizeof(*cluster->roster));
    for (int rank = 0; rank < cluster->size; rank++) settle_peer(cluster, &cluster->peers[rank]);
    ls_ledger_forget(&cluster->ledger, cluster->generation);
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
        if (rank != cluster->rank && cluster->proposal.roster[rank] && !cluster->peers[rank].agreed) return;
    enter(cluster);
    ls_reached("begin");
    message.generation = cluster->generation;
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && cluster->roster[rank]) ls_cluster_send(cluster->peers[rank].out, &message);
}

bool ls_convene_receive(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    bool named = message->number == cluster->proposal.number;
    switch (message->kind) {
    case LS_MESSAGE_REPORT:
        return receive_report(cluster, peer, &message->report);
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
