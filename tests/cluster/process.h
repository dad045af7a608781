/* Workers of a cluster as processes, for tests that kill and stop them. To be forked before gRPC is used. */
#pragma once
#include <sys/types.h>

#include "cluster/worker.h"

struct test_processes {
    int count;
    pid_t pids[MAX_TEST_WORKERS];
    test_body *body;
    void *context;              /* its worker's */
    int joined[2], outcomes[2]; /* pipes */
};

struct test_outcome {
    int rank;
    ls_status left;
    double seconds; /* from the end of the join to the end of the leave */
    char error[1024];
};

/* Starts one process a worker (as test_workers has filled them) and waits until all have joined. */
void test_processes_start(struct test_processes *processes, struct test_worker *workers, int count, test_body *body);
/* The next one to end says how. */
struct test_outcome test_processes_outcome(struct test_processes *processes);
/* The exit status as waitpid says it. */
int test_processes_wait(struct test_processes *processes, int rank);
