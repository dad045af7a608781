/* A collective of a bare communicator as it was asked for: who calls and waits has it on the stack, a begun one has it
 * in its handle. */
#pragma once
#include <sys/queue.h>

#include "base/kept_error.h"
#include "collective/group.h"
#include "collective/run/frame.h"

/* An array of an all-reduce, or the whole of any other call: what ranks agree on by its name. */
struct ls_call_part {
    struct ls_frame frame; /* the fingerprint; its sequence is 0. It comes first: see ls_negotiation_compare_names */
    const void *input;
    void *output;
    struct ls_operation *operation; /* that it is of, once begun */
    bool done;                      /* it has ended */
};

enum ls_operation_kind {
    LS_OPERATION_ALL_REDUCE,
    LS_OPERATION_BROADCAST,
    LS_OPERATION_ALL_GATHER,
    LS_OPERATION_REDUCE_SCATTER,
    LS_OPERATION_ALL_TO_ALL,
    LS_OPERATION_BARRIER,
    LS_OPERATION_SHARE, /* ls_communicator_allocate */
    LS_OPERATION_JOIN,
    LS_OPERATION_KINDS
};
/* While it is under way; guarded by the monitor of struct ls_async. */
struct ls_operation_progress {
    TAILQ_ENTRY(ls_operation) link;
    size_t told, left; /* parts that the other ranks know; that have not ended */
    int64_t begun;
    bool ended;
    int last; /* of a join: the last rank */
    struct ls_kept_error result;
};
struct ls_operation {
    enum ls_operation_kind kind;
    union { /* the program's struct; all begin alike */
        struct {
            size_t size;
            const char *name;
        };
        ls_all_reduce_options all_reduce;
        ls_broadcast_options broadcast;
        ls_all_gather_options all_gather;
        ls_reduce_scatter_options reduce_scatter;
        ls_all_to_all_options all_to_all;
    };
    ls_communication communication; /* of reductions */
    size_t bytes;                   /* of a share */
    void **memory;
    struct ls_call_part *parts; /* [part_count]: one, several arrays of an all-reduce, none of a join */
    size_t part_count;
    struct ls_call_part only; /* where parts is one */
    struct ls_operation_progress progress;
};
TAILQ_HEAD(ls_operations, ls_operation);

/* Copies the struct of a call of this kind, and makes parts of its arrays. INVALID_ARGUMENT names a field that is NULL.
 */
ls_status ls_operation_read(struct ls_operation *operation, const void *options);
/* Frees the parts. */
void ls_operation_free(struct ls_operation *operation);
/* INVALID_ARGUMENT for what this rank alone can see. Then gives each part its fingerprint. */
ls_status ls_operation_check(struct ls_operation *operation, const struct ls_group *group);
/* Runs it by itself; the name is that of the call. */
ls_status ls_operation_run(struct ls_operation *operation, struct ls_group *group, const char *name);
/* "all-reduce", for the timeline. */
const char *ls_operation_span(const struct ls_operation *operation);
struct ls_ranks;
size_t ls_operation_bytes(const struct ls_operation *operation, const struct ls_ranks *ranks);
