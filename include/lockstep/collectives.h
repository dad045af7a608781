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
LS_API ls_status ls_communicator_close(ls_communicator *communicator, ls_status status); /* as ls_strategy_close */
LS_API ls_status ls_communicator_abort(ls_communicator *communicator, const char *reason);    /* as ls_strategy_abort */
LS_API void ls_communicator_free(ls_communicator *communicator);
/* As ls_strategy_recover: all ranks are there again, one that was started anew through ls_communicator_new; what they share
 * is theirs to broadcast. Memory of ls_communicator_allocate is gone. */
LS_API bool ls_communicator_recover(ls_communicator *communicator, ls_status *status);
LS_API int ls_rank(const ls_communicator *communicator);
LS_API int ls_size(const ls_communicator *communicator);
LS_API int ls_local_rank(const ls_communicator *communicator); /* among the ranks on this host */
LS_API int ls_local_size(const ls_communicator *communicator);
/* The transport of this communicator's all-reduce: "shm"; the links' "tcp" or "grpc"; "shm+tcp" (hosts, and between
 * them); "none" alone. */
LS_API const char *ls_communicator_transport(const ls_communicator *communicator);
/* Memory, zeroed and aligned to 64 bytes, that the ranks of this host share where they can: under AUTO an all-reduce in
 * place on it is the fastest. Collective, each rank with its own size. Released before the communicator is closed. */
LS_API ls_status ls_communicator_allocate(ls_communicator *communicator, size_t size, void **memory);
LS_API void ls_communicator_release(ls_communicator *communicator, void *memory);
/* input and output hold count elements and may be the same. */
LS_API ls_status ls_all_reduce(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                               const void *input, void *output, size_t count);
/* The same with compression between ranks that share no memory. INVALID_ARGUMENT for another type than float32 or another
 * op than SUM and MEAN. */
LS_API ls_status ls_all_reduce_compressed(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                          ls_compression compression, const void *input, void *output, size_t count);
/* More of an all-reduce. Horovod's prescale_factor and postscale_factor. */
typedef struct ls_all_reduce_options {
    size_t size;
    ls_compression compression; /* as above */
    double prescale;  /* each rank's input is multiplied by it first; default 1. Not for integers. All types but float64 are */
    double postscale; /* multiplied in float32 and rounded once. The result, after MEAN's division, is multiplied by this one */
} ls_all_reduce_options;
#define LS_ALL_REDUCE(...) (&(ls_all_reduce_options){.size = sizeof(ls_all_reduce_options), __VA_ARGS__})
/* ls_all_reduce with options, which may be NULL. */
LS_API ls_status ls_all_reduce_with(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                    const ls_all_reduce_options *options, const void *input, void *output, size_t count);
/* n arrays in one call: Horovod's grouped_allreduce. inputs[i] and outputs[i] hold counts[i] elements and may be the same.
 * Each array gets the bits that an all-reduce of it alone gives. All of them are added or the group ends. Under AUTO small
 * arrays go together, through a buffer where they do not lie one behind the other. options may be NULL. */
LS_API ls_status ls_all_reduce_group(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                     const ls_all_reduce_options *options, const void *const *inputs, void *const *outputs,
                                     const size_t *counts, size_t n);
/* data holds count elements on every rank: those of rank root, read there and written on all others. */
LS_API ls_status ls_broadcast(ls_communicator *communicator, const char *name, int root, ls_dtype dtype, void *data,
                              size_t count);
/* output holds the concatenation in rank order; counts[rank] elements come from each rank. */
LS_API ls_status ls_all_gather(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                               const size_t *counts, void *output);
/* Of the sum of all ranks' inputs each rank receives its part: input holds the parts of all ranks in order, counts[rank]
 * elements each, output this rank's. output may be its own place in input. */
LS_API ls_status ls_reduce_scatter(ls_communicator *communicator, const char *name, ls_reduce_op op, ls_dtype dtype,
                                   const void *input, const size_t *counts, void *output);
/* Returns when all ranks have called it. It moves no data, and has the deadline of every collective. */
LS_API ls_status ls_barrier(ls_communicator *communicator, const char *name);

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
