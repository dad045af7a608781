/* The rules of an elastic group (docs/protocol.md, "Who may form a generation"): when the workers that are there may go
 * on with fewer, whose votes they lack, and when a running generation stops for a joiner. With the monitor held. */
#include "cluster/elastic.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "cluster/failure.h"
#include "cluster/peer.h"
#include "cluster/servers.h"

#define ADMIT_PAUSE (10 * LS_SECOND) /* between two stops for somebody who comes in */

int64_t ls_elastic_shrinks_at(const struct ls_cluster *cluster) {
    const struct ls_settings *settings = cluster->config.settings;
    double wait = settings->rejoin_timeout;
    if (!cluster->elastic.least || !cluster->generation) return LS_NEVER;
    if (wait < settings->heartbeat_limit) wait = settings->heartbeat_limit; /* all who are left have found the loss */
    return ls_deadline_after(cluster->next.seeking_since, wait);
}

int64_t ls_elastic_settles_at(const struct ls_cluster *cluster) {
    return cluster->elastic.least && cluster->generation ? cluster->next.seeking_since + LS_SETTLE_TIMEOUT : LS_NEVER;
}

/* Gathers what those present know into the proposal's ledger, but for this worker's own attempts that have come to
 * nothing: who has died in one must not keep the others from going on. *newest: the generation that any of them has
 * entered. */
static bool gather_ledger(struct ls_cluster *cluster, uint64_t *newest) {
    struct ls_ledger *known = &cluster->proposal.ledger;
    struct ls_rosters own = ls_quorum_rosters(&cluster->elastic.ledger);
    known->count = 0;
    *newest = cluster->generation;
    if (!ls_quorum_add_all(known, &own)) return false;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        struct ls_rosters rosters = ls_quorum_rosters(&peer->report.ledger);
        if (!cluster->next.present[peer->rank]) continue;
        if (!ls_quorum_add_all(known, &rosters)) return false;
        if (peer->generation > *newest) *newest = peer->generation;
    }
    ls_quorum_drop_own(known, cluster->rank, cluster->incarnation, cluster->generation);
    ls_quorum_forget(known, *newest);
    bool entered = cluster->generation && cluster->generation == *newest; /* an attempt of its roster may hide it */
    return !entered || ls_quorum_add(known, cluster->generation, cluster->roster);
}

/* Nobody of the newest generation is missing, and no joiner that knocks. ended: processes that were seen to end are not
 * missing, for nobody need wait for them. */
static bool is_whole(const struct ls_cluster *cluster, uint64_t newest, bool ended) {
    const uint64_t *roster =
        newest == cluster->generation ? cluster->roster : ls_quorum_find(&cluster->proposal.ledger, newest);
    bool settled = ls_now() >= ls_elastic_settles_at(cluster);
    if (ended && (!cluster->config.hastens || !roster)) return false;
    for (int rank = 0; rank < cluster->workers; rank++) {
        const struct ls_peer *peer = cluster->peers[rank];
        uint64_t present = cluster->next.present[rank], expected = roster ? roster[rank] : 0;
        bool gone = ended && ls_closed_has(&cluster->elastic.ended, expected);
        bool here = ended ? present == expected || gone : present != 0;
        if ((peer && peer->in && !settled && !present) || ((!roster || expected) && !here)) return false;
    }
    return true;
}

/* Gathers the processes that any survivor that could be on the next roster has seen to end. That says as well that who
 * ended had entered no generation without that survivor: it would have closed its stream itself before. */
static bool gather_ends(struct ls_cluster *cluster) {
    struct ls_elastic_view *elastic = &cluster->elastic;
    elastic->ended.count = 0;
    if (!ls_closed_add_all(&elastic->ended, elastic->closed.incarnations, elastic->closed.count)) return false;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        const struct ls_closed *closed = &peer->report.closed;
        if (!cluster->next.present[peer->rank]) continue;
        if (!ls_closed_add_all(&elastic->ended, closed->incarnations, closed->count)) return false;
    }
    return true;
}

int64_t ls_elastic_awaits_until(const struct ls_cluster *cluster) {
    int64_t until = ls_deadline_after(cluster->next.seeking_since, cluster->config.settings->collective_timeout);
    if (!cluster->elastic.least || !cluster->generation || ls_now() >= until) return 0;
    if (cluster->next.follows != cluster->rank) return until; /* the one that it follows knows */
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (ls_peer_is_survivor(peer) && !peer->report.made && !ls_servers_has(cluster, peer->rank)) return until;
    return 0;
}

/* All that were ever started, so that no two first generations can come about. */
static bool has_started(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->elastic.start; rank++)
        if (!cluster->next.present[rank]) return false;
    return true;
}

bool ls_elastic_may_form(struct ls_cluster *cluster, int count) {
    uint64_t newest;
    if (!cluster->generation) return has_started(cluster) && gather_ledger(cluster, &newest);
    if (!gather_ledger(cluster, &newest) || !gather_ends(cluster)) return false;
    if (count < cluster->elastic.least) return false;
    if (!ls_quorum_permits(&cluster->proposal.ledger, cluster->next.present, &cluster->elastic.ended, NULL))
        return false;
    bool shrinks = ls_now() >= ls_elastic_shrinks_at(cluster) && !ls_elastic_awaits_until(cluster);
    return shrinks || is_whole(cluster, newest, false) || is_whole(cluster, newest, true);
}

/* "votes: 1 of the 2 ...": who of a roster is not there, and why nobody has its vote. */
static void describe_votes(const struct ls_cluster *cluster, const uint64_t *roster, char *text, size_t size) {
    int all = 0, here = 0, lowest = -1;
    for (int rank = 0; rank < cluster->workers; rank++) {
        if (roster[rank] && !all++) lowest = rank;
        here += roster[rank] && roster[rank] == cluster->next.present[rank];
    }
    int used =
        snprintf(text, size, "votes: %d of the %d of the workers before are here, not most of them, nor half with %s",
                 here, all, ls_cluster_view_member(cluster->config.tf_config, lowest)->name);
    for (int rank = 0; rank < cluster->workers && used > 0 && (size_t)used < size; rank++) {
        if (!roster[rank] || roster[rank] == cluster->next.present[rank]) continue;
        bool ended = ls_closed_has(&cluster->elastic.ended, roster[rank]), anew = cluster->next.present[rank] != 0;
        const char *why = ended && anew ? "its new process votes once all tasks are there"
                          : ended       ? "it ended, and is not started anew yet"
                          : anew        ? "a new process has come, and the one before was not seen to end: no vote"
                                        : "frozen or cut off, as far as is known";
        const char *name = ls_cluster_view_member(cluster->config.tf_config, rank)->name;
        used += snprintf(text + used, size - (size_t)used, "; %s: %s", name, why);
    }
}

void ls_elastic_describe(struct ls_cluster *cluster, int count, char *text, size_t size) {
    const uint64_t *missing = NULL;
    uint64_t newest;
    if (!cluster->elastic.least || !cluster->generation) return;
    if (count < cluster->elastic.least) {
        (void)snprintf(text, size, "more workers: %d are here, fewer than the %d of LOCKSTEP_ELASTIC", count,
                       cluster->elastic.least);
    } else if (gather_ledger(cluster, &newest) && gather_ends(cluster) &&
               !ls_quorum_permits(&cluster->proposal.ledger, cluster->next.present, &cluster->elastic.ended,
                                  &missing)) {
        describe_votes(cluster, missing, text, size);
    }
}

/* ---- Joiners ---------------------------------------------------------------------------------------------------- */

/* One step of a dial for nothing else: all would wait in vain for a joiner that hears nobody. */
static bool is_reachable(struct ls_cluster *cluster, struct ls_peer *peer) {
    struct ls_dial *knock = &peer->knock.dial;
    if (peer->knock.incarnation != peer->incarnation) {
        ls_dial_reset(knock);
        peer->knock.incarnation = peer->incarnation;
        peer->knock.in_vain = false;
        knock->why[0] = 0;
    }
    int fd = ls_moved_dial(&cluster->net.moved, peer->rank, knock);
    if (fd >= 0) (void)close(fd);
    if (fd < 0 && *knock->why && !peer->knock.in_vain) {
        peer->knock.in_vain = true;
        ls_log_warning(cluster->config.log, "%s wants to come in, but cannot be dialled: %s", peer->where, knock->why);
    }
    return fd >= 0;
}

void ls_elastic_admit(struct ls_cluster *cluster) {
    bool running = cluster->phase == LS_PHASE_MEMBER && !cluster->failure.status;
    if (!running || ls_now() < cluster->elastic.admit_at) return;
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        char text[LS_ERROR_SIZE];
        bool wanted = cluster->elastic.least || ls_servers_takes(cluster, peer->rank);
        if (!wanted || cluster->roster[peer->rank] || !peer->in || !is_reachable(cluster, peer)) continue;
        (void)snprintf(text, sizeof(text), "%s (rank %d, %s) comes in", peer->name, peer->rank, peer->task->address);
        cluster->elastic.admit_at = ls_now() + ADMIT_PAUSE;
        ls_failure_stop(cluster, peer->rank, text);
        return;
    }
}
