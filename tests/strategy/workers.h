/* Several workers in one test: each a thread of this process with its own TF_CONFIG on free localhost ports, joined
 * over the real cluster. Run under CK_FORK=no, since gRPC does not survive fork. */
#pragma once
#include <lockstep/lockstep.h>

#define MAX_WORKERS 16

struct worker;
typedef ls_status worker_fn(struct worker *worker);
/* One worker's place in the cluster; fn runs in its thread with the strategy made. */
struct worker {
    int rank, count;
    ls_strategy *strategy;
    void *context; /* the cluster's; shared by all workers */
    /* filled in afterwards */
    ls_status status; /* of fn and of the close, whichever came first */
    char error[1024];
};
struct worker_cluster {
    int count;
    int devices[MAX_WORKERS];
    const char *kind;                          /* of the devices; NULL: cpu */
    ls_strategy_options options;               /* size, tf_config and devices are filled in */
    const ls_local_sgd_options *local;         /* LocalSGDStrategy; NULL: MultiWorkerMirroredStrategy */
    const ls_parameter_server_options *stored; /* ParameterServerStrategy, with so many servers beside the workers */
    int servers;
    worker_fn *fn;
    void *context;
    struct worker workers[MAX_WORKERS]; /* and the servers behind them */
};
/* Starts all, waits for all. Statuses are in workers[]. */
void run_workers(struct worker_cluster *cluster);
/* As run_workers, and asserts that every worker succeeded. */
void run_workers_ok(struct worker_cluster *cluster);
