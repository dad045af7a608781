/* A group of workers that call collectives in the same order, over links between every pair. One thread calls at a
 * time. Every collective carries a fingerprint (sequence, kind, name, type, count, op, root): a difference is an error
 * that names both sides and both ranks. A failed collective, bad arguments included, leaves the group unusable (its
 * abort flag is raised). Adding runs in the calling thread, and keeps denormals whatever its mode. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "base/settings.h"
#include "collective/abort.h"
#include "collective/transport.h"

struct ls_group;
struct ls_group_config {
    int rank, size;
    struct ls_link **links;   /* [size]; takes them on success; links[rank] is NULL. May be NULL when size is 1 */
    struct ls_abort *abort;   /* borrowed */
    const struct ls_log *log; /* borrowed */
    uint64_t generation;
    double timeout;              /* seconds for one collective; 0: none */
    double report_interval;      /* seconds between lines while waiting for somebody; 0: silent */
    enum ls_transport transport; /* for ls_group_connect */
    size_t segment;              /* bytes moved and added at a time in pipelines; 0: 256 KiB */
};
ls_status ls_group_new(const struct ls_group_config *config, struct ls_group **group);
void ls_group_free(struct ls_group *group); /* closes the links */
int ls_group_rank(const struct ls_group *group);
int ls_group_size(const struct ls_group *group);

/* Collective: finds out whether all workers can map each other's memory, and so can add without links between them. A
 * log line tells. With transport LS_TRANSPORT_SHM an error naming why they cannot. Without it, or when they cannot,
 * everything goes over the links. To be called once, before the first ls_group_share. */
ls_status ls_group_connect(struct ls_group *group);
/* "shared memory", or the links' "tcp". */
const char *ls_group_describe(const struct ls_group *group);
/* Whether AUTO's all-reduce goes through shared memory; everything else goes over the links. */
bool ls_group_shares(const struct ls_group *group);
/* Collective: size zeroed bytes (above 0, each rank its own), aligned to 64. Arrays that lie in such memory of every
 * rank, of the same call, are added fastest. Plain memory where none can be shared. */
ls_status ls_group_share(struct ls_group *group, size_t size, void **memory);
/* Not collective; NULL is nothing. Other ranks keep their view of it until they give theirs back. What is left goes
 * with the group. */
void ls_group_unshare(struct ls_group *group, void *memory);

/* How the leaves of the tree (replicas) lie on workers: worker w holds leaves [first[w], first[w + 1]). */
struct ls_leaves {
    const int *first; /* [size + 1]; NULL: one leaf a worker */
};

struct ls_all_reduce {
    const char *name;
    ls_communication communication; /* LS_RING: chain order; LS_AUTO: the tree over leaves. LS_NCCL is refused */
    ls_reduce_op op;                /* MEAN divides by the number of leaves */
    ls_dtype dtype;
    size_t count;
    struct ls_leaves leaves;
    const void *const *inputs; /* one array for each local leaf; read only, unless it is an output too */
    void *const *outputs;      /* likewise; each receives the result */
};
ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call);
/* In place; size bytes from root's data to all. */
ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count);
/* counts[size] elements from each rank, concatenated in rank order; input may be its own place in output. */
ls_status ls_group_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                              const size_t *counts, void *output);
ls_status ls_group_barrier(struct ls_group *group, const char *name);
