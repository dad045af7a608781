/* A group of workers that call collectives in the same order, over links between every pair. One thread calls at a
 * time. Every collective carries a fingerprint (sequence, kind, name, type, count, op, root): a difference is an error
 * that names both sides and both ranks. A failed collective, bad arguments included, leaves the group unusable (its
 * abort flag is raised). Adding runs in the calling thread, and keeps denormals whatever its mode. */
#pragma once
#include <lockstep/lockstep.h>

#include <stdio.h>

#include "base/log.h"
#include "base/settings.h"
#include "collective/abort.h"
#include "collective/algorithm.h"
#include "collective/flight.h"
#include "collective/transport.h"

struct ls_group;
struct ls_group_config {
    int rank, size;
    struct ls_link **links;   /* [size]; takes them on success; links[rank] is NULL. May be NULL when size is 1 */
    struct ls_abort *abort;   /* borrowed */
    const struct ls_log *log; /* borrowed */
    uint64_t generation;
    double timeout;               /* seconds for one collective; 0: none */
    double report_interval;       /* seconds between lines while waiting for somebody; 0: silent */
    enum ls_transport transport;  /* for ls_group_connect */
    enum ls_algorithm algorithm;  /* of every all-reduce with LS_AUTO; AUTO: the fastest for each size */
    size_t segment;               /* bytes moved and added at a time in pipelines; 0: 256 KiB */
    size_t flight_record;         /* collectives that are remembered; 0: 1024 */
    struct ls_activity *activity; /* borrowed; NULL: nobody asks */
    void (*failed)(
        void *context); /* once, in the thread of the first call that fails, after it has ended; NULL: none */
    void *context;
    int pretended_host; /* for tests: ranks with different numbers are as on different hosts */
};
ls_status ls_group_new(const struct ls_group_config *config, struct ls_group **group);
void ls_group_free(struct ls_group *group); /* closes the links */
int ls_group_rank(const struct ls_group *group);
int ls_group_size(const struct ls_group *group);
/* For the thread that makes the calls. */
const struct ls_flight *ls_group_flight(const struct ls_group *group);

/* Collective: finds the hosts, which are ranks that can map each other's memory, and so can add without links between
 * them. A log line tells. With transport LS_TRANSPORT_SHM an error naming why they are more than one. Without it, and
 * with LS_TRANSPORT_GRPC, which all ranks have or none, every rank is a host of its own. To be called once, before the
 * first ls_group_share. */
ls_status ls_group_connect(struct ls_group *group);
/* "shared memory"; the links' "tcp"; "shared memory in 2 hosts of 2 and tcp between them". */
const char *ls_group_describe(const struct ls_group *group);
/* What moves the bytes of calls that use the hosts' memory: "shm", "shm+tcp", the links' "tcp"; "none" for one rank. */
const char *ls_group_transport(const struct ls_group *group);
/* The links' "tcp"; "none" for one rank. */
const char *ls_group_links(const struct ls_group *group);
/* How many partial results of equal size a host has to send where it would be one if its leaves were an aligned range
 * of the tree: the most maximal subtrees that the ranks of a host make up, with one leaf a rank. */
int ls_group_factor(const struct ls_group *group);
/* Whether all ranks share memory. */
bool ls_group_is_one_host(const struct ls_group *group);
/* The algorithm that LS_AUTO takes for one leaf a worker. */
enum ls_algorithm ls_group_algorithm(const struct ls_group *group, size_t element, size_t count,
                                     ls_compression compression);
/* The number of rank's host: ranks of one share memory. */
int ls_group_host(const struct ls_group *group, int rank);
/* For people: who exchanges with whom, and what LS_AUTO chooses why. */
void ls_group_explain(const struct ls_group *group, FILE *to);
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
    ls_compression compression; /* of what crosses links: LS_SUM and LS_MEAN of LS_FLOAT32 only */
    const void *const *inputs;  /* one array for each local leaf; read only, unless it is an output too */
    void *const *outputs;       /* likewise; each receives the result */
};
/* Whether calls with a compression are compressed: not where they go through shared memory. */
bool ls_group_compresses(const struct ls_group *group, ls_communication communication);
ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call);
/* In place; size bytes from root's data to all. */
ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count);
/* counts[size] elements from each rank, concatenated in rank order; input may be its own place in output. */
ls_status ls_group_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                              const size_t *counts, void *output);

struct ls_reduce_scatter {
    const char *name;
    ls_communication communication; /* LS_AUTO: the tree over ranks, the bits of the all-reduce. LS_RING: the chain that
                                       ends at each part's owner. LS_NCCL is refused */
    ls_reduce_op op;                /* MEAN divides by the number of ranks */
    ls_dtype dtype;
    const size_t *counts; /* [size] elements that each rank receives */
    const void *input;    /* the parts of all ranks, in rank order */
    void *output;         /* the own part; may be its place in input, otherwise they do not overlap */
};
ls_status ls_group_reduce_scatter(struct ls_group *group, const struct ls_reduce_scatter *call);
ls_status ls_group_barrier(struct ls_group *group, const char *name);
