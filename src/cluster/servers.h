/* Parameter servers as members of the cluster: their ranks follow those of the workers. They hold no state, have no
 * vote and never lead. A generation has those of them that are there. With the monitor held. */
#pragma once
#include "cluster/cluster_private.h"

bool ls_servers_has(const struct ls_cluster *cluster, int rank);
/* Returns true if this process is a server, or that rank is one. Options of the training are not compared then. */
bool ls_servers_joins(const struct ls_cluster *cluster, int rank);
/* Returns true if TF_CONFIG lists servers, and LOCKSTEP_PS is not off. */
bool ls_servers_are_listed(const struct ls_cluster *cluster);
/* Returns true if that rank is a server that may be a member. */
bool ls_servers_takes(const struct ls_cluster *cluster, int rank);
/* Of a convener: enough says that the workers of cluster->next.present may form a generation. Returns true if no server
 * is waited for any longer. */
bool ls_servers_are_settled(struct ls_cluster *cluster, bool enough);
/* Of a server that seeks its workers: notes whether anybody listens at any of their addresses. */
void ls_servers_look_for_workers(struct ls_cluster *cluster);
/* When it gives them up, as it was frozen or cut off when it lost them, and they are gone; else LS_NEVER. */
int64_t ls_servers_deserted_at(const struct ls_cluster *cluster);
/* The error of that, with whom it seeks. */
ls_status ls_servers_give_up(const struct ls_cluster *cluster, const char *missing);
/* When that wait ends; LS_NEVER: there is none. */
int64_t ls_servers_settle_at(const struct ls_cluster *cluster);
/* Returns true if the wait is for servers, and for nobody else. */
bool ls_servers_are_awaited(const struct ls_cluster *cluster);
/* Writes in words until when it lasts; text stays as it is without such a wait. */
void ls_servers_describe(const struct ls_cluster *cluster, char *text, size_t size);
