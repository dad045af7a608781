/* A schedule: what one rank does in one collective, as actions over contiguous bytes. Pure arithmetic; the executor
 * runs it over any links.
 *
 * Every action has a cursor, done. A gate on another action lets this one's cursor go only as far as that one's, of
 * which it may be any part: so a result is forwarded while its rest is still coming, and memory is overwritten only
 * behind those who read it. With one peer, sends happen in list order and so do receives. The other rank's cursors gate
 * too, through what it sends: a block's sum can come back only for bytes that have left, which is what makes in place
 * safe. With compression cursors count bytes of different width; their gates compare elements. What comes only to be
 * folded goes through a ring that stays in the caches; the receives before it with the same peer must not hang on its
 * reader. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/tree.h"

enum ls_action_kind {
    LS_ACTION_SEND,        /* from -> peer */
    LS_ACTION_RECEIVE,     /* peer -> to */
    LS_ACTION_RECEIVE_ADD, /* to = what comes from peer, op from; whole elements. From one peer only in a schedule */
    LS_ACTION_FOLD,        /* to = the sources folded along the tree */
    LS_ACTION_COPY,        /* to = from */
};

struct ls_action {
    enum ls_action_kind kind;
    int peer;
    unsigned char *to;
    const unsigned char *from;
    unsigned char
        *narrow_to;    /* FOLD: receives the result compressed, and to what that widens to; to may be NULL then */
    bool narrow;       /* SEND, RECEIVE: size and done count compressed bytes */
    size_t size, done; /* bytes */
    int divide;        /* RECEIVE_ADD, FOLD: divisor of what is complete (MEAN); 0: none */
    size_t ring;       /* RECEIVE: to holds so many bytes, again and again; 0: all */
    int reader;        /* with a ring: the FOLD that must have read what is overwritten */
    int gates, gate_count;
    int sources, source_count;
    int next; /* in its queue; -1: last */
};

/* Byte x of an action waits for byte offset + x of another. */
struct ls_action_gate {
    int action;
    size_t offset;
};

struct ls_queue {
    int head, tail; /* indices of actions; -1: empty */
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
    int *rings;                 /* likewise: the RECEIVE that fills it as a ring; -1: it is none */
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
/* To the action added last: a gate (gate -1: none), by default on an action of the same bytes; a source of FOLD in leaf
 * order. */
void ls_schedule_gate(struct ls_schedule *schedule, int action, int gate);
void ls_schedule_gate_at(struct ls_schedule *schedule, int action, int gate, size_t offset);
void ls_schedule_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data);
void ls_schedule_narrow_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data);
/* The source added last, of a FOLD, is what receive brings in its ring. */
void ls_schedule_read_ring(struct ls_schedule *schedule, int action, int receive);
