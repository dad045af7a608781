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
    const char *elastic; /* borrowed: LOCKSTEP_ELASTIC's words (ledger.h); NULL or empty: all are needed */
};
/* Serves; nobody is dialled before ls_cluster_form. */
ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **cluster);

/* What this process has, and what a generation begins with (docs/protocol.md). */
struct ls_standing {
    bool holds; /* a state */
    int64_t position;
};
struct ls_generation {
    uint64_t number;
    int64_t position;
    int source; /* rank in it that gives the state */
    bool copy;  /* whether some member lacks it; where nobody holds one, false */
    bool lacks; /* whether this one does */
};
/* A generation is accepted by all who hold its state and have its links: form, take the links, copy the state, accept.
 * When one of these fails and ls_cluster_may_recover says so, all begin again with form, as after a loss. While it
 * waits it logs, every report_interval, who is missing and why (name not found / refused / no answer / other cluster /
 * other version). CANCELLED: the others have left in order. */
ls_status ls_cluster_form(struct ls_cluster *cluster, const struct ls_standing *standing,
                          struct ls_generation *generation);
ls_status ls_cluster_accept(struct ls_cluster *cluster);
/* Whether this thread's error, of anything that the cluster or its links are used for, comes from a loss after which a
 * new generation is to be formed. Tells the others where they may not know. */
bool ls_cluster_may_recover(struct ls_cluster *cluster, ls_status status);
/* Whether another worker has left in order: then all have passed the exit barrier. */
bool ls_cluster_is_over(struct ls_cluster *cluster);
/* For a cluster that is no member: tells those who are connected why, and frees. Keeps this thread's error. */
void ls_cluster_give_up(struct ls_cluster *cluster, ls_status status);
/* All of the above for who has no state: returns when the first generation has begun. */
ls_status ls_cluster_join(const struct ls_cluster_config *config, struct ls_cluster **cluster);
/* Of the generation that ls_cluster_form has given last, its members counted from 0 in the order of their tasks. With
 * all tasks these are TF_CONFIG's ranks; an elastic one may have fewer. */
int ls_cluster_rank(const struct ls_cluster *cluster);
int ls_cluster_size(const struct ls_cluster *cluster);
/* Which chief or worker task of TF_CONFIG a rank is, in its rank order; how many tasks there are. */
int ls_cluster_task(const struct ls_cluster *cluster, int rank);
int ls_cluster_tasks(const struct ls_cluster *cluster);
/* Whether a generation may have fewer members than there are tasks. */
bool ls_cluster_is_elastic(const struct ls_cluster *cluster);
bool ls_cluster_is_scaled(const struct ls_cluster *cluster); /* its batches too */
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
/* The exit barrier of ls_cluster_leave before it, for who recovers from a loss in it. */
ls_status ls_cluster_pass_exit(struct ls_cluster *cluster);
