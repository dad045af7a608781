/* The members of a group, and the steps that every collective takes: check, begin, lay out a schedule, run, finish.
 * Only the files of the collectives include this header. */
#pragma once
#include "collective/run/executor.h"
#include "collective/group.h"

struct ls_group {
    struct ls_executor executor;
    struct ls_schedule schedule;
    struct ls_group_config config; /* its links are the executor's and the mailbox's */
    uint64_t sequence;
    int *first;            /* [size + 1]: one leaf a worker */
    struct ls_hosts flat;  /* every rank its own */
    struct ls_hosts hosts; /* the same until ls_group_connect has found out */
    unsigned char *fusion; /* [fusion_size] bytes for arrays that go together */
    size_t fusion_size;
    unsigned char *roles;                     /* [size], of the call in progress */
    char description[96], transport_name[32]; /* empty: as the links */
    /* The largest number of maximal subtrees that a host's ranks make up, with one leaf a rank: so many partial results
     * of equal size a host sends. 1 if the leaves are an aligned range of the tree, 0 before the group is connected. */
    int factor;
    bool told;                             /* the other ranks know the cause of this rank's failure */
    struct ls_group *assist;               /* owned: the same workers with parameter servers; NULL: there are none */
    const struct ls_assist_ops *assisting; /* of assist */
    int *leaves_told;                      /* [size + 1] of a group with servers: the leaves that they know */
    struct ls_mailbox *mailbox;            /* of its messages between two ranks */
    struct ls_shared *shared;              /* the memory shared with this host's other ranks; NULL if there are none */
    const struct ls_tuner_choice *choice;  /* NULL if the default rule holds */
};
