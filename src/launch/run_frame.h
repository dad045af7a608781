/* The frames between lockstep run and its agents, one stream each way: docs/launchers.md has the table. A frame is 12
 * bytes of header and a payload: the payload's size, the kind and the rank, each four bytes, the lowest first. The
 * payload is bytes of a worker, or texts that end with a zero; numbers are decimal texts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define LS_FRAME_HEADER 12
#define LS_FRAME_LIMIT  ((size_t)8 << 20)  /* of a payload: a large environment, the addresses of 1024 workers */
#define LS_FRAME_FIRST  "lockstep-agent 1" /* what an agent writes before its first frame, and a line end */

enum ls_frame_kind {
    /* from the launcher */
    LS_FRAME_TAKE = 1, /* version, count of ports, network interface or ""; the ports to have again */
    LS_FRAME_SETUP,    /* what all workers share: see agent.c */
    LS_FRAME_START,    /* rank; restarts */
    LS_FRAME_SIGNAL,   /* rank; signal, 1 for its group */
    LS_FRAME_INPUT,    /* bytes for rank 0's standard input; none at its end */
    /* from the agent */
    LS_FRAME_READY,   /* version, machine's name, address or "", SSH_CONNECTION or "", processors, ports */
    LS_FRAME_REFUSED, /* why the agent ends; what a host says otherwise */
    LS_FRAME_STARTED, /* rank; process */
    LS_FRAME_FAILED,  /* rank; exit status for the launcher */
    LS_FRAME_OUTPUT,  /* rank; bytes of its standard output, none at the end */
    LS_FRAME_ERRORS,  /* rank; bytes of its standard error, likewise */
    LS_FRAME_ENDED,   /* rank; exit status, 1 if a signal killed it */
    LS_FRAME_WANT,    /* rank 0 takes more input */
    LS_FRAME_PLACES,  /* from the launcher: the file of LOCKSTEP_ADDRESSES, before SETUP and when it changes */
    LS_FRAME_FLOW,    /* from the launcher: 0 output, 1 errors; how that flows from now on */
    LS_FRAME_KINDS,
    LS_FRAME_LOST /* from nobody: the agent is gone */
};
/* Output goes on, stays in the pipes, or has lost its reader: a worker that writes more gets SIGPIPE. */
enum ls_frame_flow { LS_FLOW_ON, LS_FLOW_HELD, LS_FLOW_CLOSED };

struct ls_run_frame {
    int kind, rank;
    const char *data; /* [size] in the buffer, until the next call */
    size_t size;
};
/* Bytes that were read and not taken yet, or that wait to be written. */
struct ls_frame_buffer {
    char *data; /* [start, start + used) */
    size_t start, used, capacity;
};
void ls_frame_buffer_free(struct ls_frame_buffer *buffer);
void ls_frame_append(struct ls_frame_buffer *buffer, const void *data, size_t size);
void ls_frame_add(struct ls_frame_buffer *buffer, int kind, int rank, const void *data, size_t size);
/* A payload of texts; format's line ends become zeros. */
void ls_frame_say(struct ls_frame_buffer *buffer, int kind, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Takes the next whole frame: 1, 0 if none is there yet, -1 if the bytes are no frame. */
int ls_frame_next(struct ls_frame_buffer *buffer, struct ls_run_frame *frame);
/* Steps over the first size bytes. */
void ls_frame_drop(struct ls_frame_buffer *buffer, size_t size);
/* One read without waiting: more than 0, 0 at the end or after an error, -1 if nothing was there. */
ssize_t ls_frame_read(struct ls_frame_buffer *buffer, int fd);
/* Writes what fd takes without waiting; false if its reader has gone. */
bool ls_frame_write(struct ls_frame_buffer *buffer, int fd);

/* The next text of a payload, stepped over; NULL if there is no whole one. */
const char *ls_frame_text(struct ls_run_frame *frame);
/* The next text as a number in [low, high]; false if it is none. */
bool ls_frame_number(struct ls_run_frame *frame, long low, long high, int *number);
