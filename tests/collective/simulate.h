/* All ranks' schedules of one all-reduce, run in memory without links, threads or clocks: what one sends lies in a
 * queue until the other takes it. For more workers than threads would do, and to count what an algorithm costs. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/algorithm.h"

struct simulation {
    enum ls_algorithm algorithm;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    int size;
    const int *first;  /* [size + 1]: leaves of each worker; NULL: one each */
    const int *lowest; /* [size]: the lowest rank on each one's host, whose ranks share memory; NULL: none do */
    bool in_place;
    uint64_t seed; /* not 0: who moves how many bytes next is drawn; then steps are not counted */
};
/* Of the rank that has most, unless said otherwise. */
struct simulation_cost {
    int steps;    /* messages of which each waits for the one before, on the longest chain */
    int messages; /* sent */
    int peers;    /* that it exchanges messages with */
    int actions;
    size_t sent, received; /* bytes */
    size_t link;           /* bytes from one rank to one other */
    size_t total;          /* bytes, of all ranks */
    size_t scratch;        /* bytes */
};
/* Runs it; the program ends with a message unless every output equals the oracle's in bits. */
void simulation_run(const struct simulation *simulation, struct simulation_cost *cost);
/* Lays the schedules out, one rank after the other, and runs nothing: steps stays 0. */
void simulation_count(const struct simulation *simulation, struct simulation_cost *cost);
