/* Liveness: a thread of its own ("ls-liveness"), apart from computing and from the bytes, beats to every peer each
 * interval and looks who has been silent for the limit. It finds who is frozen and who is cut off; who ends is found by
 * the closed stream.
 *
 * Silence counts only while this process runs and serves its queue. A process that was stopped and wakes finds that its
 * own clock has jumped, and accuses nobody: the others get the whole limit to be heard again. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/state.h"

static bool beats(const struct ls_cluster *cluster) {
    return cluster->phase < LS_PHASE_LEAVING;
}

/* Where something is on its way already, that is the sign of life; but it may have been so since before this process
 * was stopped, so *busy asks for the next beat soon. Returns how many were sent. */
static int beat(struct ls_cluster *cluster, bool *busy) {
    int sent = 0;
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    const struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_BEAT);
    if (!beats(cluster) || ls_message_encode(&message, &data, &size)) return 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (!peer->out || !peer->accepted) continue;
        if (ls_rpc_is_idle(peer->out))
            sent += !ls_rpc_send(peer->out, data, size);
        else
            *busy = true;
    }
    return sent;
}

void ls_liveness_heard(struct ls_peer *peer) {
    peer->silence = 0;
}

/* Who has its word out that it goes may be silent. */
static bool is_watched(const struct ls_cluster *cluster, const struct ls_peer *peer) {
    return peer->rank != cluster->rank && peer->in && !peer->left && !peer->finished && !peer->silent;
}

static bool hears_anybody(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (is_watched(cluster, &cluster->peers[rank]) && cluster->peers[rank].silence <= cluster->liveness.limit / 2)
            return true;
    return false;
}

/* "silent for 3.1 s: frozen (its host answers)" */
static void describe(const struct ls_cluster *cluster, const struct ls_peer *peer, char *text, size_t size) {
    double seconds = (double)peer->silence / (double)LS_SECOND, unanswered = ls_rpc_unanswered(peer->out);
    const char *what = "frozen or cut off";
    if (unanswered >= 0)
        what =
            unanswered < seconds / 2 ? "frozen (its host answers, it does not)" : "cut off (its host does not answer)";
    bool alone = cluster->count > 2 && !hears_anybody(cluster);
    (void)snprintf(text, size, "silent for %.1f s, %s; LOCKSTEP_HEARTBEAT_LIMIT is %g s%s", seconds, what,
                   cluster->config.settings->heartbeat_limit,
                   alone ? "; no other worker is heard either, so it may be this one that is cut off" : "");
}

/* A stream whose other end is gone without a word, though the peer is heard on its own: one that was cut, or whose
 * address has moved, while the peer dialled anew. A running group hears that from the peer, to which this one is
 * silent. */
static void find_dead(struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_MEMBER || cluster->liveness.since <= cluster->liveness.limit) return;
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        if (!ls_peer_connected(peer) ||
            ls_rpc_unanswered(peer->out) * (double)LS_SECOND <= (double)cluster->liveness.limit)
            continue;
        ls_control_drop(cluster, peer, "its host does not take what is sent to it");
    }
}

static void find_silent(struct ls_cluster *cluster, int64_t counted) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (is_watched(cluster, &cluster->peers[rank])) cluster->peers[rank].silence += counted;
    for (int rank = 0; rank < cluster->size; rank++) {
        char how[256];
        struct ls_peer *peer = &cluster->peers[rank];
        if (!is_watched(cluster, peer) || peer->silence <= cluster->liveness.limit) continue;
        peer->silent = true;
        describe(cluster, peer, how, sizeof(how));
        if (cluster->phase < LS_PHASE_MEMBER || !ls_cluster_has_member(cluster, rank))
            ls_control_drop(cluster, peer, how);
        else
            ls_control_lose(cluster, peer, how);
    }
}

/* An absence for which the others may have given this process up: to them it began when they last heard of it, which
 * on a busy machine is well before it was stopped. */
static bool is_long(const struct ls_liveness *liveness, int64_t gap) {
    return gap > liveness->limit / 2;
}

static void look(struct ls_cluster *cluster) {
    struct ls_liveness *liveness = &cluster->liveness;
    int64_t now = ls_now(), gap = now - liveness->looked, most = 2 * liveness->interval;
    int64_t counted = gap < most ? gap : most;
    liveness->since += counted;
    if (is_long(liveness, gap)) {
        liveness->since = 0;
        liveness->absence = gap;
        for (int rank = 0; rank < cluster->size; rank++) ls_liveness_heard(&cluster->peers[rank]);
    }
    liveness->looked = now;
    if (!beats(cluster)) return;
    find_silent(cluster, counted);
    find_dead(cluster);
}

int64_t ls_liveness_absence(const struct ls_cluster *cluster) {
    const struct ls_liveness *liveness = &cluster->liveness;
    int64_t gap = ls_now() - liveness->looked;
    if (is_long(liveness, gap)) return gap; /* this thread has not even run since */
    return liveness->since < liveness->limit ? liveness->absence : 0;
}

/* What came while nobody served the queue has not been read: nobody is silent for that. The end of a sending is an
 * event that is served. Returns when to come again, in nanoseconds. */
static int64_t turn(struct ls_cluster *cluster) {
    bool served = ls_rpc_is_served(cluster->rpc), busy = false;
    ls_monitor_lock(&cluster->monitor);
    if (!beat(cluster, &busy)) ls_rpc_nudge(cluster->rpc);
    if (served) look(cluster);
    ls_convene_admit(cluster);
    ls_monitor_unlock(&cluster->monitor);
    return busy ? cluster->liveness.interval / 4 : cluster->liveness.interval;
}

/* False: the thread is to end. */
static bool rest(struct ls_liveness *liveness, int64_t until) {
    ls_monitor_lock(&liveness->monitor);
    while (!liveness->stopping && ls_monitor_wait(&liveness->monitor, until)) continue;
    bool stopping = liveness->stopping;
    ls_monitor_unlock(&liveness->monitor);
    return !stopping;
}

static void *live(void *argument) {
    struct ls_cluster *cluster = argument;
    for (int64_t pause = cluster->liveness.interval; rest(&cluster->liveness, ls_now() + pause);) pause = turn(cluster);
    return NULL;
}

ls_status ls_liveness_start(struct ls_cluster *cluster) {
    struct ls_liveness *liveness = &cluster->liveness;
    liveness->interval = (int64_t)(cluster->config.settings->heartbeat_interval * (double)LS_SECOND);
    liveness->limit = (int64_t)(cluster->config.settings->heartbeat_limit * (double)LS_SECOND);
    liveness->looked = ls_now();
    ls_status status = ls_monitor_init(&liveness->monitor);
    if (status) return status;
    status = ls_thread_start(&liveness->thread, "ls-liveness", live, cluster);
    liveness->started = !status;
    if (status) ls_monitor_destroy(&liveness->monitor);
    return status;
}

void ls_liveness_stop(struct ls_cluster *cluster) {
    struct ls_liveness *liveness = &cluster->liveness;
    if (!liveness->started) return;
    ls_monitor_lock(&liveness->monitor);
    liveness->stopping = true;
    ls_monitor_broadcast(&liveness->monitor);
    ls_monitor_unlock(&liveness->monitor);
    (void)pthread_join(liveness->thread, NULL);
    ls_monitor_destroy(&liveness->monitor);
}
