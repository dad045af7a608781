/* What the files of a joined cluster share. One monitor guards all of it, except where a comment says whose it is.
 *
 * Threads: the caller (join, exchange, leave), the poller of the control streams (control.c's callbacks), the listener
 * (new data connections) and liveness (beats, and who is silent). A worker goes through the phases in order and never
 * back. */
#pragma once
#include "base/status.h"
#include "cluster/cluster.h"
#include "cluster/dial.h"
#include "cluster/listener.h"
#include "cluster/message.h"
#include "cluster/refusals.h"
#include "cluster/rpc.h"
#include "cluster/security.h"

enum ls_phase {
    LS_PHASE_JOINING, /* peers may come and go */
    LS_PHASE_READY,   /* all are connected to this worker, and were told so: a loss is a failure from here on */
    LS_PHASE_MEMBER,  /* all have said that they are ready */
    LS_PHASE_LEAVING  /* this worker has said its last word */
};

struct ls_stored_share {
    struct ls_stored_share *next;
    uint64_t sequence;
    char *name;
    struct ls_bytes bytes;
};

struct ls_peer {
    int rank;
    const struct ls_task *task; /* borrowed */
    char name[48];              /* "worker:2" */
    char where[320];            /* "worker:2 (host:port)" */
    struct ls_rpc_stream *out;  /* this worker's stream to it; NULL when there is none */
    struct ls_rpc_stream *in;   /* its stream to this worker, once its Hello was accepted */
    bool accepted;              /* it accepted this worker's Hello on out */
    bool left;                  /* it has sent its Leave */
    bool finished;              /* it waits in the exit barrier: its end is no loss */
    bool told;                  /* it knows of the difference that ends the join */
    uint64_t incarnation;       /* of the process that out and in belong to; 0 when both are NULL */
    int64_t rival_since;        /* when another process first claimed to be this task; 0: none does */
    uint8_t key_in[LS_PROOF_SIZE], key_out[LS_PROOF_SIZE]; /* of the data connection, whoever dials it */
    uint64_t data_admitted;                                /* the last attempt that was admitted */
    struct ls_link *link;                                  /* the data connection; NULL while there is none */
    char host[256];
    int64_t silence;     /* since it was last heard on in; counts only while this process runs */
    bool silent;         /* for longer than the limit: its streams are of no use */
    uint64_t last_share; /* sequence of the last one received */
    struct ls_stored_share *shares;
    bool attempt_over; /* out has ended before it was accepted, for the reason why */
    char why[LS_ERROR_SIZE];

    struct ls_dial control, data; /* the joining thread's own, as all below */
    int64_t hello_deadline;
    int data_fd;               /* has sent the preface and waits for the answer; -1: none */
    struct ls_link *data_link; /* likewise, over gRPC; NULL: none */
    int64_t data_deadline;
    uint64_t data_incarnation, data_attempts;
};

/* Why the group cannot go on: the root, never an echo of it. */
struct ls_failure {
    ls_status status; /* LS_OK: none */
    int root;
    bool lost;
    char message[LS_ERROR_SIZE];
};

/* The thread that beats, and when this process itself was away. */
struct ls_liveness {
    struct ls_monitor monitor; /* of stopping alone */
    bool started, stopping;
    pthread_t thread;
    int64_t interval, limit;
    int64_t looked;        /* when silence was last counted, by the cluster's monitor like the rest */
    int64_t woke, absence; /* the end of the last time in which this process did not run, and how long that was */
};

struct ls_cluster {
    struct ls_cluster_config config;
    const char *version;
    int rank, size;
    struct ls_security security;
    struct ls_refusals refusals;
    uint64_t incarnation, generation;
    char host[256];
    int64_t started;
    int wake; /* eventfd that ends the joining thread's poll */
    struct ls_monitor monitor;
    enum ls_phase phase;
    struct ls_peer *peers; /* [size]; the own place has rank and task only */
    ls_status refusal;     /* a difference that ends the join on both sides; LS_OK: none */
    char refusal_text[LS_ERROR_SIZE];
    int64_t refusal_deadline; /* until when peers that are still to be reached are told of it */
    struct ls_failure failure;
    uint64_t sequence; /* exchanges begun */
    bool broken;       /* one of them has failed, and the abort flag says why */
    struct ls_rpc *rpc;
    struct ls_listener *listener;
    struct ls_liveness liveness;
};

#define LS_EXIT_EXCHANGE "exit" /* the exchange that is the exit barrier */

/* cluster.c */
ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **cluster);
/* Stops the listener and the streams and frees everything. Without a word to anybody. */
void ls_cluster_free(struct ls_cluster *cluster);
/* Wakes whoever waits for a change: the monitor's waiters and the joining thread. */
void ls_cluster_notify(struct ls_cluster *cluster);
/* Whether data goes over gRPC, if not through shared memory. */
bool ls_cluster_data_over_grpc(const struct ls_cluster *cluster);
struct ls_message ls_cluster_message(const struct ls_cluster *cluster, enum ls_message_kind kind);
/* Encodes and queues; a stream that cannot be written to counts as closed soon, so nothing is returned. */
void ls_cluster_send(struct ls_rpc_stream *stream, const struct ls_message *message);

/* peer.c: with the monitor held */
void ls_peer_init(struct ls_peer *peer, const struct ls_task *task, int rank);
void ls_peer_release(struct ls_peer *peer);
/* Everything that belonged to another process of this task is forgotten. */
void ls_peer_adopt(struct ls_peer *peer, uint64_t incarnation);
/* Takes link, instead of the one before. */
void ls_peer_set_link(struct ls_peer *peer, struct ls_link *link);
/* Closes a data connection that is being made. */
void ls_peer_end_data(struct ls_peer *peer);
bool ls_peer_complete(const struct ls_peer *peer);
/* Why it is not complete, in words. */
const char *ls_peer_reason(const struct ls_peer *peer);
/* The share of sequence, NULL if it has not come; borrowed / taken (caller frees). */
struct ls_stored_share *ls_peer_find_share(const struct ls_peer *peer, uint64_t sequence);
struct ls_stored_share *ls_peer_take_share(struct ls_peer *peer, uint64_t sequence);
void ls_stored_share_free(struct ls_stored_share *share);

/* control.c: callbacks, with the monitor held unless said otherwise */
void ls_control_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size);
void ls_control_closed(void *context, struct ls_rpc_stream *stream);
/* The next three take the monitor themselves: the listener's, for data connections over TCP, ... */
void ls_control_data(void *context, int fd, const struct ls_preface *preface);
/* ... and the poller's, for those over gRPC. */
bool ls_control_link(void *context, const struct ls_rpc_caller *caller, const void *preface, size_t size,
                     struct ls_link *link);
void ls_control_link_changed(void *context);
/* The listener's too: answer.c; takes fd. */
void ls_control_probe(void *context, int fd);
/* Records the root cause, if it is the first, and raises the abort flag with message. */
void ls_control_fail(struct ls_cluster *cluster, const struct ls_failure *failure, const char *message);

/* The peer is lost, for the reason how; where this process was away itself, that is the root. */
void ls_control_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *how);

/* liveness.c */
ls_status ls_liveness_start(struct ls_cluster *cluster);
/* Ends the thread. Not with the monitor held. */
void ls_liveness_stop(struct ls_cluster *cluster);
/* The peer was heard just now. */
void ls_liveness_heard(struct ls_peer *peer);
/* How long this process was away lately, so long that the others have taken it for lost; 0: it was not. */
int64_t ls_liveness_absence(const struct ls_cluster *cluster);

/* hello.c: the handshake, with the monitor held */
void ls_hello_received(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
void ls_hello_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* proof: of the token, [LS_PROOF_SIZE]; NULL where there is none. */
void ls_hello_send(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t *proof);
/* This worker's stream ended in vain; the joining thread will try again. */
void ls_hello_end_attempt(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);
/* Who says it is rank knows by now why it cannot join; only whether this worker waits for that depends on it. */
void ls_hello_told(struct ls_cluster *cluster, int rank);
/* Refuses who has not proved to be a worker of this cluster, which does not end this worker's join. */
void ls_hello_refuse_stranger(struct ls_cluster *cluster, struct ls_rpc_stream *stream, int rank, enum ls_refusal kind,
                              const char *text);
/* Ends the join on this side with the text, if nothing has before. */
void ls_hello_refuse_join(struct ls_cluster *cluster, ls_status status, const char *text);

/* certify.c: TLS, with the monitor held. All pass where this worker has none. */
#define LS_CERTIFICATE_NAME 96
/* "worker-1.lockstep" */
void ls_certify_name(const char *task_type, int task_index, char name[LS_CERTIFICATE_NAME]);
/* Whether the caller's certificate is the task's; false: text says why not. */
bool ls_certify_caller(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, const char *task_type,
                       int task_index, char text[LS_ERROR_SIZE]);
/* A stream to the peer has come to nothing for that reason. Fills peer->why, and ends the join where it is the peer's
 * certificate; false without TLS. */
bool ls_certify_failed(struct ls_cluster *cluster, struct ls_peer *peer, const char *reason);

/* prove.c: the token, with the monitor held. All pass where this worker has none and is asked for none. */
/* Opens the handshake on a stream of this worker's: with a Challenge or with Hello. */
void ls_prove_open(struct ls_cluster *cluster, struct ls_rpc_stream *stream);
/* Whether a Challenge of this worker's to the peer waits for its answer; the answer. */
bool ls_prove_is_open(const struct ls_cluster *cluster, const struct ls_peer *peer);
void ls_prove_answered(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Whether an answer to Hello comes from who has proved to know the token; false: the attempt has been ended. */
bool ls_prove_trusts(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Somebody's Challenge; false: it breaks the protocol. */
bool ls_prove_asked(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
/* Whether somebody's Hello may be looked at; false: it has been refused. */
bool ls_prove_admits(struct ls_cluster *cluster, struct ls_rpc_stream *stream, const struct ls_message *message);
/* A stranger's stream has ended: counted, where it was asked for the token and has not proved it. */
void ls_prove_ended(struct ls_cluster *cluster, struct ls_rpc_stream *stream);
/* The key of the pair's data connection; false where libcrypto fails. */
bool ls_prove_key(const struct ls_cluster *cluster, struct ls_rpc_stream *stream, const uint8_t given[LS_DATA_KEY_SIZE],
                  uint8_t key[LS_PROOF_SIZE]);

/* leave.c: tells all, waits up to a second until they know, frees. */
void ls_cluster_end(struct ls_cluster *cluster, const struct ls_leave *leave);
