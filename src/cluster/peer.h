/* One other worker: what is known of its process, its streams and its shares. */
#pragma once
#include "base/status.h"
#include "cluster/config.h"
#include "cluster/message.h"
#include "cluster/net/dial.h"

struct ls_cluster;
struct ls_rpc_stream;

struct ls_stored_share {
    struct ls_stored_share *next;
    uint64_t sequence;
    char name[256];
    struct ls_bytes bytes;
};

/* The shares of a process in exchanges. */
struct ls_peer_shares {
    uint64_t last; /* sequence of the last one received */
    struct ls_stored_share *list;
};

/* An attempt to make the own stream; the forming thread's, but over and why. */
struct ls_peer_attempt {
    struct ls_dial dial;
    int64_t deadline; /* of the answer to Hello */
    bool over;        /* the stream has ended before it was accepted, for the reason why */
    char why[LS_ERROR_SIZE];
};

/* A process that is not heard. Its silence counts only while this one runs. */
struct ls_peer_silence {
    int64_t lasts; /* 0: it was heard just now */
    bool over;     /* the limit: its streams are of no use */
};

/* The words of a process and of this worker about an end. */
struct ls_peer_end {
    bool left;       /* it has sent its Leave */
    bool finished;   /* it waits in the exit barrier: its end is no loss */
    bool told_over;  /* the answer to its Hello said that all have left; or another process has its task */
    bool told_asked; /* that this worker was asked to stop */
    bool told;       /* it knows of the difference that ends the join */
    bool refused;    /* it has refused this worker for one; it may end without asking again */
    bool differs;    /* only one of it and this worker has TLS: it is not dialled again */
};

/* The Report of a process that follows this worker. */
struct ls_peer_report {
    bool made;
    bool agreed; /* it has accepted this worker's proposal */
    struct ls_report has;
    struct ls_ledger ledger; /* that came with it ... */
    struct ls_closed closed; /* ... and whom it has seen to end */
};

/* A stream to a process that was lost: its end says whether that one has ended. */
struct ls_peer_fading {
    struct ls_rpc_stream *stream; /* NULL: none */
    uint64_t incarnation;
    int64_t until;
};

/* Of the lowest member: whether a joiner that knocks can be dialled. */
struct ls_peer_knock {
    struct ls_dial dial;
    uint64_t incarnation; /* the joiner's */
    bool in_vain;         /* it cannot, and that has been said */
};

/* Another process that says it is the same task. One that comes long after the one before begins anew. */
struct ls_peer_rival {
    uint64_t incarnation;
    int64_t since, heard; /* its first Hello, and its last; 0: there is none */
};

/* One other worker, from when it is first met: it is to be dialled, or it has come. */
struct ls_peer {
    struct ls_peer *next; /* that was met, by rank; NULL: the last */
    int rank;
    const struct ls_task *task; /* borrowed */
    const char *name;           /* "worker:2", the task's */
    char where[320];            /* "worker:2 (host:port)" */
    uint64_t host;              /* of its Hello: equal for workers on one host */
    enum ls_transport transport;

    /* The streams, and the process behind them. */
    uint64_t incarnation;      /* of the process that out and in belong to; 0 when both are NULL */
    uint64_t generation;       /* that it has entered; 0: a joiner */
    struct ls_rpc_stream *out; /* this worker's stream to it; NULL when there is none */
    struct ls_rpc_stream *in;  /* its stream to this worker, once its Hello was accepted */
    bool accepted;             /* it accepted this worker's Hello on out */
    struct ls_peer_attempt attempt;
    struct ls_peer_rival rival;
    struct ls_peer_silence silence;
    struct ls_peer_fading fading;
    struct ls_peer_knock knock;

    struct ls_peer_report report;
    struct ls_peer_end end;
    struct ls_peer_shares shares;
};

/* The member with that index in the generation that the caller forms or is in: this worker, or one that it has met. */
struct ls_peer *ls_peer_member(const struct ls_cluster *cluster, int index);
/* With the monitor held */
/* The worker of that rank, made when it is first met; NULL: there is no memory. */
struct ls_peer *ls_peer_meet(struct ls_cluster *cluster, int rank);
void ls_peer_free_all(struct ls_cluster *cluster);
/* Everything that belonged to another process of this task is forgotten. */
void ls_peer_adopt(struct ls_peer *peer, uint64_t incarnation);
/* Connected in both directions. */
bool ls_peer_connected(const struct ls_peer *peer);
/* Connected, and it has entered a generation. */
bool ls_peer_is_survivor(const struct ls_peer *peer);
/* Why it is not complete, in words. */
const char *ls_peer_reason(const struct ls_peer *peer);
/* This worker's stream to it is gone, for the reason why; the joining thread makes another. */
void ls_peer_end_out(struct ls_peer *peer, const char *why);
/* Ends both streams, as when they had been closed for the reason why. */
void ls_peer_sever(struct ls_peer *peer, const char *why);
/* The same for who was lost. With elastic the own stream stays for a while: its end tells whether the process has
 * ended.
 */
void ls_peer_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);
/* Returns true if the end of its stream can say that its kernel has closed it. With TLS a relay stands before gRPC, and
 * a connection that timed out looks alike: so only where the peer was heard well before that. */
bool ls_peer_shows_end(const struct ls_cluster *cluster, const struct ls_peer *peer);
void ls_peer_end_fading(struct ls_peer *peer);
/* Forgets what belonged to the generation before. */
void ls_peer_renew(struct ls_peer *peer);
/* The share of sequence, NULL if it has not come; borrowed / taken (caller frees). */
struct ls_stored_share *ls_peer_find_share(const struct ls_peer *peer, uint64_t sequence);
struct ls_stored_share *ls_peer_take_share(struct ls_peer *peer, uint64_t sequence);
void ls_peer_share_free(struct ls_stored_share *share);
/* Returns true if the rank is on the roster of the generation that this worker has entered. */
bool ls_peer_is_member(const struct ls_cluster *cluster, int rank);
/* Returns true if some other worker that is connected has entered a generation. */
bool ls_peer_is_any_survivor(const struct ls_cluster *cluster);
