/* Unlike calls. Some members may wait for bytes that nobody sends, where not all see each other's fingerprints.
 * A member that waits long tells the coordinator. That says the first word about each collective to all members, and
 * each compares it with its own calls. A member that has made another call ends the generation with an error, as if it
 * had seen the difference itself. So N members that wait cost 2 N messages a collective. */
#include "cluster/loss.h"

#include <stdio.h>

#include "base/status.h"
#include "cluster/failure.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/star.h"

/* Remembers the collective; false: it was told already. */
static bool note_sequence(struct ls_cluster *cluster, uint64_t sequence) {
    struct ls_stalls_told *told = &cluster->exchanges.stalls;
    if (told->generation != cluster->generation) *told = (struct ls_stalls_told){.generation = cluster->generation};
    int known = told->count < LS_STALLS_TOLD ? told->count : LS_STALLS_TOLD;
    for (int i = 0; i < known; i++)
        if (told->sequences[i] == sequence) return false;
    told->sequences[told->count++ % LS_STALLS_TOLD] = sequence;
    return true;
}

static void compare_call(struct ls_cluster *cluster, const struct ls_stall *stall) {
    const struct ls_cluster_config *config = &cluster->config;
    struct ls_failure failure = {.root = cluster->rank};
    if (!config->compare_call || cluster->failure.status) return;
    failure.status = config->compare_call(config->context, stall->call, stall->size);
    if (!failure.status) return;
    (void)snprintf(failure.message, sizeof(failure.message), "%s", ls_error());
    ls_failure_raise(cluster, &failure, failure.message);
    ls_failure_say_stop(cluster);
}

static void coordinate_stall(struct ls_cluster *cluster, const struct ls_stall *stall) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_STALL);
    message.stall = *stall;
    if (!note_sequence(cluster, stall->sequence)) return;
    ls_outbox_send_all(cluster, &message, cluster->roster);
    compare_call(cluster, stall);
}

void ls_stall_tell(struct ls_cluster *cluster, uint64_t sequence, const void *call, size_t size) {
    struct ls_stall stall = {sequence, call, size};
    LS_HOLD(&cluster->monitor);
    if (cluster->phase == LS_PHASE_MEMBER && ls_star_coordinates(cluster)) {
        coordinate_stall(cluster, &stall);
    } else if (cluster->phase == LS_PHASE_MEMBER) {
        struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_STALL);
        message.stall = stall;
        ls_outbox_send(cluster->peers[ls_star_coordinator(cluster)]->out, &message);
    }
}

void ls_stall_receive(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_stall *stall) {
    if (cluster->phase != LS_PHASE_MEMBER || peer->generation != cluster->generation) return;
    if (ls_star_coordinates(cluster))
        coordinate_stall(cluster, stall);
    else if (peer->rank == ls_star_coordinator(cluster))
        compare_call(cluster, stall);
}
