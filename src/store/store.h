/* A worker's side of parameter servers that keep a model's trained variables and moments. One thread at a time calls.
 */
#pragma once
#include "collective/group.h"
#include "store/handover.h"
#include "store/row_lists.h"
#include "store/store_calls.h"

struct ls_store;
struct ls_store_config {
    struct ls_group *group;      /* of workers and servers; borrowed */
    struct ls_terms_model terms; /* copied */
    int64_t generation;
    int64_t version;                   /* steps that are in the variables */
    float *variables;                  /* [terms.count] host memory; read, and written with the same values */
    const struct ls_shard_part *parts; /* a list; NULL: all is as before the first step */
    int listed;                        /* servers of the cluster */
    bool *lost;                        /* set to true where all servers have lost moments: nothing recovers from it */
    bool *anew;                        /* set to true in its place where all workers return */
    bool returns;                      /* this worker can begin anew, from a checkpoint */
    bool
        *awaits; /* set to true where a server that is not here may have them; given so: the group has waited for all */
};
/* Collective, with the servers. UNAVAILABLE: moments that all servers have lost. */
ls_status ls_store_open(const struct ls_store_config *config, struct ls_store **store);
void ls_store_free(struct ls_store *store);
/* Pushes a bucket: first as of ls_leaves, leaves has an array of the bucket's elements for each local leaf. Every
 * bucket of a step, in order. */
ls_status ls_store_push(struct ls_store *store, size_t bucket, const int *first, const float *const *leaves,
                        ls_compression compression);
int ls_store_servers(const struct ls_store *store);
/* Brings the rows of this worker's leaves. The rows are borrowed until the next step, which sends their gradients.
 * Collective, before the first push. */
ls_status ls_store_pull_rows(struct ls_store *store, const struct ls_row_leaf *leaves, int count);
/* Applies the optimizer on the servers, and brings the variables into array: [terms.count]. With parts, a list which
 * rank 0 alone gives, it brings also all moments and tables into their copies. The step is done when it returns LS_OK.
 * With keep the servers keep the version before the step, until the next step with keep. A generation begins with the
 * newest version or with the kept one. */
struct ls_store_stepping {
    const struct ls_optimizer_step *step;
    bool keep;
    float *array;
    const struct ls_shard_part *parts;
    ls_store_arrived_fn *arrived; /* told of each range of the variables; may be NULL */
    void *context;
};
ls_status ls_store_step(struct ls_store *store, const struct ls_store_stepping *stepping);
/* Of asynchronous training (session.h): the group and the terms that its sessions are about, borrowed. */
struct ls_group *ls_store_group(const struct ls_store *store);
const struct ls_terms_model *ls_store_terms(const struct ls_store *store);
/* All workers call it between two sessions. If rank 0 gives parts, it gets the servers' moments. */
ls_status ls_store_fetch(struct ls_store *store, const struct ls_shard_part *parts);
