/* What the files of a cluster share. One monitor guards all of it, except where a comment says whose it is. The
 * protocol is that of docs/protocol.md, whose words are used here.
 *
 * Threads: the caller (form, accept, exchange, leave), the poller of the control streams (control.c's callbacks), the
 * listener (new data connections) and liveness (beats, and who is silent). */
#pragma once
#include <poll.h>

#include "base/status.h"
#include "cluster/cluster.h"
#include "cluster/dial.h"
#include "cluster/ledger.h"
#include "cluster/listener.h"
#include "cluster/message.h"
#include "cluster/refusals.h"
#include "cluster/rpc.h"
#include "cluster/security.h"

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
    uint64_t generation;        /* that it has entered; 0: a joiner */
    bool reported;              /* it follows this worker, and this is its Report */
    struct ls_report report;
    struct ls_ledger ledger; /* that came with it */
    bool agreed;             /* it has accepted this worker's proposal */
    bool left;               /* it has sent its Leave */
    bool told_over;          /* it was told in an answer to its Hello that all have left, or it has been replaced */
    bool finished;           /* it waits in the exit barrier: its end is no loss */
    bool told;               /* it knows of the difference that ends the join */
    uint64_t incarnation;    /* of the process that out and in belong to; 0 when both are NULL */
    int64_t rival_since;     /* when another process first claimed to be this task; 0: none does */
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

    struct ls_dial control, data; /* the forming thread's own, as all below */
    int64_t hello_deadline;
    int data_fd;               /* has sent the preface and waits for the answer; -1: none */
    struct ls_link *data_link; /* likewise, over gRPC; NULL: none */
    int64_t data_deadline;
    uint64_t data_incarnation, data_attempts;
};

/* The next generation, as its convener has proposed it. */
struct ls_proposal {
    uint64_t number;  /* 0: there is none */
    uint64_t *roster; /* [size] incarnations; 0: not on it */
    int64_t position;
    int source;
    bool copy;
    struct ls_ledger ledger; /* elastic: known to its convener, and the roster */
    bool taken;              /* the caller has been given it */
    bool failed;             /* it can not be accepted any more */
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
    int64_t looked;         /* when silence was last counted, by the cluster's monitor like the rest */
    int64_t absence, since; /* the last time in which this process did not run; what was counted after its end */
};

struct ls_cluster {
    struct ls_cluster_config config;
    const char *version;
    int rank, size;
    struct ls_security security;
    struct ls_refusals refusals;
    uint64_t incarnation;
    uint64_t generation;  /* that it has entered; 0: none yet */
    uint64_t *roster;     /* [size] incarnations of that generation; 0: not on it */
    uint64_t heard;       /* the highest number of a proposal */
    struct ls_report own; /* what this worker has */
    int follows;          /* the rank that holds this worker's Report, or its own; -1: none */
    struct ls_proposal proposal;
    int least;               /* workers that may go on; 0: not elastic, all must be there */
    bool scaled;             /* for strategies: the batch shrinks with the workers */
    char elastic[24];        /* both in letters, or empty */
    struct ls_ledger ledger; /* elastic: the roster that it has entered, and those that it has accepted since */
    uint64_t *present;       /* [size] incarnations of who could be on the next roster */
    int64_t admit_at;        /* not before may a joiner make a running generation stop */
    int *members;            /* [count] ranks of the generation that the caller forms or is in */
    int count, place;        /* of them; its own index */
    int64_t propose_at, propose_pause; /* an attempt that has failed is not made again at once */
    bool dropped; /* it has been fenced, and its state counts no more until it has entered a generation */
    bool over;    /* a member has left in order: all have committed the last position */
    char host[256];
    int64_t started;
    int64_t seeking_since, forming_since;
    char cause[LS_ERROR_SIZE]; /* of the last loss */
    int wake;                  /* eventfd that ends the forming thread's poll */
    struct ls_monitor monitor;
    enum ls_phase phase;
    struct ls_peer *peers; /* [size]; the own place has rank and task only */
    ls_status refusal;     /* a difference that ends the join on both sides; LS_OK: none */
    char refusal_text[LS_ERROR_SIZE];
    int64_t refusal_deadline; /* until when peers that are still to be reached are told of it */
    struct ls_failure failure;
    uint64_t sequence; /* exchanges begun */
    bool broken;       /* one of them has failed, and the abort flag says why */
    bool passed_exit;  /* the caller's own */
    struct ls_rpc *rpc;
    struct ls_listener *listener;
    struct ls_liveness liveness;
};

#define LS_EXIT_EXCHANGE "exit" /* the exchange that is the exit barrier */

/* cluster.c */
ls_status ls_cluster_draw_incarnation(struct ls_cluster *cluster);
/* Stops the listener and the streams and frees everything. Without a word to anybody. */
void ls_cluster_free(struct ls_cluster *cluster);
/* Wakes whoever waits for a change: the monitor's waiters and the forming thread. */
void ls_cluster_notify(struct ls_cluster *cluster);
/* Whether data goes over gRPC, if not through shared memory. */
bool ls_cluster_data_over_grpc(const struct ls_cluster *cluster);
struct ls_message ls_cluster_message(const struct ls_cluster *cluster, enum ls_message_kind kind);
/* Encodes and queues; a stream that cannot be written to counts as closed soon, so nothing is returned. */
void ls_cluster_send(struct ls_rpc_stream *stream, const struct ls_message *message);

/* Whether the rank is on the roster of the generation that this worker has entered. */
bool ls_cluster_has_member(const struct ls_cluster *cluster, int rank);
/* Whether some other worker that is connected has entered a generation. */
bool ls_cluster_knows_survivor(const struct ls_cluster *cluster);

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
/* Connected in both directions. */
bool ls_peer_connected(const struct ls_peer *peer);
/* Why it is not complete, in words. */
const char *ls_peer_reason(const struct ls_peer *peer);
/* Ends both streams, as when they had been closed for the reason why. */
void ls_peer_sever(struct ls_peer *peer, const char *why);
/* Forgets what belonged to the generation before. */
void ls_peer_renew(struct ls_peer *peer);
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
/* This worker has seen a loss that no stream tells of: it says Stop. root: its own rank, or a joiner's. */
void ls_control_stop(struct ls_cluster *cluster, int root, const char *message);
/* Records the root cause, if it is the first, and raises the abort flag with message. */
void ls_control_fail(struct ls_cluster *cluster, const struct ls_failure *failure, const char *message);

/* The peer is lost, for the reason how; where this process was away itself, that is the root. A member tells all. */
void ls_control_lose(struct ls_cluster *cluster, struct ls_peer *peer, const char *how);
/* A stream of the peer is gone. */
void ls_control_gone(struct ls_cluster *cluster, struct ls_peer *peer, const char *how);
/* Both are of no use any more: ends them. Before the group runs they are made again. */
void ls_control_drop(struct ls_cluster *cluster, struct ls_peer *peer, const char *why);

/* mesh.c: the connections to all others; for the forming thread, with the monitor held. */
#define LS_MESH_SLOTS(size) (2 + (size_t)(size)*3)
/* One step for each peer: control streams, and, while FORMING, data connections. */
void ls_mesh_step(struct ls_cluster *cluster);
/* Whether all are connected; with a proposal, all of its roster have their data connection too. */
bool ls_mesh_connected(const struct ls_cluster *cluster);
bool ls_mesh_complete(const struct ls_cluster *cluster);
/* What to wait for: fills slots[LS_MESH_SLOTS] and returns until when. The first slot is of cluster->wake. */
int64_t ls_mesh_poll(const struct ls_cluster *cluster, struct pollfd *slots);
/* "2 of 4 workers since 10 s: worker:2 (10.0.0.3:2222): connection refused; ..." */
void ls_mesh_describe(const struct ls_cluster *cluster, int64_t since, char *text, size_t size);
/* Closes the data connections of an attempt. */
void ls_mesh_drop_data(struct ls_cluster *cluster);

/* convene.c: who follows whom, and proposals; with the monitor held. */
/* Looks whom to follow, and proposes where this worker may. Not while FORMING or READY. */
void ls_convene(struct ls_cluster *cluster);
/* When it may do so with fewer than were there before, and how long it waits for a joiner that knocks; LS_NEVER. */
int64_t ls_convene_shrinks_at(const struct ls_cluster *cluster);
int64_t ls_convene_settles_at(const struct ls_cluster *cluster);
/* Elastic: until when a survivor is waited for that is connected and has not reported, as its step is long; 0: none is.
 */
int64_t ls_convene_awaits_until(const struct ls_cluster *cluster);
/* Elastic: the lowest member lets the generation stop for who wants to come in. */
void ls_convene_admit(struct ls_cluster *cluster);
/* The same for all: false, the message breaks the protocol. */
bool ls_convene_receive(struct ls_cluster *cluster, struct ls_peer *peer, const struct ls_message *message);
/* Another proposal in the same memory; number 0: there is none. */
void ls_convene_renew(struct ls_proposal *proposal, uint64_t number);
/* Elastic: what is proposed stands in the ledger before it is sent or accepted; false: there is no room. */
bool ls_convene_keep(struct ls_cluster *cluster);
/* Whether all have accepted this worker's own proposal: it enters, and says Begin. */
void ls_convene_begin(struct ls_cluster *cluster);
bool ls_convene_is_own(const struct ls_cluster *cluster);
/* Whether a generation is being formed. */
bool ls_convene_is_attempting(const struct ls_cluster *cluster);
/* Where an attempt has failed: whom it follows is told. */
void ls_convene_again(struct ls_cluster *cluster);
/* The peer's stream is gone: what it reported, or that it was followed, is over. */
void ls_convene_forget(struct ls_cluster *cluster, struct ls_peer *peer);
/* The group has gone on without this process. */
void ls_convene_fence(struct ls_cluster *cluster, const char *why);
/* The attempt is over, for the caller to see. */
void ls_convene_fail(struct ls_cluster *cluster, const char *why);

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
