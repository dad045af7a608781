/* The choice of whom to follow, and the proposals of the one that is followed (docs/protocol.md): a generation of all
 * tasks, or, with elastic, of those that are there. */
#include "cluster/propose.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/point.h"
#include "base/random.h"
#include "cluster/auth_token.h"
#include "cluster/cluster_private.h"
#include "cluster/elastic.h"
#include "cluster/exchange.h"
#include "cluster/hello.h"
#include "cluster/mesh.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/servers.h"
#include "cluster/star.h"

#define FIRST_PAUSE (20 * LS_MILLISECOND) /* between attempts; doubled by each that fails */
#define LAST_PAUSE  LS_SECOND

static bool is_survivor(const struct ls_cluster *cluster, int rank) {
    if (rank == cluster->rank) return cluster->generation != 0;
    return cluster->peers[rank] && ls_peer_is_survivor(cluster->peers[rank]);
}

/* The lowest survivor that this worker is connected to, itself included; -1: there is none, or none yet. */
static int find_survivor(const struct ls_cluster *cluster) {
    int own = cluster->generation && !ls_servers_has(cluster, cluster->rank) ? cluster->rank : -1;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (!ls_peer_is_survivor(peer) || ls_servers_has(cluster, peer->rank)) continue;
        if (own >= 0 && own < peer->rank) return own;
        return peer->rank;
    }
    return own;
}

/* Without a survivor all follow rank 0. */
static int find_leader(const struct ls_cluster *cluster) {
    int survivor = find_survivor(cluster);
    bool starts = cluster->rank == 0 || (cluster->peers[0] && ls_peer_connected(cluster->peers[0]));
    return survivor >= 0 ? survivor : starts ? 0 : -1;
}

int ls_propose_leader(const struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_MEMBER) return ls_star_coordinator(cluster);
    return find_survivor(cluster);
}

bool ls_propose_is_own(const struct ls_cluster *cluster) {
    return cluster->next.follows == cluster->rank;
}

/* The one that it followed before must not count on it any more. */
static void stop_following(struct ls_cluster *cluster) {
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        bool concerned = ls_propose_is_own(cluster) ? peer->report.made : peer->rank == cluster->next.follows;
        if (concerned) ls_peer_sever(peer, "another worker leads");
    }
    cluster->next.follows = -1;
}

static void send_report(struct ls_cluster *cluster, int leader) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_REPORT);
    message.report = cluster->next.own;
    message.report.heard = cluster->next.heard;
    if (cluster->elastic.least) message.report.ledger = ls_quorum_rosters(&cluster->elastic.ledger);
    message.report.closed = cluster->elastic.closed.incarnations;
    message.report.closed_count = cluster->elastic.closed.count;
    ls_outbox_send(cluster->peers[leader]->out, &message);
}

static void follow(struct ls_cluster *cluster, int leader) {
    if (cluster->next.follows >= 0) stop_following(cluster);
    cluster->next.follows = leader;
    cluster->exchanges.awaited.heard = 0;
    if (leader == cluster->rank)
        cluster->phase = LS_PHASE_CONVENING;
    else
        cluster->phase = cluster->generation ? LS_PHASE_SEEKING : LS_PHASE_JOINING;
    if (leader != cluster->rank) send_report(cluster, leader);
}

void ls_propose_again(struct ls_cluster *cluster) {
    if (cluster->next.follows < 0) return;
    if (ls_propose_is_own(cluster))
        cluster->phase = LS_PHASE_CONVENING;
    else
        send_report(cluster, cluster->next.follows);
}

void ls_propose_note_end(struct ls_cluster *cluster, uint64_t incarnation) {
    if (!ls_closed_add(&cluster->elastic.closed, incarnation)) return;
    if (cluster->phase == LS_PHASE_SEEKING) ls_propose_again(cluster);
    ls_outbox_notify(cluster);
}

/* The one that it follows stays, but for a lower survivor. */
static bool is_better(const struct ls_cluster *cluster, int leader) {
    if (leader < 0 || leader == cluster->next.follows) return false;
    if (cluster->next.follows < 0) return true;
    return is_survivor(cluster, leader) &&
           (leader < cluster->next.follows || !is_survivor(cluster, cluster->next.follows));
}

/* ---- Proposing -------------------------------------------------------------------------------------------------- */

static const struct ls_report *report_of(const struct ls_cluster *cluster, int rank) {
    return rank == cluster->rank ? &cluster->next.own : &cluster->peers[rank]->report.has;
}

/* Fills cluster->next.present with this worker and those whose Reports it holds; returns how many workers they are. All
 * that is present has been met. */
static int find_present(struct ls_cluster *cluster) {
    int count = 1;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        bool server = ls_servers_has(cluster, peer->rank), refused = server && !ls_servers_takes(cluster, peer->rank);
        bool here = peer->report.made && ls_peer_connected(peer) && !refused;
        cluster->next.present[peer->rank] = here ? peer->incarnation : 0;
        count += here && !server;
    }
    cluster->next.present[cluster->rank] = cluster->incarnation;
    return count;
}

/* The smallest number above all that were heard of that is this worker's. */
static uint64_t next_number(const struct ls_cluster *cluster) {
    uint64_t size = (uint64_t)cluster->size, highest = cluster->next.heard;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (cluster->next.present[peer->rank] && peer->report.has.heard > highest) highest = peer->report.has.heard;
    return highest + 1 + (size + (uint64_t)cluster->rank - (highest + 1) % size) % size;
}

/* The furthest state, and the lowest that holds it. */
static void find_state_source(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    bool found = false;
    proposal->source = cluster->rank;
    for (int rank = 0; rank < cluster->workers; rank++) {
        const struct ls_report *has = cluster->next.present[rank] ? report_of(cluster, rank) : NULL;
        if (!has || !has->holds || (found && has->position <= proposal->position)) continue;
        found = true;
        proposal->source = rank;
        proposal->position = has->position;
    }
    for (int rank = 0; rank < cluster->workers && found; rank++) {
        const struct ls_report *has = cluster->next.present[rank] ? report_of(cluster, rank) : NULL;
        if (has && (!has->holds || has->position < proposal->position)) proposal->copy = true;
    }
}

void ls_propose_describe(struct ls_cluster *cluster, char *text, size_t size) {
    text[0] = 0;
    if (cluster->next.follows >= 0 && !ls_propose_is_own(cluster))
        (void)snprintf(text, size, "%s, which leads, to bring all together",
                       cluster->peers[cluster->next.follows]->name);
    if (cluster->phase != LS_PHASE_CONVENING) return;
    int count = find_present(cluster);
    if (cluster->elastic.ledger.count == LS_LEDGER_MOST) {
        (void)snprintf(text, size, "room in the ledger: attempts of %d workers to form a group have failed",
                       LS_LEDGER_MOST);
        return;
    }
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (ls_peer_connected(peer) && !cluster->next.present[peer->rank] && !ls_servers_has(cluster, peer->rank)) {
            (void)snprintf(text, size, "%s to end its step", peer->name);
            return;
        }
    ls_elastic_describe(cluster, count, text, size);
    if (!*text && count == cluster->workers) ls_servers_describe(cluster, text, size);
}

static bool may_propose(struct ls_cluster *cluster) {
    int count = find_present(cluster);
    if (ls_now() < cluster->next.propose_at) return false;
    bool enough = cluster->elastic.least ? ls_elastic_may_form(cluster, count) : count == cluster->workers;
    return ls_servers_are_settled(cluster, enough);
}

/* ---- Attempts --------------------------------------------------------------------------------------------------- */

/* A new proposal takes the place of the one before, here and at the others. */
static void begin_forming(struct ls_cluster *cluster) {
    cluster->phase = LS_PHASE_FORMING;
    cluster->next.forming_since = ls_now();
    cluster->next.heard = cluster->proposal.number;
    ls_exchange_renew(cluster);
    cluster->end.over = false;
    *cluster->end.stopped = '\0';
    ls_data_channel_drop(&cluster->net.data);
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) ls_peer_renew(peer);
    ls_outbox_notify(cluster);
}

void ls_propose_renew(struct ls_proposal *proposal, uint64_t number) {
    *proposal = (struct ls_proposal){
        .number = number, .roster = proposal->roster, .hosts = proposal->hosts, .ledger = proposal->ledger};
}

/* The convener's earlier attempts are over: it can begin this one alone, and what of them it has entered is in the
 * proposal's ledger. So a ledger does not grow with attempts that fail. */
bool ls_propose_keep(struct ls_cluster *cluster) {
    const struct ls_proposal *proposal = &cluster->proposal;
    struct ls_rosters known = ls_quorum_rosters(&proposal->ledger);
    int convener = (int)(proposal->number % (uint64_t)cluster->size);
    if (!cluster->elastic.least) return true;
    ls_quorum_drop_own(&cluster->elastic.ledger, convener, proposal->roster[convener], 0);
    return ls_quorum_add_all(&cluster->elastic.ledger, &known);
}

static void find_hosts(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    cluster->peers[cluster->rank]->host = ls_hello_host(cluster->terms.host);
    for (int rank = 0; rank < cluster->size; rank++)
        proposal->hosts[rank] = proposal->roster[rank] ? cluster->peers[rank]->host : 0;
}

static void propose(struct ls_cluster *cluster) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_PROPOSE);
    struct ls_proposal *proposal = &cluster->proposal;
    uint8_t drawn[LS_PROOF_SIZE];
    ls_propose_renew(proposal, next_number(cluster));
    if (ls_entropy_fill(drawn, LS_PROOF_SIZE) || !ls_auth_token_key(cluster, drawn, proposal->key)) return;
    memcpy(proposal->roster, cluster->next.present, (size_t)cluster->size * sizeof(*proposal->roster));
    find_hosts(cluster);
    find_state_source(cluster);
    message.propose = (struct ls_propose){.number = proposal->number,
                                          .incarnations = proposal->roster,
                                          .size = cluster->size,
                                          .position = proposal->position,
                                          .source = proposal->source,
                                          .copy = proposal->copy,
                                          .key = drawn,
                                          .hosts = proposal->hosts};
    if (cluster->elastic.least && !ls_quorum_add(&proposal->ledger, proposal->number, proposal->roster)) return;
    if (!ls_propose_keep(cluster)) return;
    if (cluster->elastic.least) message.propose.ledger = ls_quorum_rosters(&proposal->ledger);
    begin_forming(cluster);
    ls_reached("propose");
    ls_outbox_send_all(cluster, &message, proposal->roster);
}

/* A Report to a rank 0 that starts like this worker waits until the deputies have accepted it, while all are dialled:
 * a running group dials nobody. */
static bool may_follow(const struct ls_cluster *cluster, int leader) {
    bool starts = leader != cluster->rank && !is_survivor(cluster, leader);
    if (!starts || ls_now() >= cluster->next.seeking_since + LS_DEPUTY_TIMEOUT) return true;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (ls_star_is_deputy(cluster, peer) && !peer->accepted) return false;
    return true;
}

void ls_propose(struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_FORMING) return;
    int leader = find_leader(cluster);
    if (is_better(cluster, leader) && may_follow(cluster, leader)) follow(cluster, leader);
    if (ls_propose_is_own(cluster) && may_propose(cluster)) propose(cluster);
}

void ls_propose_fail(struct ls_cluster *cluster, const char *why) {
    if (cluster->proposal.failed) return;
    cluster->proposal.failed = true;
    int64_t pause = cluster->next.propose_pause ? cluster->next.propose_pause : FIRST_PAUSE;
    cluster->next.propose_at = ls_now() + pause;
    cluster->next.propose_pause = pause * 2 > LAST_PAUSE ? LAST_PAUSE : pause * 2;
    ls_abort_raise(cluster->config.abort, LS_UNAVAILABLE, why);
    ls_outbox_notify(cluster);
}

void ls_propose_fence(struct ls_cluster *cluster, const char *why) {
    if (!cluster->generation || cluster->phase >= LS_PHASE_MEMBER) return;
    if (cluster->proposal.taken) ls_propose_fail(cluster, why);
    cluster->phase = LS_PHASE_FENCED;
    ls_outbox_notify(cluster);
}

void ls_propose_forget(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (!peer->in) peer->report.made = peer->report.agreed = false;
    if (cluster->next.follows == peer->rank && !ls_peer_connected(peer)) cluster->next.follows = -1;
}

bool ls_propose_is_attempting(const struct ls_cluster *cluster) {
    return cluster->phase == LS_PHASE_FORMING || cluster->phase == LS_PHASE_READY;
}

static void fail_if_member(struct ls_cluster *cluster, const struct ls_peer *peer, const char *what) {
    char why[LS_ERROR_SIZE];
    (void)snprintf(why, sizeof(why), "%s (rank %d) %s", peer->name, peer->rank, what);
    if (cluster->proposal.roster[peer->rank]) ls_propose_fail(cluster, why);
}

/* A worker that reports again while a generation is being formed has given that attempt up; it says why itself. */
static bool receive_report(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_report *report) {
    peer->report.ledger.size = cluster->size;
    peer->report.ledger.count = 0;
    if (!ls_quorum_add_all(&peer->report.ledger, &report->ledger)) return false;
    peer->report.closed.count = 0;
    if (peer->generation && !ls_closed_add_all(&peer->report.closed, report->closed, report->closed_count))
        return false;
    peer->report.has = (struct ls_report){.holds = report->holds, .position = report->position, .heard = report->heard};
    peer->report.made = true;
    if (ls_propose_is_attempting(cluster) && ls_propose_is_own(cluster))
        fail_if_member(cluster, peer, "has given it up");
    ls_outbox_notify(cluster);
    return true;
}

static bool names_all(const struct ls_cluster *cluster, const struct ls_propose *propose) {
    for (int rank = 0; rank < cluster->workers; rank++)
        if (!propose->incarnations[rank]) return false;
    return true;
}

/* A parameter server does not know whether the workers are elastic. */
static bool may_name(const struct ls_cluster *cluster, const struct ls_propose *propose) {
    return cluster->elastic.least || ls_servers_has(cluster, cluster->rank) || names_all(cluster, propose);
}

static bool receive_proposal(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_propose *propose) {
    struct ls_proposal *proposal = &cluster->proposal;
    if (propose->size != cluster->size || !may_name(cluster, propose)) return false;
    if (propose->ledger.words != propose->ledger.count * cluster->size) return false;
    if (cluster->next.follows != peer->rank || propose->incarnations[cluster->rank] != cluster->incarnation)
        return true;
    if (ls_propose_is_attempting(cluster) && proposal->taken)
        ls_propose_fail(cluster, "another attempt takes its place");
    memcpy(proposal->roster, propose->incarnations, (size_t)cluster->size * sizeof(*proposal->roster));
    memcpy(proposal->hosts, propose->hosts, (size_t)cluster->size * sizeof(*proposal->hosts));
    ls_propose_renew(proposal, propose->number);
    proposal->position = propose->position;
    proposal->source = propose->source;
    proposal->copy = propose->copy;
    proposal->ledger.count = 0;
    if (!ls_auth_token_key(cluster, propose->key, proposal->key)) return false;
    begin_forming(cluster);
    return ls_quorum_add_all(&proposal->ledger, &propose->ledger);
}

/* Those who are left out are to hear of it: a survivor when it dials again. A joiner may still be taken in later. */
static void settle_peer(struct ls_cluster *cluster, struct ls_peer *peer) {
    ls_peer_end_fading(peer);
    if (cluster->roster[peer->rank]) {
        peer->report.made = false;
        if (ls_peer_connected(peer)) peer->generation = cluster->generation;
    } else if (peer->generation) {
        ls_peer_sever(peer, "the group has gone on without it");
    }
}

static void enter(struct ls_cluster *cluster) {
    cluster->generation = cluster->proposal.number;
    memcpy(cluster->roster, cluster->proposal.roster, (size_t)cluster->size * sizeof(*cluster->roster));
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) settle_peer(cluster, peer);
    cluster->elastic.closed.count = 0;
    ls_quorum_forget(&cluster->elastic.ledger, cluster->generation);
    cluster->next.follows = -1;
    cluster->next.propose_pause = 0;
    cluster->next.dropped = false;
    cluster->phase = LS_PHASE_MEMBER;
    ls_star_prune(cluster);
    ls_outbox_notify(cluster);
}

void ls_propose_begin(struct ls_cluster *cluster) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_BEGIN);
    message.number = cluster->proposal.number;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (cluster->proposal.roster[peer->rank] && !peer->report.agreed) return;
    enter(cluster);
    ls_reached("begin");
    message.generation = cluster->generation;
    ls_outbox_send_all(cluster, &message, cluster->roster);
}

bool ls_propose_receive(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message) {
    bool named = message->number == cluster->proposal.number;
    switch (message->kind) {
    case LS_MESSAGE_REPORT:
        return receive_report(cluster, peer, &message->report);
    case LS_MESSAGE_PROPOSE:
        return cluster->phase >= LS_PHASE_MEMBER || receive_proposal(cluster, peer, &message->propose);
    case LS_MESSAGE_ACCEPT:
        if (named && ls_propose_is_own(cluster)) peer->report.agreed = true;
        ls_outbox_notify(cluster);
        return true;
    case LS_MESSAGE_BEGIN:
        if (named && cluster->phase == LS_PHASE_READY && !cluster->proposal.failed &&
            cluster->next.follows == peer->rank)
            enter(cluster);
        return true;
    default:
        return false;
    }
}
