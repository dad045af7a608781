/* Process sets: communicators of some ranks of another one. */
#pragma once
#include "runtime/communicator.h"

/* One set, which every rank of the parent keeps, a member or not. Tasks are those of TF_CONFIG: an elastic generation
 * counts its ranks anew, and the set stays the same. */
struct ls_subset {
    struct ls_subset *next; /* in the order in which they were made, which is the same on all ranks */
    ls_communicator *parent;
    ls_communicator *communicator; /* the program's; NULL: it has none yet, or any more, or is no member */
    int32_t id;                    /* the same on all ranks */
    int *tasks;                    /* [ranks.size] */
    int *members;                  /* likewise, ranks of the parent in this generation; -1: not there */
    struct ls_ranks ranks;         /* rank -1: this process is no member */
    bool claimed;                  /* the program has asked for it; else this process was started anew */
    bool closed;                   /* the program has closed it here ... */
    bool dead;                     /* ... or it is not one of all survivors any more */
    struct ls_abort *absence;      /* why the set is of no use in this generation; NULL: it is */
};

/* ---- of the parent's life, by communicator.c ---- */

/* Frees the groups of all sets, before the parent's next generation. */
void ls_subset_suspend(ls_communicator *parent);
/* Collective, of the parent's generation: agrees which sets there are, and makes their groups anew. */
ls_status ls_subset_renew(ls_communicator *parent);
/* As ls_async_close of every set, before the parent is closed. */
void ls_subset_end_calls(ls_communicator *parent, ls_status status);
void ls_subset_free_all(ls_communicator *parent);
/* Ends one set, of the program's. */
ls_status ls_subset_close(struct ls_subset *set, ls_status status);
