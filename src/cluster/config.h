/* The configuration of a cluster, and the words in which its units speak to their caller. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "resolver/cluster_view.h"
#include "collective/link/abort.h"

struct ls_cluster;
struct ls_rendezvous;
struct ls_relay;
struct ls_cluster_config {
    const struct ls_cluster_view *tf_config; /* borrowed; cluster_mode, type chief, worker or ps */
    const struct ls_settings *settings;      /* borrowed */
    const struct ls_log *log;                /* borrowed */
    struct ls_abort *abort;                  /* borrowed; raised when a peer is lost or reports a failure */
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
