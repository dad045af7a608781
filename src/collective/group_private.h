/* The members of a group, and the steps that every collective takes: check, begin, lay out a schedule, run, finish.
 * Only the files of the collectives include this header. */
#pragma once
#include "collective/run/executor.h"
#include "collective/group.h"

struct ls_group {
    struct ls_executor executor;
    struct ls_schedule schedule;
    uint64_t generation, sequence;
    int *first;            /* [size + 1]: one leaf a worker */
    struct ls_hosts flat;  /* every rank its own */
    struct ls_hosts hosts; /* the same until ls_group_connect has found out */
    unsigned char *fusion; /* [fusion_size] bytes for arrays that go together */
    size_t fusion_size;
    unsigned char *roles; /* [size], of the call in progress */
    int pretended_host;
    char description[96], transport_name[32]; /* empty: as the links */
    int factor;                               /* 1 or more once connected */
    bool told;                                /* the other ranks know the cause of this rank's failure */
    void (*failed)(void *context, ls_status status, bool own); /* may be NULL */
    void *context;
    struct ls_call_record *record; /* NULL: none is kept */
    enum ls_transport transport;
    enum ls_algorithm algorithm;
    int direct_limit;
    int servers;                           /* of its ranks, the highest */
    struct ls_group *assist;               /* owned: the same workers with parameter servers; NULL: there are none */
    const struct ls_assist_ops *assisting; /* of assist */
    int *leaves_told;                      /* [size + 1] of a group with servers: the leaves that they know */
    struct ls_mailbox *mailbox;            /* of its messages between two ranks */
    struct ls_shared *shared;              /* the memory shared with this host's other ranks; NULL if there are none */
    const struct ls_tuner_choice *choice;  /* NULL if the default rule holds */
};
