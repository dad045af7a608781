/* Liveness: a thread of its own ("ls-liveness"), apart from computing and from the bytes, beats each interval on every
 * stream that counts. It looks which worker has been silent for the limit. In a running generation the streams between
 * the coordinator and the members count. On the spare streams, to deputies, it beats less often: their silence is no
 * loss, but tells a worker that is cut off from all. Liveness finds workers that are frozen or cut off. The closed
 * stream finds a worker that ends.
 *
 * Silence counts only while this process runs and serves its queue. A process that was stopped and wakes finds that its
 * own clock has jumped, and accuses nobody: the others get the whole limit to be heard again. */
#include "cluster/heartbeat.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "cluster/cluster_private.h"
#include "cluster/elastic.h"
#include "cluster/failure.h"
#include "cluster/loss.h"
#include "cluster/message.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/star.h"
#include "base/plain.h"

#define FEW_A_CORE 16 /* workers */

static bool beats(const struct ls_cluster *cluster) {
    return cluster->phase < LS_PHASE_LEAVING && !cluster->end.asked;
}

/* Bytes that are on their way already are the sign of life; but they may have been so since before this process
 * was stopped, so *busy asks for the next beat soon. Returns how many were sent. */
static int beat(struct ls_cluster *cluster, bool *busy) {
    int sent = 0;
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    bool spare = cluster->net.heartbeat.turns++ % cluster->net.heartbeat.spare_turns == 0;
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_BEAT);
    message.leader = ls_propose_leader(cluster);
    if (!beats(cluster) || ls_message_encode(&message, &data, &size)) return 0;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (peer->fading.stream && ls_rpc_stream_is_idle(peer->fading.stream))
            (void)ls_rpc_stream_send(peer->fading.stream, data, size);
        if (!peer->out || !peer->accepted || (!spare && !ls_star_counts(cluster, peer))) continue;
        if (ls_rpc_stream_is_idle(peer->out))
            sent += !ls_rpc_stream_send(peer->out, data, size);
        else
            *busy = true;
    }
    return sent;
}

/* A worker that has said that it goes may be silent. */
static bool is_watched(const struct ls_peer *peer) {
    return peer->in && !peer->end.left && !peer->end.finished && !peer->silence.over;
}

/* Returns true if this worker listens to several others, and hears none of them. */
static bool is_cut_off(const struct ls_cluster *cluster) {
    int watched = 1; /* the silent one */
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (!is_watched(peer)) continue;
        if (peer->silence.lasts <= cluster->net.heartbeat.limit / 2) return false;
        watched++;
    }
    return watched > 1;
}

/* "silent for 3.1 s: frozen (its host answers)" */
static void describe_silence(const struct ls_cluster *cluster, const struct ls_peer *peer, char *text, size_t size) {
    double seconds = (double)peer->silence.lasts / (double)LS_SECOND, unanswered = ls_rpc_stream_unanswered(peer->out);
    const char *what = "frozen or cut off";
    if (unanswered >= 0)
        what =
            unanswered < seconds / 2 ? "frozen (its host answers, it does not)" : "cut off (its host does not answer)";
    (void)ls_plain_text(text, size, "silent for %.1f s, %s; LOCKSTEP_HEARTBEAT_LIMIT is %g s%s", seconds, what,
                        cluster->config.settings->heartbeat_limit,
                        is_cut_off(cluster) ? "; no other worker is heard either, so it may be this one that is cut off"
                                            : "");
}

/* A stream whose other end is gone without a word, though the peer is heard on its own: one that was cut, or whose
 * address has moved, while the peer dialled anew. A running group hears that from the peer, to which this one is
 * silent. */
static void find_dead(struct ls_cluster *cluster) {
    if (cluster->phase >= LS_PHASE_MEMBER || cluster->net.heartbeat.since <= cluster->net.heartbeat.limit) return;
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (!ls_peer_connected(peer) ||
            ls_rpc_stream_unanswered(peer->out) * (double)LS_SECOND <= (double)cluster->net.heartbeat.limit)
            continue;
        ls_loss_drop(cluster, peer, "its host does not take what is sent to it");
    }
}

static void find_silent(struct ls_cluster *cluster, int64_t counted) {
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (is_watched(peer)) peer->silence.lasts += counted;
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        char how[256];
        bool within = !ls_star_counts(cluster, peer) || peer->silence.lasts <= cluster->net.heartbeat.limit;
        if (!is_watched(peer) || within) continue;
        peer->silence.over = true;
        describe_silence(cluster, peer, how, sizeof(how));
        if (cluster->phase < LS_PHASE_MEMBER || !ls_peer_is_member(cluster, peer->rank)) {
            ls_loss_drop(cluster, peer, how);
            continue;
        }
        ls_loss_declare(cluster, peer, how);
        if (cluster->failure.root == peer->rank) cluster->failure.unseen = true;
    }
}

static void look_for_silence(struct ls_cluster *cluster) {
    struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    int64_t now = ls_now(), gap = now - heartbeat->looked, most = 2 * heartbeat->interval;
    int64_t counted = gap < most ? gap : most;
    heartbeat->since += counted;
    if (ls_failure_is_absence(heartbeat, gap)) {
        heartbeat->since = 0;
        heartbeat->absence = gap;
        for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) peer->silence.lasts = 0;
    }
    heartbeat->looked = now;
    if (!beats(cluster)) return;
    find_silent(cluster, counted);
    find_dead(cluster);
}

/* Messages that came while nobody served the queue are not read: nobody is silent for that. The end of a sending is an
 * event that is served. Returns when to come again, in nanoseconds. */
static int64_t beat_and_look(struct ls_cluster *cluster) {
    bool served = ls_rpc_is_served(cluster->net.rpc), busy = false;
    LS_HOLD(&cluster->monitor);
    if (!beat(cluster, &busy)) ls_rpc_nudge(cluster->net.rpc);
    if (served) look_for_silence(cluster);
    if (ls_star_coordinates(cluster)) ls_elastic_admit(cluster);
    return busy ? cluster->net.heartbeat.interval / 4 : cluster->net.heartbeat.interval;
}

/* Returns false if the thread is to end. */
static bool rest(struct ls_heartbeat *heartbeat, int64_t until) {
    LS_HOLD(&heartbeat->monitor);
    while (!heartbeat->stopping && ls_monitor_wait(&heartbeat->monitor, until)) continue;
    bool stopping = heartbeat->stopping;
    return !stopping;
}

static void *live(void *argument) {
    struct ls_cluster *cluster = argument;
    for (int64_t pause = 0; rest(&cluster->net.heartbeat, ls_now() + pause);) pause = beat_and_look(cluster);
    return NULL;
}

/* The workers on the host that has the most of them, counted in a table of hosts: comparing all with all takes too long
 * for thousands. Without memory for it, all workers: the longest limit. */
static int find_crowd(const struct ls_cluster *cluster) {
    size_t room = 2;
    int most = 0;
    while (room < 2 * (size_t)cluster->group.size) room *= 2;
    struct ls_crowd {
        uint64_t host; /* 0: none */
        int count;
    } *crowds = ls_alloc_array(room, sizeof(*crowds));
    if (!crowds) return cluster->group.size;
    for (int i = 0; i < cluster->group.size; i++) {
        uint64_t host = cluster->proposal.hosts[cluster->group.members[i]];
        size_t at = host & (room - 1);
        while (crowds[at].host && crowds[at].host != host) at = (at + 1) & (room - 1);
        crowds[at].host = host;
        if (++crowds[at].count > most) most = crowds[at].count;
    }
    ls_free(crowds);
    return most;
}

/* The settings hold for up to FEW_A_CORE workers a core. With more of them a thread that is ready to run waits longer
 * for its turn than any limit, so the limit grows with the workers a core. The beats become fewer with it, but stay
 * frequent enough for another host that has the cores. All cores of the host count: its workers may be bound to
 * different ones. */
static double find_stretch(int crowd) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double stretch = (double)crowd / (double)(FEW_A_CORE * (cores > 0 ? cores : 1));
    return stretch > 1 ? stretch : 1;
}

static void set_pace(struct ls_cluster *cluster, int crowd) {
    const struct ls_settings *settings = cluster->config.settings;
    struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    double stretch = find_stretch(crowd), interval = settings->heartbeat_interval * stretch;
    if (interval > settings->heartbeat_limit / 4 && stretch > 1) interval = settings->heartbeat_limit / 4;
    heartbeat->interval = (int64_t)(interval * (double)LS_SECOND);
    heartbeat->limit = (int64_t)(settings->heartbeat_limit * stretch * (double)LS_SECOND);
    heartbeat->spare_turns = 1 + (int)(heartbeat->limit / (4 * heartbeat->interval));
    if (stretch > 1 && cluster->group.rank == 0)
        ls_log_debug(cluster->config.log, "%d workers share a host: one that is silent is lost after %.0f s, not %g s",
                     crowd, (double)heartbeat->limit / (double)LS_SECOND, settings->heartbeat_limit);
}

void ls_heartbeat_pace(struct ls_cluster *cluster) {
    set_pace(cluster, find_crowd(cluster));
}

/* The tasks of this one's host, by TF_CONFIG: a first join knows no more, and it is when most start at once. */
static int count_neighbours(const struct ls_cluster *cluster) {
    const struct ls_cluster_view *spec = cluster->config.tf_config;
    const char *own = ls_cluster_view_member(spec, cluster->rank)->host;
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++)
        count += strcmp(ls_cluster_view_member(spec, rank)->host, own) == 0;
    return count;
}

void ls_heartbeat_prepare(struct ls_cluster *cluster) {
    set_pace(cluster, count_neighbours(cluster));
    cluster->net.heartbeat.spare_turns = 1;
    cluster->net.heartbeat.looked = ls_now();
}

ls_status ls_heartbeat_start(struct ls_cluster *cluster) {
    struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    ls_status status = ls_monitor_init(&heartbeat->monitor);
    if (!status) status = ls_thread_start(&heartbeat->thread, "ls-liveness", live, cluster);
    heartbeat->started = !status;
    return status;
}

void ls_heartbeat_stop(struct ls_cluster *cluster) {
    struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    if (heartbeat->started) ls_monitor_flag(&heartbeat->monitor, &heartbeat->stopping);
    if (heartbeat->started) (void)pthread_join(heartbeat->thread, NULL);
    ls_monitor_destroy(&heartbeat->monitor);
}
