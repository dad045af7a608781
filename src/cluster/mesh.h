/* The mesh of connections. */
#pragma once
#include "cluster/cluster_private.h"

/* The descriptors that the forming thread waits for. */
struct ls_mesh_slots {
    struct pollfd *at; /* [count]; owns */
    int count, room;
};
/* One step for each peer. */
void ls_mesh_step(struct ls_cluster *cluster);
/* Returns true if all peers that this worker needs are connected. With a proposal these are the peers of its roster. */
bool ls_mesh_complete(const struct ls_cluster *cluster);
/* Fills slots with what to wait for, and returns until when. The first one is of cluster->wake. */
int64_t ls_mesh_poll(const struct ls_cluster *cluster, struct ls_mesh_slots *slots);
/* "2 of 4 workers since 10 s: worker:2 (10.0.0.3:2222): connection refused; ...", with times for "since 10 s"; empty
 * where nobody is missing. */
void ls_mesh_describe(const struct ls_cluster *cluster, const char *times, char *text, size_t size);
/* Advice, before "N s of each other", where others do not come: a host's name may be wrong. */
const char *ls_mesh_way_out(const struct ls_cluster *cluster);
