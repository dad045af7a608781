/* The data connections of a generation. Each opens with a preface that is signed with the key that the generation's
 * convener has drawn, so two members need no control stream between them.
 *
 * A channel is the connections of one group of processes. A strategy or a communicator has channel 0; each further
 * group has a number of its own, so that its bytes never mix with another's. An even channel has one connection a pair,
 * in both directions, and the higher rank dials. An odd one has up to two: the sender dials, and bytes go its way only.
 * A connection of a channel that is not there yet is closed, and is made again. A channel takes an eventfd and 8 bytes
 * a worker (an odd one 16), and about 600 bytes a connection. */
#pragma once
#include "base/monitor.h"
#include "cluster/net/dial.h"
#include "cluster/net/moved.h"
#include "cluster/net/preface.h"
#include "cluster/security/credentials.h"
#include "collective/link/link_source.h"
#include "collective/link/shm.h"

/* A generation, or an attempt at the next one. */
struct ls_data_attempt {
    uint64_t number; /* 0: none */
    uint64_t before; /* a higher number may be one of which this worker has not heard yet */
    uint64_t incarnation;
    const uint64_t *roster; /* [size] incarnations */
    const uint8_t *key;     /* [LS_PROOF_SIZE] */
    bool open;              /* links may be made */
    bool stands;            /* it may still become a generation, or is one */
};
/* One worker's data connections, and what they need of its cluster. The monitor guards them. */
struct ls_data_links {
    struct ls_monitor *monitor; /* borrowed, like all else but the channels */
    const struct ls_cluster_view *tf_config;
    const struct ls_settings *settings;
    const struct ls_credentials *credentials;
    struct ls_refusals *refusals;
    struct ls_relay *relay;
    struct ls_moved *moved;
    int rank, size;
    struct ls_data_attempt (*attempt)(const void *context); /* the present one */
    const void *context;
    struct ls_data_channel *channels; /* the newest first; the last is number 0 */
};
/* One connection, until the caller takes its link. */
struct ls_data_connection {
    struct ls_link *link; /* made, and not taken yet; NULL: none */
    uint64_t admitted;    /* the last attempt that was admitted, of this proposal */
    struct ls_dial dial;
    int fd;                      /* has sent the preface and waits for the answer; -1: none */
    struct ls_shm_link *offered; /* in the preface; NULL: none */
    int64_t deadline;
    uint64_t attempts; /* ever */
    int64_t asked;     /* when the caller first wanted it; 0: it has not */
};
struct ls_data_channel {
    struct ls_data_channel *next;
    struct ls_data_links *links; /* NULL once the cluster is gone */
    uint32_t number;
    int wake; /* eventfd that ends the wait for a connection */
    int places;
    struct ls_data_connection **at; /* [places] by rank, one-way to each and then from each; NULL before it is needed */
};

static inline bool ls_data_channel_is_one_way(uint32_t number) {
    return number & 1;
}
/* ALREADY_EXISTS where the number is taken. Without the monitor. */
ls_status ls_data_channel_open(struct ls_data_links *links, uint32_t number, struct ls_data_channel **channel);
/* Closes its connections, and frees it; also after the cluster. Without the monitor. Number 0 stays until
 * ls_data_channel_end. */
void ls_data_channel_close(struct ls_data_channel *channel);
/* Frees number 0, and leaves the others to those who have opened them. */
void ls_data_channel_end(struct ls_data_links *links);
/* Makes the source of the links of the present attempt among count ranks; NULL for one rank. channel is a number that
 * no other source of this cluster has but number 0's. Of an odd channel place i is the link to ranks[i], and place
 * count + i the one from it. Without the monitor. */
ls_status ls_data_source_new(struct ls_data_links *links, uint32_t channel, const int *ranks, int count,
                             struct ls_link_source **source);
/* A connection has come to this worker's port: takes fd; true: it is a worker's. Without the monitor. */
bool ls_data_link_arrived(struct ls_data_links *links, int fd, const struct ls_preface *preface);

/* ---- with the monitor held ---- */

/* Returns NULL if no channel has that number. */
struct ls_data_channel *ls_data_channel_find(const struct ls_data_links *links, uint32_t number);
/* Returns what is kept of the connection with the rank; inbound: of the one-way connection from it. It is made when it
 * is first asked for; NULL: there is no memory. */
struct ls_data_connection *ls_data_channel_at(const struct ls_data_channel *channel, int rank, bool inbound);
/* Closes the connections of all channels that belonged to the proposal before. */
void ls_data_channel_drop(struct ls_data_links *links);
/* Returns true if the connection fd to the rank may use memory of this host beside its socket. */
bool ls_data_link_may_share(const struct ls_data_links *links, int rank, uint32_t channel, int fd);
/* Makes a link of a connection; shm: both ends have that memory; NULL: not so. Takes fd and shm on success. */
ls_status ls_data_link_make(int fd, struct ls_shm_link *shm, struct ls_link **link);
/* Closes what belonged to the proposal before, or a connection that is being made. */
void ls_data_link_drop(struct ls_data_connection *connection);
void ls_data_link_end_opening(struct ls_data_connection *connection);
