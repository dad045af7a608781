/* The parts of the simulated network that its files share. */
#pragma once
#include "base/clock.h"
#include "cluster/rpc/rpc.h"
#include "simulation/process.h"
#include "simulation/wire.h"

#define WIRE_LEAST_DELAY (50 * LS_MICROSECOND)
#define WIRE_MOST_DELAY  (300 * LS_MICROSECOND)

struct wire_payload {
    int references;
    size_t size;
    uint8_t data[];
};

enum wire_letter_kind { LETTER_MESSAGE, LETTER_FINISH, LETTER_END };

struct wire_letter {
    struct wire_letter *next;
    struct wire *wire;
    struct ls_rpc_stream *to;
    enum wire_letter_kind kind;
    bool by_kernel;
    struct wire_payload *payload;
};

struct ls_rpc_stream {
    struct wire *wire;
    struct process *process;
    struct ls_rpc_stream *next, **back; /* of its process' open ends */
    void *user, *attachment;
    struct ls_rpc_caller caller;
    bool incoming, open, quiet, finishing, by_kernel;
    bool loses;                /* it was dropped, and what was under way is lost */
    int64_t departed, arrives; /* its last message: out of the process; at the other end */
    int64_t deadline;
};

struct wire {
    struct ls_rpc_stream ends[2]; /* of who dials; of who is dialled */
    int references;
};

struct wires {
    struct process *process;
    struct wires *next;
    struct ls_rpc *rpc; /* NULL: it has none any more */
    struct ls_rpc_stream *streams;
    struct wire_traffic *traffic;
    struct wire_letter *first, **last; /* that wait to be read */
    bool reading, listens;
    int64_t sends_until;
    int64_t dead_since; /* without power; 0: it has some */
};

struct wire_net {
    int tasks;
    struct wires **listening; /* [tasks] */
    struct wires *all;
    struct wire_payload *last; /* that was sent: many get the same one after the other */
    const uint8_t *sides;
    int64_t cut_from, cut_until;
};
extern struct wire_net wire_net;

void wire_must(const void *memory); /* ends the program where there is none */
void wire_release(struct wire *wire);
void wire_release_payload(struct wire_payload *payload);
struct ls_rpc_stream *wire_other_end(const struct ls_rpc_stream *end);
void wire_add_end(struct ls_rpc_stream *end);
void wire_remove_end(struct ls_rpc_stream *end);
void wire_close_end(struct ls_rpc_stream *end);
/* Takes payload. */
void wire_post(struct ls_rpc_stream *from, enum wire_letter_kind kind, struct wire_payload *payload, bool by_kernel);
/* The end hears then that its connection is gone. */
void wire_end_later(struct ls_rpc_stream *end, int64_t at);
/* Since when nothing passes between the two; 0: it does. */
int64_t wire_cut_since(const struct process *a, const struct process *b, int64_t now);
