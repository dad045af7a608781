/* What a group is made of, and the steps that every collective takes: check, begin, lay out a schedule, run, finish.
 * Only the collectives' own files see it. */
#pragma once
#include "collective/executor.h"
#include "collective/group.h"

struct ls_group {
    struct ls_executor executor;
    struct ls_schedule schedule;
    uint64_t generation, sequence;
    int *first;            /* [size + 1]: one leaf a worker */
    struct ls_hosts flat;  /* every rank its own */
    struct ls_hosts hosts; /* the same until ls_group_connect has found out */
    unsigned char *roles;  /* [size], of the call in progress */
    int pretended_host;
    char description[96], transport_name[32]; /* empty: as the links */
    int factor;                               /* 1 or more once connected */
    bool told;                                /* the others, why this rank failed */
    void (*failed)(void *context);            /* NULL: nobody wants to know */
    void *context;
    enum ls_transport transport;
    enum ls_algorithm algorithm;
    struct ls_shared *shared;       /* with this host's other ranks; NULL: there are none */
    const struct ls_choice *choice; /* NULL: the default rule */
};

/* Whether an algorithm can run a call with the group's links and memory. */
bool ls_group_offers(const struct ls_group *group, enum ls_algorithm algorithm, const struct ls_reduction *reduction);
ls_status ls_group_check_name(const char *name);
/* count elements of dtype as bytes that fit a pointer difference. */
ls_status ls_group_check_bytes(const char *name, ls_dtype dtype, size_t count);
/* The elements of all ranks together; counts is [size]. */
ls_status ls_group_sum_counts(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                              size_t *total);
ls_status ls_group_check_communication(const char *name, ls_communication communication);
ls_status ls_group_missing_memory(const char *name, const char *which);
/* The next call's fingerprint; its schedule is empty. */
struct ls_call ls_group_begin(struct ls_group *group, enum ls_collective_kind kind, const char *name, ls_dtype dtype,
                              size_t count);
/* Before a wait for ranks that may be waiting for others in turn, as those of other hosts may. */
void ls_group_be_patient(struct ls_group *group);
/* Makes a call that was begun one over links with those peers only whose roles the caller then makes LS_ROLE_PARTNER.
 */
void ls_group_between_hosts(struct ls_group *group, struct ls_call *call);
/* The first rank of each host speaks for it: every host's fingerprint is compared with every other's. */
bool ls_group_is_speaker(const struct ls_group *group);
/* The same, and speakers are partners. */
void ls_group_between_speakers(struct ls_group *group, struct ls_call *call);
ls_status ls_group_run(struct ls_group *group, const struct ls_call *call);
/* Makes every failure the group's: the first cause counts, here and for later calls, and the others are told. */
ls_status ls_group_finish(struct ls_group *group, ls_status status);
