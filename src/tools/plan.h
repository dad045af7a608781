/* A training on its tasks, before any of them starts.
 * Ranks are those of training: workers, then parameter servers. */
#pragma once
#include <lockstep/tools.h>

#include "collective/servers/traffic.h"
#include "model/plan.h"
#include "resolver/cluster_view.h"
#include "shard/terms.h"
#include "train/model.h"
#include "train/shards.h"

/* Memory and time of one worker's step. */
struct ls_tools_worker_cost {
    ls_result memory;                                   /* of its first replica */
    struct ls_plan_cost costs[LS_RECOMPUTE_BLOCKS + 1]; /* of its layers by what is made again; AUTO's are left out */
    size_t workspace;                                   /* what ops of layers need beside, in the arena */
    size_t rest;                                        /* a replica's, without arena, moments, gradients */
    size_t beside;                                      /* its replicas, of all of them */
    double compute;                                     /* seconds of a step; 0: not measured */
};
/* Options of lockstep train that make a worker smaller, and the memory of the largest worker with them. */
struct ls_tools_candidate {
    char words[96]; /* "": none */
    size_t memory;
};
struct ls_tools_planning {
    const ls_tools_plan_options *options;
    ls_strategy_options strategy_options;
    struct ls_cluster_view *cluster; /* NULL: the numbers of the options */
    int workers, servers, total;     /* total: replicas of all workers */
    int *first;                      /* [workers + servers + 1]: a rank's first replica */
    bool serves, stores, meets;      /* servers may keep tables; they keep all variables; workers meet now and then */
    bool keeps;                      /* servers keep variables or tables */
    bool divides;                    /* workers own the moments, and may divide gradients */
    int copies;                      /* of each element on servers */
    int64_t batch;                   /* rows of all */
    ls_strategy *strategy;           /* of one worker, alone */
    ls_dataset *data;
    ls_model *model;
    struct ls_pipeline *pipeline;
    struct ls_range *ranges;
    struct ls_terms_table *tables;
    struct ls_terms_model terms; /* with keeps */
    struct ls_tools_worker_cost worker;
    /* [workers + servers] bytes of a rank: of each step's exchange beside training, or of the largest fragment's; of
     * what each step waits for; of rows of tables and of variables that workers gather, for which it waits too; of
     * sync_every steps, or of one */
    struct ls_traffic *beside, *behind, *rows, *round; /* one block of memory, from beside on */
    const char *algorithm;                             /* of the largest all-reduce; NULL: there is none */
    /* with memory_limit: owns [candidate_count], of which the first with enough is fit */
    struct ls_tools_candidate *candidates;
    int candidate_count, fit;
};
/* The worker, of those that divide the model. */
struct ls_shards_of ls_plan_share_of(const struct ls_tools_planning *planning, int worker);
/* A worker's replicas, and the bytes of their models and beside them. */
int ls_plan_share_replicas(const struct ls_tools_planning *planning, int worker);
size_t ls_tools_plan_memory(const struct ls_tools_planning *planning, int worker);
/* Of them the gradients of its first replica, or of another one. */
size_t ls_plan_memory_gradients(const struct ls_tools_planning *planning, int worker, bool first);
/* Rows of a replica in a whole step. */
int64_t ls_plan_share_rows(const struct ls_tools_planning *planning, int replica);
/* Rows of a table that a worker's step takes, at most: a replica's are each once. */
size_t ls_plan_share_touched(const struct ls_tools_planning *planning, int worker, const struct ls_terms_table *table);

/* Fills in rest, beside and planned_bytes of the worker, whose memory is that of one alone. */
ls_status ls_plan_memory_count(struct ls_tools_planning *planning);
/* Fills in candidates and fit. RESOURCE_EXHAUSTED: none has enough. */
ls_status ls_plan_fit(struct ls_tools_planning *planning);

/* Fills in beside, behind, round and algorithm. */
ls_status ls_plan_wire_count(struct ls_tools_planning *planning);
/* Bytes of memory into which a reduce-scatter receives the others' parts of a worker's stripe, a bucket at a time. */
size_t ls_plan_wire_parts(const struct ls_tools_planning *planning, int worker);
/* The longest that a link is busy, in seconds; 0 without a bandwidth. */
double ls_plan_wire_seconds(const struct ls_tools_planning *planning, const struct ls_traffic *traffic);
/* Seconds of a step; what was not measured counts 0. */
double ls_plan_wire_step(const struct ls_tools_planning *planning);

void ls_plan_print(const struct ls_tools_planning *planning, FILE *out);
