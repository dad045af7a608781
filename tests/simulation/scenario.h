/* Scenarios: a group of so many workers meets something, goes on, and leaves. Each says what it took. */
#pragma once
#include "simulation/fleet.h"

#define SCENARIO_TEXT 4096

struct scenario_result {
    char failure[SCENARIO_TEXT]; /* empty: as it must be */
    double seconds;              /* of virtual time, from what happens until all are members again */
    /* Control messages that a task sent meanwhile, without beats; per second and with them at rest. The workers are all
     * but the lowest ranks of the window, and the coordinator, before and after. */
    double median, most, coordinator;
    double megabytes;                 /* in and out of any task, from its start on */
    int streams, coordinator_streams; /* the most that a worker, or any task, had */
    double real;                      /* seconds that this process computed */
    bool gave_up;                     /* elastic: nobody could go on, and all ended with an error */
};
enum scenario_absent { ABSENT_NOBODY, ABSENT_DEPUTY, ABSENT_ANY };
struct scenario {
    const char *name;
    const char *elastic; /* "half", "all": so many workers are LOCKSTEP_ELASTIC's least; NULL: nothing is elastic */
    int least;           /* workers */
    double slack;        /* virtual seconds that it may take at most */
    int messages;        /* that a worker may send at most, ... */
    int streams;         /* ... and have; INT_MAX: some have many */
    bool (*happens)(struct fleet *fleet, struct scenario_result *result);
    enum scenario_absent absent; /* who never starts */
};
extern const struct scenario scenarios[];
extern const int scenario_count;
void scenario_run(const struct scenario *scenario, int size, uint64_t seed, struct scenario_result *result);
/* A group of a size that is drawn meets a few things that are drawn. */
void scenario_run_random(uint64_t seed, bool elastic, struct scenario_result *result);
