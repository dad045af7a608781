/* The addresses of workers that move between hosts, or start later: LOCKSTEP_ADDRESSES. */
#pragma once
#include "base/settings.h"
#include "cluster/net/dial.h"
#include "resolver/cluster_view.h"

/* The place of a worker now, if its launcher says so. */
struct ls_moved_task {
    char *host; /* NULL: where TF_CONFIG has it */
    int port;
};
struct ls_moved {
    const struct ls_settings *settings; /* borrowed, as TF_CONFIG */
    const struct ls_cluster_view *tf_config;
    int size;                 /* tasks */
    struct ls_moved_task *at; /* [size]; NULL without LOCKSTEP_ADDRESSES */
    int64_t read_at;          /* not before is the file read again */
};

/* Reads the file, if there is one. INVALID_ARGUMENT names it, and the line. */
ls_status ls_moved_open(struct ls_moved *moved);
void ls_moved_release(struct ls_moved *moved);
/* The host and the port of that rank: its row, else those of TF_CONFIG. host is borrowed. Returns false
 * if it is not started yet. */
bool ls_moved_place(const struct ls_moved *moved, int rank, const char **host, int *port);
/* ls_dial_step to where the rank is now. One without a row and without an address is not dialled. */
int ls_moved_dial(struct ls_moved *moved, int rank, struct ls_dial *dial);
