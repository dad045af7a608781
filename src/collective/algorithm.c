/* The table of all-reduces. One over links is a schedule and a row here; any other brings run and offers of its own. */
#include "collective/algorithm.h"

#include <string.h>

#include "base/text.h"
#include "collective/call.h"
#include "collective/hierarchical.h"
#include "collective/schedule/schedules.h"
#include "collective/shm/shm_calls.h"

/* ---- over links: the row's schedule ---- */

static ls_status run_over_links(struct ls_group *group, const struct ls_call *call,
                                const struct ls_reduction *reduction) {
    if (reduction->count) ls_algorithm_schedule((enum ls_algorithm)call->frame.algorithm, &group->schedule, reduction);
    return ls_call_run(group, call);
}

static bool offers_links(const struct ls_group *group, const struct ls_reduction *reduction) {
    (void)group, (void)reduction;
    return true;
}

static bool offers_halving(const struct ls_group *group, const struct ls_reduction *reduction) {
    (void)group;
    return ls_halving_fits(reduction);
}

/* ---- in memory ---- */

static ls_status run_shared(struct ls_group *group, const struct ls_call *call, const struct ls_reduction *reduction) {
    return ls_shm_all_reduce(group->shared, call, reduction);
}

static bool offers_shared(const struct ls_group *group, const struct ls_reduction *reduction) {
    return group->hosts.count == 1 && ls_shm_all_reduce_fits(group->shared, reduction->first);
}

/* ---- with parameter servers ---- */

static ls_status run_assisted(struct ls_group *group, const struct ls_call *call,
                              const struct ls_reduction *reduction) {
    return group->assisting->run(group, call, reduction);
}

static bool offers_assisted(const struct ls_group *group, const struct ls_reduction *reduction) {
    return group->assist && group->assisting->offers(group, reduction);
}

/* A row of measurements names AUTO where nothing was measured. */
static bool offers_nothing(const struct ls_group *group, const struct ls_reduction *reduction) {
    (void)group, (void)reduction;
    return false;
}

/* AUTO never runs: the tuner takes another row for it. */
static const struct ls_algorithm_info table[] = {
    [LS_ALGORITHM_AUTO] = {"auto", .offers = offers_nothing, .in_tree_order = true},
    [LS_ALGORITHM_SHARED] = {"shared", run_shared, offers_shared, .in_tree_order = true,
                             .needs = "workers that share memory"},
    [LS_ALGORITHM_TWO_LEVEL] = {"two-level", ls_hierarchical, ls_hierarchical_fits, .in_tree_order = true,
                                .compresses = true, .needs = "workers of which some, but not all, share memory"},
    [LS_ALGORITHM_EXCHANGE] = {"exchange", run_over_links, offers_links, ls_direct_schedule_exchange,
                               .in_tree_order = true, .compresses = true},
    [LS_ALGORITHM_DIRECT] = {"direct", run_over_links, offers_links, ls_direct_schedule, .in_tree_order = true,
                             .compresses = true},
    [LS_ALGORITHM_RING] = {"ring", run_over_links, offers_links, ls_ring_schedule, .in_tree_order = false,
                           .compresses = true},
    [LS_ALGORITHM_HALVING] =
        {"halving-doubling", run_over_links, offers_halving, ls_halving_schedule, .in_tree_order = true,
         .needs = "workers on a host each that hold whole subtrees of replicas, such as equal powers of two"},
    [LS_ALGORITHM_ASSIST] = {"assist", run_assisted, offers_assisted, ls_direct_schedule, .in_tree_order = true,
                             .compresses = true, .needs = "workers with parameter servers"},
};
_Static_assert(sizeof(table) / sizeof(table[0]) == LS_ALGORITHM_COUNT, "a row for each algorithm");

const struct ls_algorithm_info *ls_algorithm_info(enum ls_algorithm algorithm) {
    return &table[algorithm];
}

const char *ls_algorithm_name(int algorithm) {
    return table[algorithm].name;
}

bool ls_algorithm_offers(enum ls_algorithm algorithm, const struct ls_group *group,
                         const struct ls_reduction *reduction) {
    const struct ls_algorithm_info *info = &table[algorithm];
    return (!reduction->compression || info->compresses) && info->offers(group, reduction);
}

enum ls_algorithm ls_algorithm_find(const char *name) {
    int found = 0;
    while (found < LS_ALGORITHM_COUNT && strcmp(table[found].name, name) != 0) found++;
    return (enum ls_algorithm)found;
}

ls_status ls_algorithm_refuse(enum ls_algorithm algorithm, const char *name, const struct ls_reduction *reduction) {
    char layout[128] = ""; /* how many leaves each worker holds */
    if (reduction->compression && !table[algorithm].compresses)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "all_reduce '%s': algorithm %s cannot compress; set LOCKSTEP_ALGORITHM to auto, exchange or "
                       "direct, or leave the compression out",
                       name, table[algorithm].name);
    for (int i = 0; i < reduction->size; i++) ls_text_list(layout, sizeof(layout), ls_reduction_leaves(reduction, i));
    return ls_fail(
        LS_INVALID_ARGUMENT,
        "all_reduce '%s': algorithm %s is for %s; here are %d workers on %d hosts that hold %s replicas: set "
        "LOCKSTEP_ALGORITHM to auto or direct",
        name, table[algorithm].name, table[algorithm].needs, reduction->size, reduction->hosts->count, layout);
}

void ls_algorithm_schedule(enum ls_algorithm algorithm, struct ls_schedule *schedule,
                           const struct ls_reduction *reduction) {
    ls_schedule_reset(schedule, table[algorithm].in_tree_order ? reduction->first[reduction->size]
                                                               : ls_reduction_leaves(reduction, reduction->rank));
    table[algorithm].schedule(schedule, reduction);
}
