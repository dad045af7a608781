/* Leaving: in order, after an exit barrier, or because of a failure, whose root is told to everybody. Either way the
 * last word is known to have arrived (its stream closes when the other side has read it) before anything is closed, as
 * far as that takes no more than a few seconds. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/state.h"

static void say_goodbye(struct ls_cluster *cluster, const struct ls_leave *leave) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_LEAVE);
    message.leave = *leave;
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        if (!peer->out) continue;
        if (peer->accepted) {
            ls_cluster_send(peer->out, &message);
            ls_rpc_finish(peer->out);
        } else {
            ls_rpc_drop(peer->out);
            peer->out = NULL;
        }
    }
}

/* Streams whose other side has not read the last word yet; a silent one will not. */
static int unread(const struct ls_cluster *cluster) {
    int count = ls_rpc_finishing(cluster->rpc);
    for (int rank = 0; rank < cluster->size; rank++)
        if (cluster->peers[rank].silent && cluster->peers[rank].out) count--;
    return count;
}

/* Who has neither said Leave nor been told may seek this process: one that was frozen has lost its streams. */
static bool is_sought(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank != cluster->rank && ls_cluster_has_member(cluster, rank) && !peer->left && !peer->told_over &&
            !peer->silent)
            return true;
    }
    return false;
}

void ls_cluster_end(struct ls_cluster *cluster, const struct ls_leave *leave) {
    bool in_order = cluster->generation && !leave->code;
    int64_t deadline = ls_now() + (leave->code ? LS_LAST_WORD_TIMEOUT : LS_GOODBYE_TIMEOUT);
    ls_monitor_lock(&cluster->monitor);
    cluster->phase = leave->code ? LS_PHASE_ENDED : LS_PHASE_LEAVING;
    cluster->over = cluster->over || in_order;
    say_goodbye(cluster, leave);
    while ((unread(cluster) > 0 || (in_order && is_sought(cluster))) && ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    ls_monitor_unlock(&cluster->monitor);
    ls_cluster_free(cluster);
}

/* Where one has left in order, all have come here: who is lost then takes nothing with it. */
ls_status ls_cluster_pass_exit(struct ls_cluster *cluster) {
    if (cluster->passed_exit) return LS_OK;
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *received = ls_alloc_array((size_t)cluster->count, sizeof(*received));
    if (!received) return ls_fail_memory("the exits", (size_t)cluster->count * sizeof(*received));
    double timeout = cluster->config.settings->exit_timeout;
    ls_status status = ls_cluster_exchange(cluster, LS_EXIT_EXCHANGE, (struct ls_bytes){NULL, 0}, timeout, received);
    if (status && ls_cluster_is_over(cluster)) status = LS_OK;
    if (status == LS_DEADLINE_EXCEEDED)
        return ls_fail_context(status, "finished, but others have not (LOCKSTEP_EXIT_TIMEOUT sets the limit)");
    if (status) return status;
    for (int i = 0; i < cluster->count; i++) ls_free(received[i].data);
    cluster->passed_exit = true;
    return LS_OK;
}

/* The root that the streams know of, else this worker itself. */
static void find_root(struct ls_cluster *cluster, ls_status status, struct ls_failure *failure) {
    int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT;
    char error[LS_ERROR_SIZE];
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    ls_monitor_lock(&cluster->monitor);
    while (status == LS_UNAVAILABLE && !cluster->failure.status && ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    *failure = cluster->failure;
    ls_monitor_unlock(&cluster->monitor);
    if (failure->status) return;
    bool known = (unsigned)status <= LS_UNAUTHENTICATED; /* else it is no code that the message may carry */
    *failure = (struct ls_failure){.status = known ? status : LS_UNKNOWN, .root = cluster->rank};
    (void)snprintf(failure->message, sizeof(failure->message), "%s (rank %d) failed: %s: %.900s",
                   cluster->peers[cluster->rank].name, cluster->rank, ls_status_name(status),
                   error[0] ? error : "it gave no reason");
}

ls_status ls_cluster_leave(struct ls_cluster *cluster, ls_status status) {
    struct ls_failure failure = {.status = LS_OK};
    char error[LS_ERROR_SIZE] = "";
    if (!cluster) return status;
    if (!status) status = ls_cluster_pass_exit(cluster);
    if (status) {
        (void)snprintf(error, sizeof(error), "%s", ls_error());
        find_root(cluster, status, &failure);
    }
    struct ls_leave leave = {failure.status, failure.root, failure.lost, failure.message};
    if (!failure.status) leave.root = cluster->rank;
    ls_cluster_end(cluster, &leave);
    return status ? ls_fail(status, "%s", error) : LS_OK;
}
