/* Runs a schedule over the links of a group: one thread, never blocking but in poll(), every wait with a deadline, and
 * an abort flag that ends it. One for each group; keeps its memory from call to call. */
#pragma once
#include <poll.h>

#include "base/log.h"
#include "base/status.h"
#include "collective/abort.h"
#include "collective/frame.h"
#include "collective/reduce.h"
#include "collective/schedule.h"
#include "collective/transport.h"

#define LS_INBOX_SIZE 8192 /* bytes that are read together with a frame: small collectives take one system call */

struct ls_peer {
    struct ls_link *link;
    unsigned char frame[LS_FRAME_SIZE]; /* ours to it */
    unsigned char inbox[LS_INBOX_SIZE]; /* its frame and what followed */
    size_t frame_sent, inbox_filled, inbox_taken;
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

    /* the collective in progress */
    struct ls_schedule *schedule;
    const struct ls_call *call;
    int computing;
    int64_t started, deadline, next_report;
    int64_t grace; /* when to give up after the first trouble; LS_NEVER: no trouble */
    int lost;      /* the first peer whose link failed; -1: none */
    ls_status trouble;
    char message[LS_ERROR_SIZE];
};

/* What a call is to its fingerprint and to its adding loops. */
struct ls_call {
    struct ls_frame frame; /* as this rank sends it, but for bytes */
    const size_t *counts;  /* all_gather: elements of each rank; else NULL */
    ls_combine_fn *combine;
    bool resumed; /* it was begun by other means: its clock goes on */
};

/* Starts the clock of a call that needs no links, for ls_executor_verdict. */
void ls_executor_begin(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);
/* Runs it to its end. Any failure leaves the links in the middle of a collective: the group is done for. */
ls_status ls_execute(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call);

/* ---- between executor.c and wait.c ---- */

/* Notes the first trouble, a failed link (LS_OK) or a refused frame; from then on a short grace is left for its cause
 * to be heard of. */
void ls_executor_trouble(struct ls_executor *executor, const struct ls_peer *peer, ls_status status);
/* Blocks until a link moves, the abort flag is raised, or it is time to report or to give up. */
void ls_executor_wait(struct ls_executor *executor);
/* LS_OK to go on. */
ls_status ls_executor_verdict(struct ls_executor *executor);
