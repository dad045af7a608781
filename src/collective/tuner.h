/* AUTO's choice of an algorithm for each size: a table of measured times, equal on every rank. Every choice adds in the
 * order of the tree, so none changes the bits. */
#pragma once
#include <stdio.h>

#include "collective/group.h"

enum { LS_CHOICE_ROWS = 7 };

struct ls_choice_row {
    size_t bytes;                            /* of a float32 vector */
    double microseconds[LS_ALGORITHM_COUNT]; /* of the slowest rank; 0 if not measured */
    enum ls_algorithm best;
};
/* Zero: nothing measured, the default rule. May outlive its group, for the next one of the same topology. */
struct ls_tuner_choice {
    uint64_t topology;   /* digest of the properties that the times depend on */
    double milliseconds; /* that measuring took */
    int row_count;       /* fewer than there are sizes where measuring them would have taken too long */
    struct ls_choice_row rows[LS_CHOICE_ROWS];
};

/* Collective: fills choice (unless all ranks bring the same one of this topology) within about 200 ms, and has the
 * group's AUTO all-reduce follow it; choice is borrowed. A log line tells the outcome. */
ls_status ls_tuner_measure(struct ls_group *group, struct ls_tuner_choice *choice);
/* The fastest algorithm for a call among those that the group offers for it. choice may be NULL. */
enum ls_algorithm ls_tuner_find(const struct ls_tuner_choice *choice, const struct ls_group *group,
                                const struct ls_reduction *reduction);
/* AUTO's without measurements, where every rank has a host of its own and no server helps. */
enum ls_algorithm ls_tuner_over_links(const struct ls_reduction *reduction, int direct_limit);
/* Prints, for people, which ranks exchange, and the algorithms that LS_AUTO chooses with the reasons. */
void ls_tuner_explain(const struct ls_group *group, FILE *to);
/* The algorithm that LS_AUTO takes for one leaf a worker. */
enum ls_algorithm ls_tuner_algorithm(const struct ls_group *group, size_t element, size_t count,
                                     ls_compression compression);
