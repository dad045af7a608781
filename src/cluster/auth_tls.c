/* TLS: whoever has no certificate of its task is refused, and a difference about TLS ends the join. */
#include "cluster/auth_tls.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/status.h"
#include "cluster/net/preface.h"
#include "cluster/cluster_private.h"
#include "cluster/failure.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/rpc/rpc_stream.h"

#define HURRY_PAUSE (250 * LS_MILLISECOND) /* since the stranger before: a flood makes nobody dial more */
#define SAME_FILES  "LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_CA"

bool ls_auth_tls_caller(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, const char *task_type,
                        int task_index, char text[LS_ERROR_SIZE]) {
    if (!ls_credentials_check(&cluster->net.credentials, caller->certificate, task_type, task_index)) return true;
    (void)snprintf(text, LS_ERROR_SIZE,
                   "%s (rank %d) refuses who says it is %s:%d: its certificate (LOCKSTEP_TLS_CERTIFICATE) %s",
                   cluster->peers[cluster->rank]->name, cluster->rank, task_type, task_index, ls_error());
    return false;
}

static void refuse_certificate(struct ls_cluster *cluster, const char *by, const char *of, const char *why) {
    char text[LS_ERROR_SIZE];
    (void)snprintf(text, sizeof(text), "%s refuses the certificate of %s: it %.200s; check " SAME_FILES " on both", by,
                   of, why);
    ls_failure_refuse_join(cluster, LS_UNAUTHENTICATED, text);
}

static void refuse_difference(struct ls_cluster *cluster, struct ls_peer *peer, bool has_tls) {
    const struct ls_peer *own = cluster->peers[cluster->rank], *has = has_tls ? peer : own,
                         *lacks = has_tls ? own : peer;
    char text[LS_ERROR_SIZE];
    peer->end.differs = !cluster->generation;
    (void)snprintf(
        text, sizeof(text),
        "%s has TLS and %s has none: set LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_CA on all "
        "workers, or on none",
        has->where, lacks->where);
    ls_failure_refuse_join(cluster, LS_UNAUTHENTICATED, text);
}

void ls_auth_tls_judge(struct ls_cluster *cluster, struct ls_peer *peer) {
    const struct ls_peer *own = cluster->peers[cluster->rank];
    const char *why = peer->attempt.dial.why;
    if (peer->attempt.dial.verdict == LS_DIAL_WITHOUT_TLS)
        refuse_difference(cluster, peer, false);
    else if (peer->attempt.dial.verdict == LS_DIAL_UNTRUSTED)
        refuse_certificate(cluster, own->where, peer->where, why);
    else
        refuse_certificate(cluster, peer->where, own->where, why);
    peer->attempt.dial.verdict = LS_DIAL_UNKNOWN;
}

void ls_auth_tls_failed(struct ls_cluster *cluster, struct ls_peer *peer, const char *reason) {
    if (!ls_credentials_has_tls(&cluster->net.credentials) && strstr(reason, LS_TLS_HERE))
        refuse_difference(cluster, peer, true);
}

void ls_auth_tls_differed(void *context) {
    struct ls_cluster *cluster = context;
    LS_HOLD(&cluster->monitor);
    int64_t now = ls_now(), since = now - cluster->end.refusal.differed_at;
    if (since > LS_TELL_TIMEOUT) cluster->end.refusal.differed = 0;
    cluster->end.refusal.differed++;
    cluster->end.refusal.differed_at = now;
    if (!cluster->generation && since > HURRY_PAUSE)
        for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) ls_dial_hurry(&peer->attempt.dial);
    if (!cluster->generation && (cluster->end.refusal.status || since > HURRY_PAUSE)) ls_outbox_notify(cluster);
}

bool ls_auth_tls_has_told(const struct ls_cluster *cluster, int untold) {
    return !untold ||
           (untold <= cluster->end.refusal.differed && ls_now() - cluster->end.refusal.differed_at <= LS_TELL_TIMEOUT);
}
