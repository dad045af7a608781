/* Runs a schedule over the links of a group: one thread, never blocking but in poll(), every wait with a deadline, and
 * an abort flag that ends it. One for each group; keeps its memory from call to call. */
#pragma once
#include <poll.h>

#include "base/kept_error.h"
#include "base/log.h"
#include "collective/link/abort.h"
#include "collective/schedule/convert.h"
#include "collective/run/flight.h"
#include "collective/run/frame.h"
#include "collective/schedule/reduce.h"
#include "collective/schedule/schedule.h"
#include "collective/link/link_source.h"

#define LS_INBOX_SIZE 8192 /* bytes that are read together with a frame: small collectives take one system call */

/* The role of a peer in a call. */
enum ls_role {
    LS_ROLE_PARTNER,   /* exchanges fingerprints, and the bytes of the schedule */
    LS_ROLE_SINK,      /* is sent fingerprint and bytes, and sends nothing */
    LS_ROLE_SOURCE,    /* sends them, and is sent nothing */
    LS_ROLE_COMPANION, /* meets this rank in shared memory; bytes over its link mean trouble then */
    LS_ROLE_NONE
};

struct ls_executor_peer {
    struct ls_link *link; /* NULL until a call has needed it and it is made */
    enum ls_role role;
    unsigned char frame[LS_FRAME_SIZE]; /* ours to it */
    unsigned char inbox[LS_INBOX_SIZE]; /* its frame and the bytes after it */
    size_t frame_sent, inbox_filled, inbox_taken;
    size_t peeked;          /* bytes of the inbox that were read before the call that they belong to */
    size_t told;            /* bytes of text behind a frame that reports its failure; 0 if it reports none */
    size_t staged;          /* RECEIVE_ADD: bytes of an element that is not whole yet */
    int sending, receiving; /* the actions in progress; -1 if there is none */
    bool heard;             /* its frame has come and is equal to ours */
    bool read_blocked, write_blocked;
    int read_error, write_error; /* errno of the end of a direction; 0 if alive */
};

/* It decides whether to look again before a sleep, by what the waits before have shown. */
struct ls_wait_habit {
    int in_vain, skip; /* looks in vain in a row; waits to come without looking */
};
struct ls_executor {
    int rank, size;
    const int *members;             /* [size] of a set: the ranks of the whole group; NULL: this is the whole */
    bool apart;                     /* its calls are counted apart from those of the workers' group */
    struct ls_executor_peer *peers; /* [size]; owns the links */
    struct ls_link_source *source;  /* owned; NULL if size is 1 */
    int *heeded, heeded_count;      /* [size] ranks of the call in progress that are not LS_ROLE_NONE */
    int unlinked;                   /* partners of the call in progress whose link is not there yet */
    struct pollfd *polls;           /* [size + 1] */
    struct ls_abort *abort;
    const struct ls_log *log;
    double timeout, report_interval;
    size_t segment;
    ls_frame_name_fn *algorithm_name;
    unsigned char *staging; /* segment + one element */
    struct ls_flight flight;
    void (*stalled)(void *context, uint64_t sequence, const unsigned char frame[LS_FRAME_SIZE]); /* may be NULL */
    void *context;                                                                               /* of stalled */

    /* the collective in progress */
    struct ls_schedule *schedule;
    const struct ls_call *call;
    bool patient;        /* peers may be waiting for others in turn */
    bool told;           /* why another rank has given up */
    atomic_bool severed; /* a connection broke, here or at another rank that reported it; a worker may be lost */
    int computing;
    int64_t started, deadline, next_report;
    int64_t stall_at; /* when the others are told that this rank waits; LS_NEVER: they are not, or have been */
    int64_t grace;    /* when to give up after the first trouble; LS_NEVER: no trouble */
    int64_t left;     /* when a rank that is awaited was first seen to have finished; 0: none has */
    int lost;         /* the first peer whose link failed; -1 if there is none */
    struct ls_kept_error trouble;

    /* waiting */
    int64_t now;                  /* at the last verdict */
    int64_t wait_started;         /* 0 if not waiting */
    bool looking;                 /* this wait is still one of looking again */
    size_t goal, moved;           /* bytes on links: that the wait is for; since it began */
    struct ls_wait_habit habit;   /* in calls */
    struct ls_wait_habit between; /* of a server, for the next call */
};

/* The parts of a call that its fingerprint and its adding loops need. */
struct ls_call {
    struct ls_frame frame;      /* as this rank sends it, but for bytes */
    const size_t *counts;       /* all_gather: elements of each rank; else NULL */
    const unsigned char *roles; /* [size] of enum ls_role; NULL if all peers are partners */
    ls_combine_fn *combine;
    const struct ls_conversion *conversion; /* NULL without compression */
    bool one_way; /* who exchanges bytes is sink or source of the other: the call takes no turn of the wire and back */
    bool resumed; /* it was begun by other means: its clock goes on */
};

/* The call has a link to it. */
static inline bool ls_role_is_linked(enum ls_role role) {
    return role <= LS_ROLE_SOURCE;
}

/* Starts the clock of a call that begins without links, for ls_wait_verdict. */
void ls_executor_begin(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);
/* Runs it to its end. Any failure leaves the links in the middle of a collective: the group is done for. */
ls_status ls_executor_run(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);

/* Reads the frame that opens the peer's next call, as far as it has come, and leaves it to that call. *whole: frame is
 * set. UNAVAILABLE: the connection broke. Between calls. */
ls_status ls_executor_peek(struct ls_executor *executor, int rank, struct ls_frame *frame, bool *whole);

/* ---- between executor.c, failure_frame.c and wait.c ---- */

/* Bytes from the peer that are worth waking up for; at least 1, and no more than it sends in any case. */
size_t ls_executor_awaits(const struct ls_executor *executor, const struct ls_executor_peer *peer);
