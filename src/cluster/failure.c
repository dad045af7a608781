/* Why this worker's group, or its join, ends: the first reason stays. With the monitor held. */
#include "cluster/failure.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "base/plain.h"

#define LATELY 3 /* limits of silence: a busy host hears late what came while this process was stopped */

void ls_failure_raise(struct ls_cluster *cluster, const struct ls_failure *failure, const char *message) {
    if (!cluster->failure.status) cluster->failure = *failure;
    ls_abort_raise(cluster->config.abort, failure->status, message);
    ls_outbox_notify(cluster);
}

bool ls_failure_is_absence(const struct ls_heartbeat *heartbeat, int64_t gap) {
    return gap > heartbeat->limit / 2;
}

/* The time that this process was away lately; 0: it was not. */
static int64_t absence_of(const struct ls_cluster *cluster) {
    const struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    int64_t gap = ls_now() - heartbeat->looked;
    if (ls_failure_is_absence(heartbeat, gap)) return gap; /* this thread has not even run since */
    return heartbeat->since < heartbeat->limit ? heartbeat->absence : 0;
}

bool ls_failure_was_absent(const struct ls_cluster *cluster) {
    const struct ls_heartbeat *heartbeat = &cluster->net.heartbeat;
    return absence_of(cluster) || (heartbeat->absence && heartbeat->since < LATELY * heartbeat->limit);
}

bool ls_failure_blame_absence(struct ls_cluster *cluster, const char *echo) {
    const struct ls_peer *own = cluster->peers[cluster->rank];
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = cluster->rank, .lost = true};
    int64_t absence = absence_of(cluster);
    if (!absence) return false;
    (void)ls_plain_text(
        failure.message, sizeof(failure.message),
        "%s (rank %d, %s) was itself stopped for %.1f s (LOCKSTEP_HEARTBEAT_LIMIT is %g s), and the others "
        "went on without it: %.600s",
        own->name, own->rank, own->task->address, (double)absence / (double)LS_SECOND,
        cluster->config.settings->heartbeat_limit, echo);
    ls_failure_raise(cluster, &failure, failure.message);
    return true;
}

void ls_failure_say_stop(struct ls_cluster *cluster) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_STOP);
    ls_status code = cluster->failure.lost ? LS_OK : cluster->failure.status;
    message.stop = (struct ls_stop){cluster->failure.root, cluster->failure.message, code};
    ls_outbox_send_all(cluster, &message, NULL);
}

void ls_failure_stop(struct ls_cluster *cluster, int root, const char *message) {
    struct ls_failure failure = {.status = LS_UNAVAILABLE, .root = root, .lost = true};
    (void)snprintf(failure.message, sizeof(failure.message), "%s", message);
    ls_failure_raise(cluster, &failure, failure.message);
    ls_failure_say_stop(cluster);
}

void ls_failure_refuse_join(struct ls_cluster *cluster, ls_status status, const char *text) {
    if (cluster->end.refusal.status || cluster->generation) return;
    cluster->end.refusal.status = status;
    cluster->end.refusal.deadline = ls_now() + LS_TELL_TIMEOUT;
    (void)snprintf(cluster->end.refusal.text, sizeof(cluster->end.refusal.text), "%s", text);
    ls_outbox_notify(cluster);
}

void ls_failure_note_over(struct ls_cluster *cluster, const char *stopped) {
    cluster->end.over = true;
    if (!*cluster->end.stopped) (void)snprintf(cluster->end.stopped, sizeof(cluster->end.stopped), "%s", stopped);
}
