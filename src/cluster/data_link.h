/* The data connections of a generation. The higher rank of a pair dials. Each connection opens with a preface that is
 * signed with the key that the generation's convener has drawn, so two members need no control stream between them. */
#pragma once
#include "cluster/cluster_private.h"
#include "collective/link/shm.h"

/* Returns true if the connection fd to the rank may use memory of this host beside its socket. */
bool ls_data_link_may_share(const struct ls_cluster *cluster, int rank, uint32_t channel, int fd);
/* Makes a link of a connection; shm: both ends have that memory; NULL: not so. Takes fd and shm on success. */
ls_status ls_data_link_make(int fd, struct ls_shm_link *shm, struct ls_link **link);

/* ---- with the monitor held ---- */

/* The key of this worker's own proposal, and what the others make it of; false where libcrypto fails. */
bool ls_data_link_draw(struct ls_cluster *cluster, uint8_t drawn[LS_PROOF_SIZE]);
/* Closes what belonged to the proposal before. */
void ls_data_link_drop(struct ls_peer_data *data);

/* Closes a connection that is being made. */
void ls_data_link_end_opening(struct ls_peer_data *data);
/* Returns true if links of that generation may be made. */
bool ls_data_link_is_open(const struct ls_cluster *cluster, uint64_t generation);

/* ---- callbacks ---- */

/* The listener's: takes fd; true: it is a worker's. */
bool ls_data_link_arrived(void *context, int fd, const struct ls_preface *preface);
