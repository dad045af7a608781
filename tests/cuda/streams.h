/* Streams from the inside: lists of items, each a piece of work, a point that others may wait for, or a wait. */
#pragma once
#include <stdint.h>

#include "runtime.h"

/* A point in a stream; one reference of the item, one of the event, one of each who waits. */
struct ls_emulated_ticket {
    int references;
    bool done;
    int64_t when; /* it was done, in nanoseconds */
    struct CUstream_st *stream;
};
struct ls_emulated_item {
    struct ls_emulated_item *next;
    ls_emulated_run_fn *run; /* NULL: no work */
    struct ls_emulated_ticket *marks, *awaits;
    size_t size;
    _Alignas(64) char work[];
};
struct ls_emulated_list {
    struct ls_emulated_item *first, *last;
};

#define LS_EMULATED_WATCH 0x600D600DU /* in what is alive */
struct CUstream_st {
    unsigned watch;
    int device, questions;
    struct ls_emulated_list list;
    struct ls_emulated_list *graph; /* while it is captured */
    bool invalid, busy;
};
struct CUevent_st {
    unsigned watch;
    int device, questions;
    bool untimed;
    struct ls_emulated_ticket *ticket;
};

struct ls_emulated_item *ls_emulated_item_new(ls_emulated_run_fn *run, const void *work, size_t size);
void ls_emulated_append(struct ls_emulated_list *list, struct ls_emulated_item *item);
void ls_emulated_free_list(struct ls_emulated_list *list);
