/* Leaving: in order, after an exit barrier, or because of a failure, whose root is told to everybody. Either way the
 * last word is known to have arrived (its stream closes when the other side has read it) before anything is closed, as
 * far as that takes no more than a few seconds. */
#include "cluster/leave.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "cluster/cluster_private.h"
#include "cluster/exchange.h"
#include "cluster/failure.h"
#include "cluster/hello.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/servers.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/star.h"

/* ---- Being asked to stop, or to abort --------------------------------------------------------------------------- */

/* To all that are connected and have not heard it: a stream may be made anew just now. */
static void say_asked(struct ls_cluster *cluster, struct ls_failure *failure) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_LEAVE);
    message.leave = (struct ls_leave){failure->status, cluster->rank, false, failure->message};
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (peer->accepted && !peer->end.told_asked) ls_outbox_send(peer->out, &message);
        peer->end.told_asked = peer->accepted;
    }
}

/* The others are told before this process' own calls end. */
static void end_calls(struct ls_cluster *cluster, struct ls_failure *failure) {
    cluster->end.asked = true;
    if (failure->status == LS_CANCELLED && !*cluster->end.stop)
        memcpy(cluster->end.stop, failure->message, sizeof(cluster->end.stop));
    say_asked(cluster, failure);
    ls_failure_raise(cluster, failure, failure->message);
}

void ls_leave_cancel(struct ls_cluster *cluster) {
    struct ls_failure failure = {.status = LS_CANCELLED, .root = cluster->rank};
    (void)snprintf(failure.message, sizeof(failure.message), "%s (rank %d) was asked to stop",
                   cluster->peers[cluster->rank]->name, cluster->rank);
    LS_HOLD(&cluster->monitor);
    end_calls(cluster, &failure);
}

/* While a generation forms, or is about to, only a stop keeps it from forming. */
void ls_leave_abort(struct ls_cluster *cluster, const char *reason) {
    struct ls_failure failure = {.root = cluster->rank};
    (void)snprintf(failure.message, sizeof(failure.message), "%s (rank %d) aborted: %.900s",
                   cluster->peers[cluster->rank]->name, cluster->rank, reason);
    LS_HOLD(&cluster->monitor);
    bool forms = cluster->phase < LS_PHASE_MEMBER || cluster->failure.lost;
    failure.status = forms ? LS_CANCELLED : LS_ABORTED;
    end_calls(cluster, &failure);
}

void ls_leave_tell_failure(struct ls_cluster *cluster, ls_status status, const char *text) {
    LS_HOLD(&cluster->monitor);
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_STOP);
    message.stop = (struct ls_stop){cluster->rank, text, status};
    bool first = cluster->phase == LS_PHASE_MEMBER && !cluster->failure.status;
    if (first) ls_outbox_send_all(cluster, &message, NULL);
}

bool ls_leave_is_cancelled(struct ls_cluster *cluster) {
    int64_t deadline = ls_now() + LS_LAST_WORD_TIMEOUT;
    LS_HOLD(&cluster->monitor);
    while (!*cluster->end.stop && !cluster->failure.status && ls_monitor_wait(&cluster->monitor, deadline)) continue;
    return *cluster->end.stop;
}

/* ---- Leaving ---------------------------------------------------------------------------------------------------- */

static void say_goodbye(struct ls_cluster *cluster, const struct ls_leave *leave) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_LEAVE);
    message.leave = *leave;
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        bool knocks = peer->in && !peer->out && ls_servers_has(cluster, peer->rank);
        if (knocks && !leave->code) ls_hello_answer_over(cluster, peer->in);
        if (!peer->out) continue;
        if (peer->accepted) {
            if (!peer->end.told_asked) ls_outbox_send(peer->out, &message);
            ls_rpc_stream_finish(peer->out);
        } else {
            ls_rpc_stream_drop(peer->out);
            peer->out = NULL;
        }
    }
}

/* Streams whose other side has not read the last word yet; a silent one will not. */
static int unread(const struct ls_cluster *cluster) {
    int count = ls_rpc_streams_finishing(cluster->net.rpc);
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->silence.over && peer->out) count--;
    return count;
}

/* A member that has neither said Leave nor been told may seek this process: one that was frozen has lost its streams.
 * The coordinator waits for all members, a member for the coordinator, also where that one is frozen: others may
 * not have heard from it that all have finished. */
static bool is_sought(const struct ls_cluster *cluster) {
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (ls_peer_is_member(cluster, peer->rank) && ls_star_counts(cluster, peer) && !peer->end.left &&
            !peer->end.told_over && (!peer->silence.over || !ls_star_coordinates(cluster)))
            return true;
    return false;
}

void ls_leave_end(struct ls_cluster *cluster, const struct ls_leave *leave) {
    bool in_order = cluster->generation && !leave->code;
    int64_t deadline = ls_now() + (leave->code ? LS_LAST_WORD_TIMEOUT : LS_GOODBYE_TIMEOUT);
    ls_monitor_lock(&cluster->monitor);
    cluster->phase = leave->code ? LS_PHASE_ENDED : LS_PHASE_LEAVING;
    cluster->end.over = cluster->end.over || in_order;
    say_goodbye(cluster, leave);
    while ((unread(cluster) > 0 || (in_order && is_sought(cluster))) && ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    ls_monitor_unlock(&cluster->monitor);
    ls_cluster_free(cluster);
}

bool ls_leave_is_over(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    return cluster->end.over;
}

void ls_leave_note_stopped(struct ls_cluster *cluster, const char *text) {
    LS_HOLD(&cluster->monitor);
    (void)snprintf(cluster->end.stopped, sizeof(cluster->end.stopped), "%s", text);
}

ls_status ls_leave_outcome(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    return *cluster->end.stopped ? ls_fail(LS_CANCELLED, "%s", cluster->end.stopped) : LS_OK;
}

/* Once one has left in order, all have come here: a later loss takes nothing with it. */
ls_status ls_leave_pass_exit(struct ls_cluster *cluster) {
    if (cluster->end.passed_exit) return LS_OK;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_bytes, received, (size_t)cluster->group.size, "the exits");
    double timeout = cluster->config.settings->exit_timeout;
    uint64_t calls = ls_abort_counted(cluster->config.abort);
    ls_status status =
        ls_cluster_exchange(cluster, LS_EXIT_EXCHANGE, (struct ls_bytes){&calls, sizeof(calls)}, timeout, received);
    if (status && ls_leave_is_over(cluster)) status = LS_OK;
    if (status == LS_DEADLINE_EXCEEDED)
        return ls_fail_context(status, "finished, but others have not (LOCKSTEP_EXIT_TIMEOUT sets the limit)");
    if (status) return status;
    for (int i = 0; i < cluster->group.size; i++) ls_free(received[i].data);
    cluster->end.passed_exit = true;
    return LS_OK;
}

/* The root that the streams know of, if the error comes of it, else this worker itself. */
static void find_root(struct ls_cluster *cluster, ls_status status, struct ls_failure *failure) {
    int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT;
    char error[LS_ERROR_SIZE];
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    ls_monitor_lock(&cluster->monitor);
    while (status == LS_UNAVAILABLE && !cluster->failure.status && ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    *failure = cluster->failure;
    if (*cluster->end.stop) *failure = (struct ls_failure){.status = LS_CANCELLED, .root = cluster->rank};
    if (*cluster->end.stop) memcpy(failure->message, cluster->end.stop, sizeof(failure->message));
    ls_monitor_unlock(&cluster->monitor);
    bool echo = status == failure->status || status == LS_UNAVAILABLE || status == LS_ABORTED;
    if (failure->status && echo) return;
    bool known = (unsigned)status <= LS_UNAUTHENTICATED; /* else it is no code that the message may carry */
    ls_status code = status == LS_CANCELLED ? LS_ABORTED : known ? status : LS_UNKNOWN; /* nobody was asked to stop */
    *failure = (struct ls_failure){.status = code, .root = cluster->rank};
    (void)snprintf(failure->message, sizeof(failure->message), "%s (rank %d) failed: %s: %.900s",
                   cluster->peers[cluster->rank]->name, cluster->rank, ls_status_name(status),
                   error[0] ? error : "it gave no reason");
}

ls_status ls_cluster_leave(struct ls_cluster *cluster, ls_status status) {
    struct ls_failure failure = {.status = LS_OK};
    if (!cluster) return status;
    if (!status) status = ls_leave_pass_exit(cluster);
    struct ls_kept_error kept = ls_kept_error_of(status);
    if (status) find_root(cluster, status, &failure);
    struct ls_leave leave = {failure.status, failure.root, failure.lost, failure.message};
    if (!failure.status) leave = (struct ls_leave){LS_OK, cluster->rank, false, cluster->end.stopped};
    ls_leave_end(cluster, &leave);
    return ls_kept_error_raise(&kept);
}
