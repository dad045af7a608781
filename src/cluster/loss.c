/* Another worker is lost, or its streams are: an attempt with it fails, a running group hears of it. With the monitor
 * held. */
#include "cluster/loss.h"

#include <stdio.h>

#include "cluster/failure.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/star.h"

static void describe_lost(const struct ls_peer *peer, const char *how, char text[LS_ERROR_SIZE]) {
    (void)snprintf(text, LS_ERROR_SIZE, "%s (rank %d, %s) was lost: %s", peer->name, peer->rank, peer->task->address,
                   how);
}

void ls_loss_declare(struct ls_cluster *cluster, struct ls_peer *peer, const char *how) {
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = peer->rank, .lost = true};
    bool first = !cluster->failure.status;
    describe_lost(peer, how, failure.message);
    if (!ls_failure_blame_absence(cluster, failure.message)) ls_failure_raise(cluster, &failure, failure.message);
    if (first) ls_failure_say_stop(cluster);
}

/* Before the group runs a peer may come back; then a member is lost, unless it has taken its leave. */
void ls_loss_of_stream(struct ls_cluster *cluster, struct ls_peer *peer, const char *how) {
    char text[LS_ERROR_SIZE];
    bool concerned = ls_propose_is_own(cluster) || cluster->next.follows == peer->rank;
    bool attempted = concerned && ls_propose_is_attempting(cluster) && cluster->proposal.roster[peer->rank];
    bool member = cluster->phase >= LS_PHASE_MEMBER && ls_peer_is_member(cluster, peer->rank);
    if (!member) {
        ls_propose_forget(cluster, peer);
        if (!peer->in && !peer->accepted) ls_peer_adopt(peer, 0); /* an attempt is to whatever process is there */
    }
    if (attempted) {
        describe_lost(peer, how, text);
        cluster->next.unseen = ls_failure_was_absent(cluster);
        ls_propose_fail(cluster, text);
    }
    if (cluster->phase == LS_PHASE_MEMBER && member && ls_star_counts(cluster, peer) && !peer->end.left &&
        !peer->end.finished)
        ls_loss_declare(cluster, peer, how);
    ls_outbox_notify(cluster);
}

void ls_loss_drop(struct ls_cluster *cluster, struct ls_peer *peer, const char *why) {
    ls_peer_lose(cluster, peer, why);
    ls_loss_of_stream(cluster, peer, why);
}
