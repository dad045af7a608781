/* A cluster joined: every worker serves on its own TF_CONFIG port, has one control stream to each other worker over
 * gRPC, and data connections to those with whom its collectives exchange bytes. Losing a peer raises the abort flag,
 * naming it. */
#pragma once
#include "cluster/config.h"
#include "collective/link/link_source.h"

/* Serves; nobody is dialled before ls_join_form. */
ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **cluster);
/* Stops the listener and the streams and frees everything. Without a word to anybody. */
void ls_cluster_free(struct ls_cluster *cluster);
/* Draws another incarnation: the process comes as another one. */
ls_status ls_cluster_draw_incarnation(struct ls_cluster *cluster);

/* A generation as its caller sees it. With all tasks its ranks are TF_CONFIG's; an elastic one may have fewer. */
struct ls_membership {
    int *members;   /* [size + servers] which task of TF_CONFIG a rank is, in its rank order; workers first */
    int size, rank; /* the workers among them; its own index */
    int servers;    /* and the parameter servers */
};
/* The one that ls_join_form has given last. */
const struct ls_membership *ls_cluster_group(const struct ls_cluster *cluster);
/* all: the next generations wait for all listed servers, LOCKSTEP_PS_WAIT at most, as the first one does. */
void ls_cluster_await_servers(struct ls_cluster *cluster, bool all);
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
