/* A cluster joined: every worker serves on its own TF_CONFIG port, has one control stream to each other worker over
 * gRPC and one data connection a pair. Losing a peer raises the abort flag, naming it. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/settings.h"
#include "cluster/tf_config.h"
#include "collective/abort.h"
#include "collective/transport.h"

struct ls_cluster;
struct ls_cluster_config {
    const struct ls_tf_config *tf_config; /* borrowed; cluster_mode, type chief or worker */
    const struct ls_settings *settings;   /* borrowed */
    const struct ls_log *log;             /* borrowed */
    struct ls_abort *abort;               /* borrowed; raised when a peer is lost or reports a failure */
    double join_timeout;                  /* seconds */
    const struct ls_activity *activity;   /* borrowed: what probes are told of; NULL: nothing */
    const char *version;                  /* compared between workers; NULL: ls_version() (tests give others) */
};
/* Serves, joins everybody, compares the cluster spec and the version. While it waits it logs, every report_interval,
 * who is missing and why (name not found / refused / no answer / other cluster / other version). */
ls_status ls_cluster_join(const struct ls_cluster_config *config, struct ls_cluster **cluster);
int ls_cluster_rank(const struct ls_cluster *cluster);
int ls_cluster_size(const struct ls_cluster *cluster);
int ls_cluster_local_rank(const struct ls_cluster *cluster); /* among the workers on the same host */
int ls_cluster_local_size(const struct ls_cluster *cluster);
/* "worker:1" */
const char *ls_cluster_task_name(const struct ls_cluster *cluster, int rank);
/* Hands over the data links: links[size], NULL at this rank; the caller owns them. Once. */
ls_status ls_cluster_take_links(struct ls_cluster *cluster, struct ls_link **links);

struct ls_bytes {
    void *data;
    size_t size;
};
/* An all-gather of small messages over the control streams: every worker gives bytes under the same name and receives
 * everybody's, received[size], each freed with ls_free. DEADLINE_EXCEEDED naming who is missing after timeout seconds.
 * A failure raises the abort flag, and every later exchange fails alike. */
ls_status ls_cluster_exchange(struct ls_cluster *cluster, const char *name, struct ls_bytes bytes, double timeout,
                              struct ls_bytes *received);
/* Compares lines "field=value\n" between all workers; the first difference is one INVALID_ARGUMENT error, the same on
 * every worker, that names the field, both values and both ranks. */
ls_status ls_cluster_agree(struct ls_cluster *cluster, const char *name, const char *lines, double timeout);
/* Leaves. LS_OK: exit barrier with the limit of the settings; peers that then go are no failure. Otherwise tells all
 * peers the cause (this thread's error) and does not wait for them. Returns status, or what the barrier met. Frees. */
ls_status ls_cluster_leave(struct ls_cluster *cluster, ls_status status);
