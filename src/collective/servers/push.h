/* Push (Li et al. 2014, "Scaling distributed machine learning with the parameter server"): to arrays that parameter
 * servers keep. A call in a group of workers and servers. Every worker holds the whole array. A server holds ranges of
 * it, which both sides know. */
#pragma once
#include "collective/group.h"

/* The sums of all leaves, to the servers, in the order of the tree. */
struct ls_push {
    const char *name;
    size_t count;                  /* float32 */
    const struct ls_stripe *owned; /* [servers] bytes of the array; together they are all of it */
    int copies;                    /* servers behind each owner that keep its sums too */
    ls_compression compression;    /* on links; the sums are rounded as an all-reduce rounds them */
    const int *first;              /* a worker: [workers + 1] leaves; a server takes what the workers have told */
    const void *const *inputs;     /* a worker: an array for each of its leaves */
    void *const *outputs;          /* a server: [1 + copies] places for its sums, and those of the servers before it */
};
ls_status ls_group_push(struct ls_group *group, const struct ls_push *push);
