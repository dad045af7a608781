/* The mesh of control streams: the forming thread drives one small state machine a peer (resolve, connect, Hello) with
 * one poll() over all of them, so that nobody waits behind anybody. */
#include "cluster/mesh.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/grow.h"
#include "cluster/auth_tls.h"
#include "cluster/auth_token.h"
#include "cluster/cluster_private.h"
#include "cluster/net/name_lookup.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/servers.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/star.h"

#define FIRST_SLOTS     16
#define NO_MEMORY_PAUSE (100 * LS_MILLISECOND)

static ls_status open_stream(struct ls_cluster *cluster, int fd, struct ls_peer *peer) {
    ls_status status = ls_rpc_stream_open(cluster->net.rpc, fd, peer->task->address, &peer->out);
    if (status) return status;
    ls_rpc_stream_set_user(peer->out, peer);
    peer->attempt.deadline = ls_now() + LS_HELLO_TIMEOUT;
    ls_auth_token_open(cluster, peer->out);
    return LS_OK;
}

static void dial_control(struct ls_cluster *cluster, struct ls_peer *peer) {
    int fd = ls_moved_dial(&cluster->net.moved, peer->rank, &peer->attempt.dial);
    if (fd >= 0 && open_stream(cluster, fd, peer))
        ls_dial_fail(&peer->attempt.dial, ls_error());
    else if (fd < 0 && peer->attempt.dial.verdict)
        ls_auth_tls_judge(cluster, peer);
}

/* No answer has come in time. */
static void give_up_attempt(struct ls_peer *peer) {
    ls_rpc_stream_drop(peer->out);
    peer->out = NULL;
    if (!peer->in) ls_peer_adopt(peer, 0);
    ls_dial_fail(&peer->attempt.dial, "no answer (connected, but it does not reply)");
}

static void step_control(struct ls_cluster *cluster, struct ls_peer *peer) {
    if (peer->attempt.over) {
        ls_dial_fail(&peer->attempt.dial, peer->attempt.why);
        peer->attempt.over = false;
    }
    if (peer->out && !peer->accepted && ls_now() >= peer->attempt.deadline) give_up_attempt(peer);
    if (!peer->out && !peer->end.differs && ls_star_wants(cluster, peer)) dial_control(cluster, peer);
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
    cluster->net.star.step_at = ls_star_step(cluster);
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        step_fading(cluster, peer);
        step_control(cluster, peer);
    }
}

static int64_t deputies_until(const struct ls_cluster *cluster) {
    return cluster->next.forming_since + LS_DEPUTY_TIMEOUT;
}

/* The convener needs all, and each its convener. In an elastic group whose workers are all deputies of each other they
 * are waited for, but not for ever: the end of their streams gives votes. */
static bool is_needed(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    if (ls_propose_is_own(cluster)) return true;
    if (cluster->phase != LS_PHASE_FORMING) return ls_star_is_deputy(cluster, peer);
    if (peer->rank == cluster->next.follows) return true;
    bool counts = cluster->elastic.least && cluster->workers <= cluster->net.star.window + 1;
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

/* All that are needed have been met: a convener has the Reports of its roster. */
bool ls_mesh_complete(const struct ls_cluster *cluster) {
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (!is_complete(cluster, peer)) return false;
    return true;
}

/* The descriptors to wait for on behalf of one peer. */
static int64_t fill_slot(const struct ls_cluster *cluster, const struct ls_peer *peer, struct pollfd *slot) {
    int64_t until = LS_NEVER;
    *slot = (struct pollfd){.fd = -1};
    if (!peer->out && !peer->end.differs && ls_star_wants(cluster, peer))
        until = ls_dial_poll(&peer->attempt.dial, slot);
    else if (peer->out && !peer->accepted)
        until = peer->attempt.deadline;
    if (peer->fading.stream) until = ls_deadline_earlier(until, peer->fading.until);
    return until;
}

/* One that finds no room is looked at when its time has come. */
static bool add_slot(struct ls_mesh_slots *slots, int fd) {
    if (LS_GROW(slots->at, slots->room, slots->count + 1, FIRST_SLOTS, "connections to wait for")) return false;
    slots->at[slots->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return true;
}

int64_t ls_mesh_poll(const struct ls_cluster *cluster, struct ls_mesh_slots *slots) {
    int64_t until = cluster->net.star.step_at;
    slots->count = 0;
    if (cluster->phase == LS_PHASE_FORMING && ls_now() < deputies_until(cluster))
        until = ls_deadline_earlier(until, deputies_until(cluster));
    if (!add_slot(slots, cluster->net.wake) || !add_slot(slots, ls_abort_fd(cluster->config.abort)))
        return ls_now() + NO_MEMORY_PAUSE;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        struct pollfd slot;
        until = ls_deadline_earlier(until, fill_slot(cluster, peer, &slot));
        if (slot.fd >= 0 && add_slot(slots, slot.fd)) slots->at[slots->count - 1].events = slot.events;
    }
    return until;
}

/* A convener needs those as well whom it has not met. */
static bool is_missing(const struct ls_cluster *cluster, int rank) {
    const struct ls_peer *peer = cluster->peers[rank];
    bool first = cluster->elastic.least && !cluster->generation && !ls_servers_has(cluster, rank);
    if (rank == cluster->rank || (ls_servers_has(cluster, rank) && !ls_servers_are_awaited(cluster))) return false;
    if (first && rank >= cluster->elastic.start) return false;
    return peer ? !is_complete(cluster, peer) : ls_propose_is_own(cluster) && cluster->phase != LS_PHASE_FORMING;
}

/* "; worker:2 (10.0.0.3:2222): connection refused"; returns its length. */
static size_t describe_one(const struct ls_cluster *cluster, int rank, bool first, char *text, size_t size) {
    const struct ls_peer *peer = cluster->peers[rank];
    const struct ls_task *task = ls_cluster_view_member(cluster->config.tf_config, rank);
    (void)snprintf(text, size, "%s%s (%s): %s", first ? "" : "; ", task->name, task->address,
                   peer ? ls_peer_reason(peer) : "no answer yet");
    return strlen(text);
}

void ls_mesh_describe(const struct ls_cluster *cluster, const char *times, char *text, size_t size) {
    char list[LS_ERROR_SIZE] = "";
    size_t used = 0;
    int missing = 0, untold = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        if (!is_missing(cluster, rank)) continue;
        char one[512];
        size_t length = describe_one(cluster, rank, !missing++, one, sizeof(one));
        if (used + length + 240 > size) {
            untold++;
            continue;
        }
        memcpy(list + used, one, length + 1);
        used += length;
    }
    char more[32] = "";
    if (untold) (void)snprintf(more, sizeof(more), "; and %d more", untold);
    text[0] = 0;
    if (missing)
        (void)snprintf(text, size, "%d of %d %s %s: %.760s%s", missing, cluster->size,
                       cluster->size > cluster->workers ? "tasks" : "workers", times, list, more);
}

const char *ls_mesh_way_out(const struct ls_cluster *cluster) {
    const size_t length = strlen(LS_NAME_NOT_FOUND);
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (!ls_peer_connected(peer) && !strncmp(ls_peer_reason(peer), LS_NAME_NOT_FOUND, length))
            return "Mend the name in TF_CONFIG, DNS or /etc/hosts; all must be found within";
    return "Start all tasks within";
}
