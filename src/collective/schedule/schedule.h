/* A schedule: the actions of one rank in one collective, over contiguous bytes. It is pure arithmetic; the executor
 * runs it over any links.
 *
 * Every action has a cursor, done: the number of its bytes that are complete. A gate of an action on another holds its
 * cursor at or behind the cursor of the other, of which it may be any part. So a rank forwards a result while the rest
 * of it is still coming, and overwrites memory only behind its readers. With one peer, sends happen in list order and
 * so do receives. The cursors of the other rank hold this rank's back as well, through the bytes that it sends: the sum
 * of a block can come back only for bytes that have left, so a collective in place is safe. With compression cursors
 * count bytes of different width; their gates compare elements. Bytes that are received only to be folded go through a
 * ring that stays in the caches; earlier receives from the same peer must not depend on the ring's reader. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/schedule/tree.h"

enum ls_action_kind {
    LS_ACTION_SEND,        /* from -> peer */
    LS_ACTION_RECEIVE,     /* peer -> to */
    LS_ACTION_RECEIVE_ADD, /* to = the peer's bytes, op from; whole elements. A schedule has one peer for it only */
    LS_ACTION_FOLD,        /* to = the sources folded along the tree */
    LS_ACTION_COPY,        /* to = from */
};

struct ls_action {
    enum ls_action_kind kind;
    int peer;
    unsigned char *to;
    const unsigned char *from;
    unsigned char *narrow_to; /* FOLD: receives the compressed result; to receives the widened values, or is NULL */
    bool narrow;              /* SEND, RECEIVE: size and done count compressed bytes */
    size_t size, done;        /* bytes */
    int divide;               /* RECEIVE_ADD, FOLD: divisor of a complete sum (MEAN); 0 if nothing is divided */
    size_t ring;              /* RECEIVE: to holds so many bytes, again and again; 0 if it holds all */
    int reader;               /* with a ring: the FOLD that must have read the bytes to be overwritten */
    int gates, gate_count;
    int sources, source_count;
    int next; /* in its queue; -1 at the end */
};

/* Byte x of an action waits for byte offset + x of another. */
struct ls_action_gate {
    int action;
    size_t offset;
};

struct ls_queue {
    int head, tail; /* indices of actions; -1 if empty */
    size_t bytes;   /* of all actions */
};

/* Scratch that lives as long as the call. */
struct ls_scratch {
    struct ls_scratch *next;
    size_t size, used;
    unsigned char *memory;
};

struct ls_schedule {
    int size;                                   /* of the group */
    int leaves;                                 /* of the tree that FOLD folds */
    bool out_of_memory;                         /* sticky: nothing more is added */
    struct ls_queue compute, *sends, *receives; /* [size] */
    struct ls_action *actions;
    struct ls_action_gate *gates;
    const void **sources;
    struct ls_subtree *covers;  /* of each source */
    bool *narrow_sources;       /* likewise: it is compressed */
    int *rings;                 /* likewise: the RECEIVE that fills it as a ring; -1 if it is no ring */
    const void **places;        /* likewise: where the piece that is folded lies */
    struct ls_scratch *scratch; /* the newest first; one, once it is large enough */
    size_t action_count, action_capacity, gate_count, gate_capacity, source_count, source_capacity, cover_capacity,
        narrow_capacity, ring_capacity, place_capacity;
};

ls_status ls_schedule_init(struct ls_schedule *schedule, int size);
void ls_schedule_free(struct ls_schedule *schedule);
/* Forgets all actions, keeps the memory. */
void ls_schedule_reset(struct ls_schedule *schedule, int leaves);
/* Scratch of size bytes, aligned to 64, until the next reset; NULL, and sticky, when there is no memory. */
void *ls_schedule_take(struct ls_schedule *schedule, size_t size);
/* Appends to its queue and returns its index; -1 for an action of no bytes. */
int ls_schedule_add(struct ls_schedule *schedule, struct ls_action action);
/* Each adds an action of that kind. */
int ls_schedule_send(struct ls_schedule *schedule, int peer, const void *from, size_t size);
int ls_schedule_receive(struct ls_schedule *schedule, int peer, void *to, size_t size);
int ls_schedule_copy(struct ls_schedule *schedule, void *to, const void *from, size_t size);
/* Each adds to the action added last: a gate (none if gate is -1), by default on an action of the same bytes; or a
 * source of FOLD, in leaf order. */
void ls_schedule_gate(struct ls_schedule *schedule, int action, int gate);
void ls_schedule_gate_at(struct ls_schedule *schedule, int action, int gate, size_t offset);
void ls_schedule_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data);
void ls_schedule_narrow_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data);
/* Marks the source added last, of a FOLD, as the bytes that receive brings in its ring. */
void ls_schedule_read_ring(struct ls_schedule *schedule, int action, int receive);
