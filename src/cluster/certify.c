/* TLS: which certificate is whose. A task's certificate is made out to a DNS name such as worker-1.lockstep, so that
 * nobody can be another task than the one that it was made for. */
#include <stdio.h>
#include <string.h>

#include "base/certificate.h"
#include "base/status.h"
#include "cluster/state.h"

#define SAME_FILES "LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_CA"

void ls_certify_name(const char *task_type, int task_index, char name[LS_CERTIFICATE_NAME]) {
    (void)snprintf(name, LS_CERTIFICATE_NAME, "%s-%d.lockstep", task_type, task_index);
}

bool ls_certify_caller(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, const char *task_type,
                       int task_index, char text[LS_ERROR_SIZE]) {
    char name[LS_CERTIFICATE_NAME];
    if (!ls_security_has_tls(&cluster->security)) return true;
    ls_certify_name(task_type, task_index, name);
    const char *why = "is missing";
    if (caller->certificate) {
        if (ls_certificate_verify(caller->certificate, cluster->security.authority, name) == LS_OK) return true;
        why = ls_error();
    }
    (void)snprintf(text, LS_ERROR_SIZE,
                   "%s (rank %d) refuses who says it is %s:%d: its certificate (LOCKSTEP_TLS_CERTIFICATE) %s",
                   cluster->peers[cluster->rank].name, cluster->rank, task_type, task_index, why);
    return false;
}

/* What gRPC says of a handshake that the other end's certificate has ended. */
static bool is_about_certificate(const char *reason) {
    return strstr(reason, "certificate verify failed") || strstr(reason, "Verification Check failed") ||
           strstr(reason, "not in peer certificate");
}

bool ls_certify_failed(struct ls_cluster *cluster, struct ls_peer *peer, const char *reason) {
    char text[LS_ERROR_SIZE], name[LS_CERTIFICATE_NAME];
    if (!ls_security_has_tls(&cluster->security)) return false;
    if (is_about_certificate(reason)) {
        ls_certify_name(ls_task_type_name(peer->task->type), peer->task->index, name);
        (void)snprintf(text, sizeof(text),
                       "%s (rank %d) refuses the certificate of %s: it has expired, is not signed by the authority of "
                       "LOCKSTEP_TLS_CA or is not for '%s'; check " SAME_FILES " on both (%.300s)",
                       cluster->peers[cluster->rank].name, cluster->rank, peer->where, name, reason);
        ls_hello_refuse_join(cluster, LS_UNAUTHENTICATED, text);
    }
    (void)snprintf(peer->why, sizeof(peer->why), "no TLS connection (does it use TLS too?): %.300s", reason);
    return true;
}
