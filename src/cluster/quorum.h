/* Elastic generations (docs/protocol.md, "Who may form a generation"): rosters, the ledger of those that a process has
 * entered or accepted, and what a quorum of them is. Arithmetic only. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/closed.h"

#define LS_LEDGER_MOST 64 /* rosters; only attempts of several conveners that fail make it longer than two */

/* Rosters one after the other, as they cross the wire: count numbers, and `words` incarnations, as many for each; 0
 * where a rank is not on a roster. */
struct ls_rosters {
    const uint64_t *numbers, *incarnations;
    int count, words;
};
struct ls_ledger {
    uint64_t *numbers, *incarnations; /* owns */
    int count, room, size;            /* rosters; for how many there is memory; ranks, set by who makes it */
    int voters;                       /* the lowest ranks, which have votes; 0: all have */
};
void ls_quorum_release(struct ls_ledger *ledger);
/* A roster that one convener (the number, divided by the ranks, leaves its rank) proposes again is kept once, under its
 * highest number. Returns false if there are too many, or no memory. */
bool ls_quorum_add(struct ls_ledger *ledger, uint64_t number, const uint64_t *roster);
/* The same of each. Returns false, too, if they are of another number of ranks. */
bool ls_quorum_add_all(struct ls_ledger *ledger, const struct ls_rosters *rosters);
struct ls_rosters ls_quorum_rosters(const struct ls_ledger *ledger);
/* Rosters older than the newest generation that anybody has entered count no more. */
void ls_quorum_forget(struct ls_ledger *ledger, uint64_t newest);
/* Drops the rosters that a process has itself proposed after the generation that it has entered, and proposes no more:
 * nobody can begin them. */
void ls_quorum_drop_own(struct ls_ledger *ledger, int rank, uint64_t incarnation, uint64_t entered);
/* The roster of that number; NULL: it is not there. */
const uint64_t *ls_quorum_find(const struct ls_ledger *ledger, uint64_t number);
/* Returns true if the processes present ([size], 0: none) have more than half of the roster, or half with its lowest
 * rank. */
bool ls_quorum(const uint64_t *roster, const uint64_t *present, int size);
/* All tasks are there: true where each process of the roster is present, or was seen to end. */
bool ls_quorum_inherited(const uint64_t *roster, const uint64_t *present, const struct ls_closed *closed, int size);
/* Returns true if they have one of the two for every roster. Sets *missing (may be NULL) to the first roster of which
 * they have neither, else to NULL. */
bool ls_quorum_permits(const struct ls_ledger *ledger, const uint64_t *present, const struct ls_closed *closed,
                       const uint64_t **missing);

/* LOCKSTEP_ELASTIC: "MIN:MAX" or "MIN" workers, MAX being the tasks of TF_CONFIG, then ",scaled" where the batch is to
 * shrink with the workers. Empty: least is 0, and nothing is elastic. */
struct ls_elastic {
    int least;
    bool scaled;
};
ls_status ls_quorum_parse_elastic(const char *text, int tasks, struct ls_elastic *elastic);
