/* The state that the files of a cluster share, cut by how long its parts last. One monitor guards all of it, except
 * where a comment says whose it is. The protocol is that of docs/protocol.md, whose words are used here.
 *
 * Threads: the caller (form, accept, exchange, leave), the poller of the control streams (control.c's callbacks), the
 * listener (new data connections) and liveness (beats, and who is silent). */
#pragma once
#include <poll.h>

#include "base/status.h"
#include "cluster/cluster.h"
#include "cluster/data/data.h"
#include "cluster/quorum.h"
#include "cluster/net/listener.h"
#include "cluster/message.h"
#include "cluster/net/refusals.h"
#include "cluster/rpc/rpc.h"

/* The states of docs/protocol.md. Before MEMBER the caller is in form or accept, and dials whom it is not connected to.
 */
enum ls_phase {
    LS_PHASE_JOINING,
    LS_PHASE_SEEKING,
    LS_PHASE_CONVENING,
    LS_PHASE_FENCED, /* for a moment, until the caller has drawn a new incarnation */
    LS_PHASE_FORMING,
    LS_PHASE_READY,
    LS_PHASE_MEMBER,
    LS_PHASE_LEAVING,
    LS_PHASE_ENDED
};

struct ls_peer;

/* The next generation, as its convener has proposed it. */
struct ls_proposal {
    uint64_t number;  /* 0: there is none */
    uint64_t *roster; /* [size] incarnations; 0: not on it */
    uint64_t *hosts;  /* [size] of those on it */
    int64_t position;
    int source;
    bool copy;
    struct ls_ledger ledger;    /* elastic: known to its convener, and the roster */
    uint8_t key[LS_PROOF_SIZE]; /* of the data connections */
    bool taken;                 /* the caller has been given it */
    bool failed;                /* it can not be accepted any more */
};

/* Why the group cannot go on: the root, never an echo of it. */
struct ls_failure {
    ls_status status; /* LS_OK: none */
    int root;
    bool lost;
    bool unseen; /* it was frozen or cut off: what it has done since is not known */
    char message[LS_ERROR_SIZE];
};

/* This worker's part of the Hello: stays from new to free. */
struct ls_terms {
    const char *version;
    const char *cluster; /* all of TF_CONFIG's tasks in canonical text or, where that is long, digest */
    char digest[256];
    char host[256];
    char elastic[24];  /* LOCKSTEP_ELASTIC's words, or empty */
    char options[512]; /* lines that must be equal on all */
};

/* From a loss, or the start, to the next generation. */
struct ls_agreement {
    int64_t started; /* once */
    int64_t seeking_since, forming_since;
    char cause[LS_ERROR_SIZE]; /* of the last loss; while joining, of the first that has given up */
    struct ls_report own;      /* what this worker has */
    bool dropped;              /* it has been fenced, and its state counts no more until it has entered a generation */
    int follows;               /* the rank that holds this worker's Report, or its own; -1: none */
    uint64_t heard;            /* the highest number of a proposal */
    uint64_t *present;         /* [size] incarnations of those who could be on the next roster */
    int64_t propose_at, propose_pause; /* an attempt that has failed is not made again at once */
    bool all_servers;                  /* a later generation waits for all that are listed, too */
    int64_t servers_since;             /* since when parameter servers are all that is missing; 0: they are not */
    bool unseen;                       /* so the others were, or this process, when it lost them */
    int64_t deserted_since;            /* since when nobody listens at any worker's address; 0: somebody may */
};

/* The means of a generation to go on with fewer. */
struct ls_elastic_view {
    int least;               /* workers that may go on; 0: not elastic, all must be there */
    int start;               /* the lowest ranks that the first generation needs */
    bool scaled;             /* for strategies: the batch shrinks with the workers */
    struct ls_ledger ledger; /* the roster that it has entered, and those that it has accepted since */
    struct ls_closed closed; /* whom this survivor has seen to end since it has entered its generation, ... */
    struct ls_closed ended;  /* ... and with it those who could be on the next roster */
    int64_t admit_at;        /* not before may a joiner make a running generation stop */
};

/* A difference that ends the join on both sides, and the strangers that differ. */
struct ls_join_refusal {
    ls_status status; /* LS_OK: none */
    char text[LS_ERROR_SIZE];
    int64_t deadline;    /* until when peers that are still to be reached are told of it */
    int differed;        /* strangers, shortly one after the other, that heard that only one side has TLS; ... */
    int64_t differed_at; /* ... the last one then */
    int stranger;        /* the rank that one said it is whose Hello differed, while nobody was known to agree; -1 */
};

/* The steps to the end. */
struct ls_ending {
    struct ls_join_refusal refusal;
    struct ls_failure fatal;     /* of a member that failed and said so: no recovery changes that */
    bool over;                   /* a member has left in order: all have committed the last position */
    bool passed_exit;            /* the caller's own */
    bool asked;                  /* to stop, and the others are told */
    char stop[LS_ERROR_SIZE];    /* who was asked to stop, this worker or another; empty: nobody. Then nothing forms */
    char stopped[LS_ERROR_SIZE]; /* that who left in order stopped as one asked, and after which step; else empty */
};

/* The thread that beats, and when this process itself was away. */
struct ls_heartbeat {
    struct ls_monitor monitor; /* of stopping alone */
    bool started, stopping;
    pthread_t thread;
    int64_t interval, limit;
    int turns, spare_turns; /* beats; on spare streams each so many */
    int64_t looked;         /* when silence was last counted, by the cluster's monitor like the rest */
    int64_t absence, since; /* the last time in which this process did not run; what was counted after its end */
};

/* The choice of the peers that this worker dials. */
struct ls_star {
    int window;       /* LOCKSTEP_CONTROL_WINDOW */
    int width;        /* of the window now */
    int reach;        /* below which ranks are probed besides; 0: none is yet */
    int stride;       /* between the ranks that are probed: a power of two */
    int64_t widen_at; /* not before is it widened */
    int64_t widen_pause;
    int64_t step_at; /* when ls_star_step has to come again */
    int leader;      /* a survivor that leads, as a Beat said; -1: none */
    int sought;      /* a convener dials all below this rank */
};

/* Sockets, streams and their threads: stay from new to free. */
struct ls_connections {
    struct ls_credentials credentials;
    struct ls_refusals refusals;
    struct ls_rpc *rpc;
    struct ls_relay *relay;
    struct ls_listener *listener;
    struct ls_moved moved;
    struct ls_data_links data;
    struct ls_heartbeat heartbeat;
    struct ls_star star;
    int wake; /* eventfd that ends the forming thread's poll */
};

/* The coordinator's answer in an exchange. */
struct ls_exchange_answer {
    uint64_t sequence; /* 0: none */
    int count;         /* parts that have come */
    struct ls_bytes *parts;
    ls_status code; /* why there is no answer */
    char message[LS_ERROR_SIZE];
};

/* The wait of the worker that is followed, or of the coordinator, as it has told it. */
struct ls_awaited {
    int64_t heard; /* when it said so; 0: never */
    int rank;      /* who said so */
    uint64_t sequence;
    int missing;
    char text[LS_ERROR_SIZE];
};

#define LS_STALLS_TOLD 8
/* The stalls that the coordinator has said to all, the newest. */
struct ls_stalls_told {
    uint64_t generation, sequences[LS_STALLS_TOLD];
    int count; /* ever in this generation */
};

/* The numbered exchanges of a generation. */
struct ls_exchanges {
    uint64_t begun;
    bool broken; /* one of them has failed, and the abort flag says why */
    struct ls_exchange_answer answer;
    struct ls_awaited awaited;
    struct ls_stalls_told stalls;
    bool finished;  /* somebody waits in the exit barrier, ... */
    uint64_t calls; /* ... after so many collectives, the fewest of all */
};

struct ls_cluster {
    struct ls_cluster_config config;
    struct ls_monitor monitor;
    int rank, size;
    int workers; /* of the size, the lowest ranks; the others are parameter servers */
    uint64_t incarnation;
    struct ls_terms terms;
    struct ls_peer **peers; /* [size] by rank: those that it has met, and itself with rank and task only; else NULL */
    struct ls_peer *first_peer; /* that it has met, without itself */
    struct ls_connections net;
    enum ls_phase phase;

    /* The generation that it has entered, ... */
    uint64_t generation; /* 0: none yet */
    uint64_t *roster; /* [size] incarnations of that generation; 0: not on it; next and proposal have theirs behind */
    struct ls_exchanges exchanges;
    struct ls_failure failure;
    /* ... the next one, ... */
    struct ls_agreement next;
    struct ls_proposal proposal;
    struct ls_elastic_view elastic;
    /* ... either as the caller sees it, ... */
    struct ls_membership group;
    /* ... and the end of all. */
    struct ls_ending end;
};

#define LS_EXIT_EXCHANGE "exit" /* the exchange that is the exit barrier */

/* A worker's answer to a probe, which the listener has read. It takes fd. */
void ls_probe_server_answer(void *context, int fd);
