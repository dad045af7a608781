/* The least sharding with which a worker has enough memory. Each row of the table is tried with each way to make values
 * of layers again; what the command line has chosen comes first. */
#include "tools/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"

/* In the order in which they are tried; a row that saves nothing is left out. */
static const struct sharding {
    const char *words;
    ls_sharding shard; /* NONE: as it is */
    int copies;
} shardings[] = {{"", LS_SHARDING_NONE, 0},
                 {"--shard optimizer", LS_SHARDING_OPTIMIZER, LS_SHARD_COPIES},
                 {"--shard gradients", LS_SHARDING_GRADIENTS, LS_SHARD_COPIES},
                 {"--shard optimizer --shard-copies 1", LS_SHARDING_OPTIMIZER, 1},
                 {"--shard gradients --shard-copies 1", LS_SHARDING_GRADIENTS, 1}};
enum { SHARDINGS = sizeof(shardings) / sizeof(shardings[0]) };

/* AUTO: as it is. */
static const ls_recompute recomputes[] = {LS_RECOMPUTE_AUTO, LS_RECOMPUTE_ACTIVATIONS, LS_RECOMPUTE_BLOCKS};
enum { RECOMPUTES = sizeof(recomputes) / sizeof(recomputes[0]) };

/* As ls_strategy_open and src/sync/sharded.c take it. */
static bool may_divide(const struct ls_tools_planning *planning) {
    bool may = planning->workers > 1 && !strcmp(planning->options->kind, "multi-worker") &&
               planning->strategy_options.communication != LS_NCCL;
    for (int i = 0; may && i < planning->strategy->local_count; i++)
        may = planning->strategy->replicas[i].device->host_memory;
    return may;
}

/* Of the largest worker, had it been given these options. */
static size_t memory_with(const struct ls_tools_planning *planning, const struct sharding *sharding,
                          ls_recompute recompute) {
    struct ls_tools_planning so = *planning;
    size_t most = 0;
    if (sharding->shard) {
        so.divides = true;
        so.strategy_options.shard = sharding->shard;
        so.strategy_options.shard_copies = sharding->copies;
    }
    if (recompute)
        so.worker.memory.arena_bytes = (int64_t)(planning->worker.costs[recompute].arena + planning->worker.workspace);
    for (int w = 0; w < so.workers; w++) {
        size_t bytes = ls_tools_plan_memory(&so, w);
        if (bytes > most) most = bytes;
    }
    return most;
}

static void add_candidate(struct ls_tools_planning *planning, const struct sharding *sharding, ls_recompute recompute,
                          size_t memory) {
    struct ls_tools_candidate *made = &planning->candidates[planning->candidate_count++];
    const char *again = recompute ? ls_option_names_recompute(recompute) : "";
    made->memory = memory;
    (void)snprintf(made->words, sizeof(made->words), "%s%s%s%s", recompute ? "--recompute " : "", again,
                   recompute && *sharding->words ? " " : "", sharding->words);
}

/* A row without what is made again is larger than the row before only where its sharding is of no use. */
static void add_row(struct ls_tools_planning *planning, const struct sharding *sharding, size_t *least) {
    size_t plain = memory_with(planning, sharding, LS_RECOMPUTE_AUTO), before = plain;
    if (planning->candidate_count && plain >= *least) return;
    *least = plain;
    add_candidate(planning, sharding, LS_RECOMPUTE_AUTO, plain);
    for (int r = 1; r < RECOMPUTES; r++) {
        size_t memory = memory_with(planning, sharding, recomputes[r]);
        if (memory >= before) continue;
        add_candidate(planning, sharding, recomputes[r], memory);
        before = memory;
    }
}

static const struct ls_tools_candidate *find_smallest(const struct ls_tools_planning *planning) {
    const struct ls_tools_candidate *least = planning->candidates;
    for (int i = 1; i < planning->candidate_count; i++)
        if (planning->candidates[i].memory < least->memory) least = &planning->candidates[i];
    return least;
}

ls_status ls_plan_fit(struct ls_tools_planning *planning) {
    size_t limit = (size_t)planning->options->memory_limit, least = 0;
    planning->candidates = ls_alloc_array((size_t)SHARDINGS * RECOMPUTES, sizeof(*planning->candidates));
    if (!planning->candidates) return ls_fail_memory("a plan", SHARDINGS * RECOMPUTES * sizeof(*planning->candidates));
    for (int s = 0; s < SHARDINGS; s++)
        if (!s || may_divide(planning)) add_row(planning, &shardings[s], &least);
    for (planning->fit = 0; planning->fit < planning->candidate_count; planning->fit++)
        if (planning->candidates[planning->fit].memory <= limit) return LS_OK;
    const struct ls_tools_candidate *smallest = find_smallest(planning);
    return ls_fail(LS_RESOURCE_EXHAUSTED,
                   "a worker needs %zu bytes at least, with %s, and a memory limit of %zu allows less: take smaller "
                   "batches (--batch-size), more workers (-np), or servers that keep the moments (--strategy "
                   "parameter-server)",
                   smallest->memory, *smallest->words ? smallest->words : "no option that makes it smaller", limit);
}
