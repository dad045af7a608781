/* A cluster joined: every worker serves on its own TF_CONFIG port, has one control stream to each other worker over
 * gRPC, and data connections to those with whom its collectives exchange bytes. Losing a peer raises the abort flag,
 * naming it. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "resolver/cluster_view.h"
#include "collective/link/abort.h"
#include "collective/link/link_source.h"

struct ls_cluster;
struct ls_rendezvous;
struct ls_relay;
struct ls_cluster_config {
    const struct ls_cluster_view *tf_config; /* borrowed; cluster_mode, type chief, worker or ps */
    const struct ls_settings *settings;      /* borrowed */
    const struct ls_log *log;                /* borrowed */
    struct ls_abort *abort;                  /* borrowed; raised when a peer is lost or reports a failure */
    double join_timeout;                     /* seconds */
    struct ls_activity *activity;            /* borrowed: what probes are told of; NULL: nothing */
    const char *version;                     /* compared between workers; NULL: ls_version() (tests give others) */
    const char *options;                     /* borrowed: lines "field=value\n" that must be equal on all; NULL: none */
    /* Compares a call of another member, as it said it to ls_stall_tell, with this process' own. An error says how they
     * differ. Comes with the monitor held, in any thread. NULL: LS_OK. */
    ls_status (*compare_call)(void *context, const void *call, size_t size);
    /* Says each second whom a worker that is in no group waits for. Comes in the joining thread. NULL: nobody is told.
     */
    void (*waiting)(void *context, const char *missing);
    bool hastens;                     /* elastic: a generation forms at once without processes that were seen to end */
    bool needs_server;                /* a generation has one parameter server or more */
    void *context;                    /* of these two */
    struct ls_rendezvous *rendezvous; /* borrowed: of rank 0, which hands out addresses; NULL: none */
    void (*meet)(struct ls_rendezvous *rendezvous, int fd, struct ls_relay *relay); /* takes who asks for them */
    const char *elastic; /* borrowed: LOCKSTEP_ELASTIC's words (quorum.h); NULL or empty: all are needed */
};
/* Serves; nobody is dialled before ls_join_form. */
ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **cluster);

/* A process' state, and the beginning of a generation (docs/protocol.md). */
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
/* Of the generation that ls_join_form has given last, its members counted from 0 in the order of their tasks. With
 * all tasks these are TF_CONFIG's ranks; an elastic one may have fewer. */
int ls_cluster_rank(const struct ls_cluster *cluster);
int ls_cluster_size(const struct ls_cluster *cluster);
/* The parameter servers of that generation: their ranks follow those of the workers. */
int ls_cluster_servers(const struct ls_cluster *cluster);
int ls_cluster_listed_servers(const struct ls_cluster *cluster); /* in TF_CONFIG */
/* all: the next generations wait for all listed servers, LOCKSTEP_PS_WAIT at most, as the first one does. */
void ls_cluster_await_servers(struct ls_cluster *cluster, bool all);
/* Which chief or worker task of TF_CONFIG a rank is, in its rank order; how many of those tasks there are. */
int ls_cluster_task(const struct ls_cluster *cluster, int rank);
int ls_cluster_tasks(const struct ls_cluster *cluster);
/* Returns true if a generation may have fewer members than there are tasks. */
bool ls_cluster_is_elastic(const struct ls_cluster *cluster);
bool ls_cluster_is_scaled(const struct ls_cluster *cluster); /* its batches too */
/* Returns true if the failure that ended the generation is the loss, or the coming, of a parameter server. */
bool ls_cluster_has_lost_server(struct ls_cluster *cluster);
/* Returns true if this process has been in a generation. */
bool ls_cluster_has_entered(struct ls_cluster *cluster);
/* Returns true if it is connected with a worker. */
bool ls_cluster_has_worker(struct ls_cluster *cluster);
/* Returns true if this worker has convened the generation. Exactly one member has, and it was in the generation
 * before. */
bool ls_cluster_has_convened(const struct ls_cluster *cluster);
/* Returns true if this worker has a stream to no member of a lower rank. A deputy's stream back may never have come.
 * After a loss such a worker is the first one that is left. */
bool ls_cluster_is_first(struct ls_cluster *cluster);
int ls_cluster_local_rank(const struct ls_cluster *cluster); /* among the workers on the same host */
int ls_cluster_local_size(const struct ls_cluster *cluster);
/* A number that is equal for the ranks of one host. */
uint64_t ls_cluster_host(const struct ls_cluster *cluster, int rank);
/* "worker:1" */
const char *ls_cluster_task_name(const struct ls_cluster *cluster, int rank);
/* Makes the source of the data links of the generation that ls_join_form has given last, among count members in this
 * order (NULL: all of them); NULL for one member. channel is its number (data/data.h), which no other source of this
 * cluster has but number 0's. Of an odd channel place i is the link to member i, and place count + i the one from it.
 * The caller closes the source. It gives no link any more once the generation is over, and must not be asked for one
 * after the cluster is freed. */
ls_status ls_cluster_links(struct ls_cluster *cluster, uint32_t channel, const int *members, int count,
                           struct ls_link_source **source);
