/* The table of algorithms. */
#include "collective/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const struct ls_algorithm_info table[] = {
    [LS_ALGORITHM_AUTO] = {"auto", NULL, .in_tree_order = true},
    [LS_ALGORITHM_SHARED] = {"shared", NULL, .in_tree_order = true, .needs = "workers that share memory"},
    [LS_ALGORITHM_TWO_LEVEL] = {"two-level", NULL, .in_tree_order = true, .compresses = true,
                                .needs = "workers of which some, but not all, share memory"},
    [LS_ALGORITHM_EXCHANGE] = {"exchange", ls_exchange_schedule, .in_tree_order = true, .compresses = true},
    [LS_ALGORITHM_DIRECT] = {"direct", ls_direct_schedule, .in_tree_order = true, .compresses = true},
    [LS_ALGORITHM_RING] = {"ring", ls_ring_schedule, .in_tree_order = false, .compresses = true},
    [LS_ALGORITHM_HALVING] =
        {"halving-doubling", ls_halving_schedule, .in_tree_order = true, .fits = ls_halving_fits,
         .needs = "workers on a host each that hold whole subtrees of replicas, such as equal powers of two"},
};
_Static_assert(sizeof(table) / sizeof(table[0]) == LS_ALGORITHM_COUNT, "a row for each algorithm");

const struct ls_algorithm_info *ls_algorithm_info(enum ls_algorithm algorithm) {
    return &table[algorithm];
}

enum ls_algorithm ls_algorithm_find(const char *name) {
    int found = 0;
    while (found < LS_ALGORITHM_COUNT && strcmp(table[found].name, name) != 0) found++;
    return (enum ls_algorithm)found;
}

/* "2, 1, 1" of how many leaves each worker holds; "..." where there are more than fit. */
static void write_layout(const struct ls_reduction *reduction, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < reduction->size; i++) {
        if (used + 24 > size) {
            (void)snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? ", " : "",
                                 reduction->first[i + 1] - reduction->first[i]);
    }
}

ls_status ls_algorithm_refuse(enum ls_algorithm algorithm, const char *name, const struct ls_reduction *reduction) {
    char layout[128];
    if (reduction->compression && !table[algorithm].compresses)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "all_reduce '%s': algorithm %s cannot compress; set LOCKSTEP_ALGORITHM to auto, exchange or "
                       "direct, or leave the compression out",
                       name, table[algorithm].name);
    write_layout(reduction, layout, sizeof(layout));
    return ls_fail(
        LS_INVALID_ARGUMENT,
        "all_reduce '%s': algorithm %s is for %s; here are %d workers on %d hosts that hold %s replicas: set "
        "LOCKSTEP_ALGORITHM to auto or direct",
        name, table[algorithm].name, table[algorithm].needs, reduction->size, reduction->hosts->count, layout);
}

void ls_algorithm_schedule(enum ls_algorithm algorithm, struct ls_schedule *schedule,
                           const struct ls_reduction *reduction) {
    const int *first = reduction->first;
    int local = first[reduction->rank + 1] - first[reduction->rank];
    ls_schedule_reset(schedule, table[algorithm].in_tree_order ? first[reduction->size] : local);
    table[algorithm].schedule(schedule, reduction);
}

static int place_count(const struct ls_reduction *reduction) {
    if (reduction->targets) return reduction->target_count;
    return reduction->first[reduction->rank + 1] - reduction->first[reduction->rank];
}

void ls_reduction_spread(struct ls_schedule *schedule, const struct ls_reduction *reduction, size_t offset, size_t size,
                         int gate) {
    void *const *places = reduction->targets ? reduction->targets : reduction->outputs;
    const unsigned char *from = (const unsigned char *)places[0] + offset;
    for (int i = 1; i < place_count(reduction); i++) {
        unsigned char *to = (unsigned char *)places[i] + offset;
        if (to == from) continue;
        struct ls_action copy = {.kind = LS_ACTION_COPY, .to = to, .from = from, .size = size};
        ls_schedule_gate(schedule, ls_schedule_add(schedule, copy), gate);
    }
}
