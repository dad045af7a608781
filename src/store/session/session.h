/* A session of asynchronous training, as workers and servers tell each other of it: a row of tickets between two
 * meetings of all. A worker takes a ticket, reads the variables, computes, and gives the gradients to every server. The
 * first server decides when all of them have what a ticket needs; then each applies it, in one order. So a ticket is
 * applied whole or not at all. Mirrors tf.distribute.ParameterServerStrategy's asynchronous training, with a bound (Ho
 * et al. 2013). */
#pragma once
#include "collective/messages/post.h"
#include "shard/terms.h"

#define LS_STORE_SESSION "a session of asynchronous training"
struct ls_session {
    int64_t model;                 /* its number in the program */
    int64_t begin;                 /* steps before it */
    int64_t tickets;               /* at most */
    int64_t staleness;             /* tickets that a worker may be ahead of the slowest one; -1: any number */
    ls_on_stale on_stale;          /* of a push that is older than one step */
    int64_t max_staleness;         /* LS_STALE_DROP: in steps */
    int64_t statistics;            /* floats of the blob behind the trained ones: what is pushed is added to them */
    int64_t numbers;               /* of each push, which are added up: at most LS_SESSION_NUMBERS */
    struct ls_optimizer_step step; /* its rule; the rate comes with each push */
};
/* Returns true if they have the same begin, and tickets and pushes of the same form. */
bool ls_session_is(const struct ls_session *one, const struct ls_session *other);
enum { LS_SESSION_WORDS = 8 + LS_STEP_WORDS, LS_SESSION_NUMBERS = 64 };
void ls_session_encode(const struct ls_session *session, int64_t words[LS_SESSION_WORDS]);
/* DATA_LOSS for words that are no session's. */
ls_status ls_session_decode(const int64_t words[LS_SESSION_WORDS], struct ls_session *session);

/* The sums of a session's decisions. */
enum { LS_STALENESS_CLASSES = 8 /* 0, 1, 2 to 3, 4 to 7 ... steps; the last has all above */ };
struct ls_session_totals {
    int64_t applied, dropped;  /* pushes */
    int64_t staleness, oldest; /* their sum, and the greatest */
    int64_t classes[LS_STALENESS_CLASSES];
    double numbers[LS_SESSION_NUMBERS];
};
/* Counts a push whose variables were read so many steps before. */
void ls_session_totals_add(struct ls_session_totals *totals, int64_t staleness, bool applied, const double *numbers,
                           int64_t count);
/* The factor of a push's rate: 0 if it is dropped. */
float ls_session_factor(const struct ls_session *session, int64_t staleness);

enum ls_session_kind {
    LS_SESSION_ASK = 1, /* to the first server: the worker wants its first ticket */
    LS_SESSION_GRANT,   /* back: ticket, version; the server's part of the variables, its first one's statistics */
    LS_SESSION_PULL,    /* to another server: for the ticket, at a version or later; exactly there if flag is set */
    LS_SESSION_RESULT,  /* back: as GRANT */
    LS_SESSION_PUSH,    /* to all servers: ticket, version that was read of the first one, rate; flag: end the session.
                            The gradients that the server holds, changes of statistics, numbers; to the first server also
                            the versions that were read */
    LS_SESSION_STAGED,  /* between servers, to the first: worker and ticket whose push is here */
    LS_SESSION_ORDER,   /* from the first: worker, ticket, version after it, factor of its rate */
    LS_SESSION_END,     /* from the first, to all: the final version, ticket: those that are done; totals to workers */
    LS_SESSION_PIN,     /* from the first server to a worker, which keeps to a record: the versions at which it reads
                            for its next ticket */
    LS_SESSION_PULLED,  /* to the first: ticket, version and server that it has been read at */
    LS_SESSION_FAILED   /* from a server, to all: it ends; a byte of its status, and why */
};
struct ls_session_head {
    int32_t kind;   /* enum ls_session_kind */
    int32_t worker; /* rank; PULLED: the server, from 0 */
    int64_t begin;  /* of the session */
    int64_t ticket, version;
    float value; /* rate, factor */
    bool flag;
};
/* The failure that such a letter tells of, with this thread's error. */
ls_status ls_session_failure(const struct ls_letter *letter);
void ls_session_head_encode(const struct ls_session_head *head, unsigned char bytes[LS_POST_HEAD]);
/* DATA_LOSS for bytes that open no letter of the session between so many workers. */
ls_status ls_session_head_decode(const unsigned char bytes[LS_POST_HEAD], const struct ls_session *session, int workers,
                                 struct ls_session_head *head);

/* The knowledge of servers of a session: which tickets are done, sums, and statistics. It is alike on all after the
 * same version. A server that comes into a session later gets it from one that was there. */
struct ls_session_state {
    int64_t version;   /* steps that are in the variables */
    int64_t closing;   /* 1: somebody has asked that the session ends early */
    uint64_t *done;    /* a bit for each ticket */
    float *statistics; /* [statistics] */
    struct ls_session_totals totals;
};
/* At the session's begin. */
ls_status ls_session_state_new(const struct ls_session *session, struct ls_session_state *state);
void ls_session_state_free(struct ls_session_state *state);
/* By all ranks of the group: a rank without (has is false) gets the state of the first server that has it, or else rank
 * 0's. Only servers, and a rank 0 that gives, are to look at it then. */
ls_status ls_session_state_share(struct ls_group *group, const struct ls_session *session, bool has,
                                 struct ls_session_state *state);
