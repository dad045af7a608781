/* The rules of parameter servers (docs/parameter-server.md): whom a generation waits for, and how long. */
#include "cluster/servers.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/plain.h"
#include "cluster/peer.h"

#define DESERTED 3 /* limits of silence in which nobody listens at any worker's address */

static enum ls_servers_mode mode_of(const struct ls_cluster *cluster) {
    return cluster->config.settings->servers;
}

bool ls_servers_has(const struct ls_cluster *cluster, int rank) {
    return rank >= cluster->workers;
}

bool ls_servers_joins(const struct ls_cluster *cluster, int rank) {
    return ls_servers_has(cluster, cluster->rank) || ls_servers_has(cluster, rank);
}

bool ls_servers_are_listed(const struct ls_cluster *cluster) {
    return cluster->size > cluster->workers && mode_of(cluster) != LS_SERVERS_OFF;
}

bool ls_servers_takes(const struct ls_cluster *cluster, int rank) {
    return ls_servers_has(cluster, rank) && mode_of(cluster) != LS_SERVERS_OFF;
}

/* Returns true if it cannot go on, since no server is there. */
static bool lacks_all(const struct ls_cluster *cluster) {
    bool any = false;
    for (int rank = cluster->workers; rank < cluster->size; rank++) any = any || cluster->next.present[rank];
    return cluster->config.needs_server && !any;
}

/* The loss of a member may be the end of its process, which its host tells who dials it, or its silence. A member of
 * which neither is known has not dialled this worker yet. */
static bool is_expected(const struct ls_cluster *cluster, int rank) {
    const struct ls_peer *peer = cluster->peers[rank];
    const struct ls_failure *failure = &cluster->failure;
    if (peer && peer->in) return true;
    bool silent = failure->unseen && failure->root == rank, absent = peer && peer->attempt.dial.absent;
    return ls_peer_is_member(cluster, rank) && !silent && !absent;
}

/* The first generation waits for all that are listed, and one in which the others lack what they keep. A later one
 * waits for those of the generation before that are not known to be lost, and for those that have a stream to this
 * worker. */
static bool lacks_any(const struct ls_cluster *cluster) {
    if (lacks_all(cluster)) return true;
    bool all = !cluster->generation || cluster->next.all_servers || mode_of(cluster) == LS_SERVERS_REQUIRED;
    for (int rank = cluster->workers; rank < cluster->size; rank++)
        if (!cluster->next.present[rank] && (all || is_expected(cluster, rank))) return true;
    return false;
}

int64_t ls_servers_settle_at(const struct ls_cluster *cluster) {
    int64_t since = cluster->next.servers_since;
    if (!since || mode_of(cluster) == LS_SERVERS_REQUIRED || lacks_all(cluster)) return LS_NEVER;
    return ls_deadline_after(since, cluster->config.settings->servers_wait);
}

bool ls_servers_are_settled(struct ls_cluster *cluster, bool enough) {
    bool lacks = enough && ls_servers_are_listed(cluster) && lacks_any(cluster);
    if (!lacks)
        cluster->next.servers_since = 0;
    else if (!cluster->next.servers_since)
        cluster->next.servers_since = ls_now();
    return enough && (!lacks || ls_now() >= ls_servers_settle_at(cluster));
}

static bool is_deserted(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->workers; rank++) {
        const struct ls_peer *peer = cluster->peers[rank];
        if (!peer || peer->in || peer->out || !peer->attempt.dial.absent) return false;
    }
    return true;
}

void ls_servers_look_for_workers(struct ls_cluster *cluster) {
    bool seeks = ls_servers_has(cluster, cluster->rank) && cluster->next.unseen;
    if (!seeks || !is_deserted(cluster))
        cluster->next.deserted_since = 0;
    else if (!cluster->next.deserted_since)
        cluster->next.deserted_since = ls_now();
}

int64_t ls_servers_deserted_at(const struct ls_cluster *cluster) {
    int64_t since = cluster->next.deserted_since;
    return since ? ls_deadline_after(since, DESERTED * cluster->config.settings->heartbeat_limit) : LS_NEVER;
}

ls_status ls_servers_give_up(const struct ls_cluster *cluster, const char *missing) {
    const char *cause = cluster->next.cause;
    return ls_fail(LS_UNAVAILABLE,
                   "%.400s%sthe workers have left while this server was frozen or cut off, for nobody listens there: "
                   "%.400s",
                   cause, *cause ? "; " : "", missing);
}

bool ls_servers_are_awaited(const struct ls_cluster *cluster) {
    return cluster->next.servers_since || mode_of(cluster) == LS_SERVERS_REQUIRED;
}

void ls_servers_describe(const struct ls_cluster *cluster, char *text, size_t size) {
    int64_t until = ls_servers_settle_at(cluster);
    if (until == LS_NEVER || !cluster->next.servers_since) return;
    (void)ls_plain_text(text, size, "parameter servers: training begins without them in %.0f s (LOCKSTEP_PS_WAIT)",
                        -ls_seconds_since(until));
}
