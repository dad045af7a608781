/* Bare collectives, in Horovod's vocabulary: a group of processes for people who bring their own compute. Part of the public
 * API, included by lockstep.h. */
#ifndef LOCKSTEP_COLLECTIVES_H
#define LOCKSTEP_COLLECTIVES_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A group of processes from TF_CONFIG, for people who bring their own compute. Every call is collective: all ranks make
 * the same calls in the same order with the same name, type, count and op; a difference is one named error on each rank.
 * A slip that this rank alone can see (NULL, a root or type that is none, counts that overflow) is INVALID_ARGUMENT here,
 * and the call has not happened: the others wait for it, and the rank's next call takes its place. Any other failure ends
 * the group on all ranks. Arrays are aligned as their type wants. */
typedef struct ls_communicator ls_communicator;
LS_API ls_status ls_communicator_new(const ls_strategy_options *options, ls_communicator **communicator);
/* As ls_strategy_close. Frees the communicator and its process sets: the handles are gone, and a second close or a free of
 * one is as a second free() of memory. NULL is none, and status is returned. */
LS_API ls_status ls_communicator_close(ls_communicator *communicator, ls_status status);
LS_API ls_status ls_communicator_abort(ls_communicator *communicator, const char *reason); /* as ls_strategy_abort */
/* ls_communicator_close with LS_OK, its result ignored: in place of it, not after it. */
LS_API void ls_communicator_free(ls_communicator *communicator);
/* As ls_strategy_recover: all ranks are there again, one that was started anew through ls_communicator_new; what they share
 * is theirs to broadcast. Memory of ls_communicator_allocate is gone. */
LS_API bool ls_communicator_recover(ls_communicator *communicator, ls_status *status);
LS_API int ls_rank(const ls_communicator *communicator);
LS_API int ls_size(const ls_communicator *communicator);
LS_API int ls_local_rank(const ls_communicator *communicator); /* among the ranks on this host */
LS_API int ls_local_size(const ls_communicator *communicator);
/* The transport of this communicator's all-reduce: "shm"; the links' "tcp"; "shm+tcp" (hosts, and between
 * them); "none" alone. */
LS_API const char *ls_communicator_transport(const ls_communicator *communicator);
/* Memory, zeroed and aligned to 64 bytes, that the ranks of this host share where they can: under AUTO an all-reduce in
 * place on it is the fastest. Collective, each rank with its own size. Released before the communicator is closed. */
LS_API ls_status ls_communicator_allocate(ls_communicator *communicator, size_t size, void **memory);
LS_API void ls_communicator_release(ls_communicator *communicator, void *memory);
/* Horovod's: among the hosts that have a rank of this local rank, which this one is, and how many there are. */
LS_API int ls_cross_rank(const ls_communicator *communicator);
LS_API int ls_cross_size(const ls_communicator *communicator);
LS_API bool ls_is_homogeneous(const ls_communicator *communicator); /* all hosts have as many ranks */

/* ---- Process sets: MPI_Comm_create_group, hvd.add_process_set ---------------------------------------------------- */

/* A communicator of count different ranks of parent, which is none itself. Collective: all ranks of parent call it in the
 * same order with the same ranks. In the set ranks are counted 0 to count - 1 as they stand here; *set is NULL on a rank
 * that is not among them. Roots and ranks of calls in the set are the set's (Horovod's are the parent's): the functions
 * below translate. Threads may call in several sets and in parent at once, in each one thread at a time.
 * A failure in one of them ends the calls in all. ls_communicator_recover(parent), which no other thread's call may
 * overlap with, mends the sets too: the handles stay good. A process that was started anew gets its sets by
 * ls_communicator_subset with the same ranks, which waits for nobody then. Closing a set is collective over it; closing
 * the parent ends its sets, whose handles are gone with it. */
LS_API ls_status ls_communicator_subset(ls_communicator *parent, const int *ranks, int count, ls_communicator **set);
/* The parent's rank of a rank of the set, and the reverse; -1 where there is none. */
LS_API int ls_communicator_parent_rank(const ls_communicator *set, int rank);
LS_API int ls_communicator_subset_rank(const ls_communicator *set, int parent_rank);

/* ---- Collectives ------------------------------------------------------------------------------------------------- */

/* The macro of a call fills its struct: the first fields in their order, which is MPI's, and any others by name.
 *
 *     ls_all_reduce(world, LS_ALL_REDUCE("loss", &own, &mean, 1, .op = LS_MEAN));
 *
 * A field left out is zero: LS_FLOAT32, LS_SUM, root 0. Lists of counts have an entry a rank. */

/* MPI_Allreduce, hvd.allreduce, torch's all_reduce. With inputs, outputs, counts and array_count in place of input, output and
 * count it is of several arrays: hvd.grouped_allreduce, all_reduce_coalesced. Each gets the bits that an all-reduce of it alone
 * gives. All of them are added or the group ends. Under AUTO small arrays go together, through a buffer where they do not lie
 * one behind the other. */
typedef struct ls_all_reduce_options {
    size_t size;
    const char *name;
    const void *input; /* count elements */
    void *output;      /* count elements; may be input */
    size_t count;
    ls_dtype dtype;
    ls_reduce_op op;
    ls_compression compression; /* between ranks that share no memory. Of SUM and MEAN of float32; else INVALID_ARGUMENT */
    double prescale;  /* each rank's input is multiplied by it first; default 1. Not for integers. All types but float64 are */
    double postscale; /* multiplied in float32 and rounded once. The result, after MEAN's division, is multiplied by this one */
    const void *const *inputs; /* [array_count]: inputs[i] and outputs[i] hold counts[i] elements and may be the same */
    void *const *outputs;
    const size_t *counts;
    size_t array_count; /* 0: the call is of input and output */
} ls_all_reduce_options;
#define LS_ALL_REDUCE(...) (&(ls_all_reduce_options){.size = sizeof(ls_all_reduce_options), .name = __VA_ARGS__})
LS_API ls_status ls_all_reduce(ls_communicator *communicator, const ls_all_reduce_options *options);

/* MPI_Bcast, hvd.broadcast, torch's broadcast. With allocated the other ranks need not know count: hvd.broadcast_object. */
typedef struct ls_broadcast_options {
    size_t size;
    const char *name;
    void *data; /* count elements on every rank: those of rank root, read there and written on all others */
    size_t count;
    ls_dtype dtype;
    int root;
    void **allocated; /* root's data and count alone are read. Receives the elements on every rank; ls_memory_free */
    size_t *received; /* with allocated: how many */
} ls_broadcast_options;
#define LS_BROADCAST(...) (&(ls_broadcast_options){.size = sizeof(ls_broadcast_options), .name = __VA_ARGS__})
LS_API ls_status ls_broadcast(ls_communicator *communicator, const ls_broadcast_options *options);

/* MPI_Allgatherv, torch's all_gather. With allocated each rank gives as many elements as it likes: hvd.allgather. */
typedef struct ls_all_gather_options {
    size_t size;
    const char *name;
    const void *input;
    void *output;         /* the concatenation in rank order */
    const size_t *counts; /* elements that come from each rank */
    ls_dtype dtype;
    size_t count;     /* with allocated, in place of output and counts: elements of input */
    void **allocated; /* receives the concatenation; ls_memory_free */
    size_t *received; /* with allocated: elements that came from each rank */
} ls_all_gather_options;
#define LS_ALL_GATHER(...) (&(ls_all_gather_options){.size = sizeof(ls_all_gather_options), .name = __VA_ARGS__})
LS_API ls_status ls_all_gather(ls_communicator *communicator, const ls_all_gather_options *options);

/* MPI_Reduce_scatter, hvd.reducescatter, torch's reduce_scatter. */
typedef struct ls_reduce_scatter_options {
    size_t size;
    const char *name;
    const void *input;    /* the parts of all ranks in order */
    void *output;         /* this rank's part of the reduction; may be its own place in input */
    const size_t *counts; /* elements of each rank's part */
    ls_dtype dtype;
    ls_reduce_op op;
} ls_reduce_scatter_options;
#define LS_REDUCE_SCATTER(...)                                                                                            \
    (&(ls_reduce_scatter_options){.size = sizeof(ls_reduce_scatter_options), .name = __VA_ARGS__})
LS_API ls_status ls_reduce_scatter(ls_communicator *communicator, const ls_reduce_scatter_options *options);
/* counts[size] of a reduce-scatter of count elements as Horovod divides them: the first count mod size ranks get one more. */
LS_API ls_status ls_split_counts(size_t count, int size, size_t *counts);

/* MPI_Alltoallv, hvd.alltoall(splits), torch's all_to_all. Gathers the counts first. */
typedef struct ls_all_to_all_options {
    size_t size;
    const char *name;
    const void *input;    /* the parts for all ranks in order */
    const size_t *counts; /* elements for each rank */
    void **allocated;     /* receives the parts from all ranks in order; ls_memory_free */
    size_t *received;     /* elements that came from each rank */
    ls_dtype dtype;
} ls_all_to_all_options;
#define LS_ALL_TO_ALL(...) (&(ls_all_to_all_options){.size = sizeof(ls_all_to_all_options), .name = __VA_ARGS__})
LS_API ls_status ls_all_to_all(ls_communicator *communicator, const ls_all_to_all_options *options);

/* Returns when all ranks have called it. It moves no data, and has the deadline of every collective. */
LS_API ls_status ls_barrier(ls_communicator *communicator, const char *name);

/* ---- Messages between two ranks: MPI_Send, MPI_Recv -------------------------------------------------------------- */

typedef struct ls_send_options {
    size_t size;
    const char *name;
    const void *data; /* count elements */
    size_t count;
    ls_dtype dtype;
    int to;
} ls_send_options;
#define LS_SEND(...) (&(ls_send_options){.size = sizeof(ls_send_options), .name = __VA_ARGS__})
/* Returns when data may be used again, received or not. A rank that waits in a send or a receive takes in what comes for
 * it from any rank, and keeps what it has not asked for yet: no order of sends and receives, and no size, holds up ranks
 * that all wait in one of them. A message waits for a rank that is in none of them (its deadline is a collective's). */
LS_API ls_status ls_send(ls_communicator *communicator, const ls_send_options *options);
typedef struct ls_receive_options {
    size_t size;
    const char *name;
    void *data; /* count elements */
    size_t count;
    ls_dtype dtype;
    int from;
} ls_receive_options;
#define LS_RECEIVE(...) (&(ls_receive_options){.size = sizeof(ls_receive_options), .name = __VA_ARGS__})
/* Waits for the oldest message of that rank with this name. Another type or count is INVALID_ARGUMENT, and ends the group
 * on all ranks. */
LS_API ls_status ls_receive(ls_communicator *communicator, const ls_receive_options *options);
/* ls_receive for a thread that also has something else to do: *received may be false at the end. Then another message has
 * come since the last wait that ended so, and may be tried for; it may have come in another call. Or the descriptor wake
 * can be read, such as a pipe by which another thread of the process wakes this one. wake -1: it waits for nothing. Its
 * deadline is that of a receive, from each call on. */
LS_API ls_status ls_try_receive(ls_communicator *communicator, const ls_receive_options *options, int wake, bool *received);

/* ---- Calls that begin, and are waited for later: Horovod's *_async, poll and synchronize ------------------------- */

/* From here on the calls of all ranks are matched by their names, not by their order, as Horovod's are. All ranks call it
 * before the first call that needs it; it does not communicate. Each call then takes a round in which the ranks tell each
 * other what they have begun. A thread of the communicator makes what all have begun, in one order on all ranks;
 * all-reduces that are ready together and alike go together, as arrays of one call do. A call that some ranks have begun
 * and others have not is said each LOCKSTEP_REPORT_INTERVAL, with those ranks, and is DEADLINE_EXCEEDED after the time of a
 * collective. It holds for the communicator's life, through recoveries, and for this one alone: not for its sets. There are
 * no messages between two ranks in it (use a set for those), and no set is made of it afterwards. */
LS_API ls_status ls_communicator_negotiate(ls_communicator *communicator);
/* A call that was begun. Its arrays, and what it receives, must stay until it has ended; names and counts are copied. */
typedef struct ls_pending ls_pending;
/* As the calls without _begin, which may be made meanwhile too. FAILED_PRECONDITION before ls_communicator_negotiate;
 * ALREADY_EXISTS where a call of that name has been begun here and has not ended. */
LS_API ls_status ls_all_reduce_begin(ls_communicator *communicator, const ls_all_reduce_options *options, ls_pending **pending);
LS_API ls_status ls_broadcast_begin(ls_communicator *communicator, const ls_broadcast_options *options, ls_pending **pending);
LS_API ls_status ls_all_gather_begin(ls_communicator *communicator, const ls_all_gather_options *options, ls_pending **pending);
/* True if it has ended, well or not. Any thread. */
LS_API bool ls_pending_done(const ls_pending *pending);
/* Its status. Waits for its end: so many seconds, then DEADLINE_EXCEEDED, and the call goes on; 0: until it ends, or the
 * group does. May be called again. */
LS_API ls_status ls_pending_wait(ls_pending *pending, double seconds);
/* Waits for its end first. A handle may outlive the communicator. */
LS_API void ls_pending_free(ls_pending *pending);
/* Horovod's join, for ranks with unequal numbers of steps: this rank has no more. Until all ranks have joined it takes part
 * in the others' all-reduces with what changes no result (0 for sums), and in their barriers; MEAN divides by the number of
 * ranks that have not joined, where Horovod divides by all. Any other call is FAILED_PRECONDITION on all ranks meanwhile.
 * Returns when all have joined; *last is the last rank that did. Needs ls_communicator_negotiate. */
LS_API ls_status ls_join(ls_communicator *communicator, int *last);

/* Horovod's start_timeline and stop_timeline, on this rank alone: from one to the other the calls are written to path as
 * LOCKSTEP_TRACE does it: "%r" in it becomes the rank, and ".rankN" goes before the extension where there are several ranks
 * and no "%r". The file is whole when stop, or the communicator's end, returns. No call of this rank may be under way.
 * FAILED_PRECONDITION: a timeline runs already, or none does; or the communicator is a process set. NOT_FOUND and others:
 * the file cannot be written. */
LS_API ls_status ls_timeline_start(ls_communicator *communicator, const char *path);
LS_API ls_status ls_timeline_stop(ls_communicator *communicator);

/* ---- Gradients of a loop of one's own: torch's DistributedDataParallel, Horovod's DistributedOptimizer ------------ */

typedef struct ls_gradients ls_gradients;
typedef struct ls_gradients_options {
    size_t size;
    void *const *arrays;    /* [array_count], in the order of forward; borrowed, and added in place */
    const size_t *counts;   /* elements of each */
    const ls_dtype *dtypes; /* of each */
    size_t array_count;
    bool sum;                   /* default: the mean over ranks */
    size_t bytes_per_pack;      /* arrays that are added together; default: 1 MiB first, then 25 MiB */
    int passes;                 /* backward passes a step, over which the program adds up: each array is ready so often; default 1 */
    ls_compression compression; /* of float32 arrays */
    double predivide;           /* hvd's gradient_predivide_factor: divides before the sum and multiplies after it; default 1 */
    const bool *local;          /* [array_count]: true: this array is never added; default: all are. Copied */
} ls_gradients_options;
#define LS_GRADIENTS(...) (&(ls_gradients_options){.size = sizeof(ls_gradients_options), .arrays = __VA_ARGS__})
/* LS_GRADIENTS(arrays, counts, dtypes, array_count, .sum = true). Alike on all ranks, which make theirs in the same order
 * after ls_communicator_negotiate. The arrays are cut into packs from the last to the first. */
LS_API ls_status ls_gradients_new(ls_communicator *communicator, const ls_gradients_options *options,
                                  ls_gradients **gradients);
/* Array index will not be written any more in this pass. By any thread, in any order on each rank: a pack whose arrays are all
 * ready is added while backward goes on. FAILED_PRECONDITION: it has been so already. */
LS_API ls_status ls_gradients_ready(ls_gradients *gradients, size_t index);
/* After backward: adds what is not ready as it is, and waits until all arrays hold the result. The next step begins. */
LS_API ls_status ls_gradients_wait(ls_gradients *gradients);
LS_API void ls_gradients_free(ls_gradients *gradients); /* before the communicator is closed */

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
