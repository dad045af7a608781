/* Runs a schedule over the links of a group: one thread, never blocking but in poll(), every wait with a deadline, and
 * an abort flag that ends it. One for each group; keeps its memory from call to call. */
#pragma once
#include <poll.h>

#include "base/log.h"
#include "base/status.h"
#include "collective/abort.h"
#include "collective/convert.h"
#include "collective/flight.h"
#include "collective/frame.h"
#include "collective/reduce.h"
#include "collective/schedule.h"
#include "collective/transport.h"

#define LS_INBOX_SIZE 8192 /* bytes that are read together with a frame: small collectives take one system call */

/* What a peer is to a call. */
enum ls_role {
    LS_ROLE_PARTNER,   /* exchanges fingerprints, and what the schedule says */
    LS_ROLE_COMPANION, /* meets this rank in shared memory: whatever comes over its link meanwhile is trouble */
    LS_ROLE_NONE
};

struct ls_peer {
    struct ls_link *link;
    enum ls_role role;
    unsigned char frame[LS_FRAME_SIZE]; /* ours to it */
    unsigned char inbox[LS_INBOX_SIZE]; /* its frame and what followed */
    size_t frame_sent, inbox_filled, inbox_taken;
    size_t told;            /* bytes of text behind a frame that tells of its failure; 0: it is none */
    size_t staged;          /* RECEIVE_ADD: bytes of an element that is not whole yet */
    int sending, receiving; /* the actions in progress; -1: no more */
    bool heard;             /* its frame has come and is equal to ours */
    bool read_blocked, write_blocked;
    int read_error, write_error; /* errno of the end of a direction; 0: alive */
};

struct ls_executor {
    int rank, size;
    struct ls_peer *peers; /* [size]; owns the links */
    struct pollfd *polls;  /* [size + 1] */
    struct ls_abort *abort;
    const struct ls_log *log;
    double timeout, report_interval;
    size_t segment;
    unsigned char *staging; /* segment + one element */
    struct ls_flight flight;

    /* the collective in progress */
    struct ls_schedule *schedule;
    const struct ls_call *call;
    bool patient; /* peers may be waiting for others in turn */
    bool told;    /* why another rank has given up */
    int computing;
    int64_t started, deadline, next_report;
    int64_t grace; /* when to give up after the first trouble; LS_NEVER: no trouble */
    int lost;      /* the first peer whose link failed; -1: none */
    ls_status trouble;
    char message[LS_ERROR_SIZE];

    /* waiting */
    int64_t now;          /* at the last verdict */
    int64_t wait_started; /* 0: not waiting */
    bool looking;         /* this wait is still one of looking again */
    size_t goal, moved;   /* bytes on links: that the wait is for; since it began */
    int in_vain, skip;    /* looks in vain in a row; waits to come without looking */
};

/* What a call is to its fingerprint and to its adding loops. */
struct ls_call {
    struct ls_frame frame;      /* as this rank sends it, but for bytes */
    const size_t *counts;       /* all_gather: elements of each rank; else NULL */
    const unsigned char *roles; /* [size] of enum ls_role; NULL: all peers are partners */
    ls_combine_fn *combine;
    const struct ls_conversion *conversion; /* NULL: no compression */
    bool resumed;                           /* it was begun by other means: its clock goes on */
};

/* Starts the clock of a call that begins without links, for ls_executor_verdict. */
void ls_executor_begin(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);
/* Runs it to its end. Any failure leaves the links in the middle of a collective: the group is done for. */
ls_status ls_execute(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);

/* Tells every peer whose link stands between two collectives why this rank gives up. One attempt, which never blocks:
 * who cannot be told will see the link close. */
void ls_executor_tell(struct ls_executor *executor, uint64_t generation, ls_status status, const char *cause);
/* Who waits for ranks that wait for others in turn gives up a little later than those, to hear the cause from them. */
void ls_executor_be_patient(struct ls_executor *executor);

/* ---- between executor.c, tell.c and wait.c ---- */

/* Whether a frame tells of a failure in this rank's generation; then how much text follows is noted. */
bool ls_executor_is_told(const struct ls_executor *executor, struct ls_peer *peer, const struct ls_frame *frame);
/* The frame and its text are there: the failure is this rank's too. */
void ls_executor_hear(struct ls_executor *executor, struct ls_peer *peer);

/* Bytes from the peer that are worth waking up for; at least 1, and no more than it sends in any case. */
size_t ls_executor_awaits(const struct ls_executor *executor, const struct ls_peer *peer);
/* Notes the first trouble, a failed link (LS_OK) or a refused frame; from then on a short grace is left for its cause
 * to be heard of. */
void ls_executor_trouble(struct ls_executor *executor, const struct ls_peer *peer, ls_status status);
/* After nothing moved and a verdict of LS_OK: comes back at once a few times, then blocks until a link moves, the
 * abort flag is raised, or it is time to report or to give up. */
void ls_executor_wait(struct ls_executor *executor);
/* Something moved: the wait, if there was one, is over. */
void ls_executor_moved(struct ls_executor *executor);
/* LS_OK to go on. */
ls_status ls_executor_verdict(struct ls_executor *executor);
