/* Threads as workers: free ports, a TF_CONFIG for each, and their statuses. */
#include "strategy/workers.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "ports.h"
#include "strategy/strategy.h"

struct starting {
    struct worker_cluster *cluster;
    struct worker *worker;
    const char *members; /* the JSON of the cluster: addresses */
};

static void quiet(void *context, ls_log_level level, const char *line) {
    (void)context;
    if (level == LS_LOG_ERROR) (void)fprintf(stderr, "# %s\n", line);
}

/* "gpu:0,gpu:1" */
static void list_devices(const struct worker_cluster *cluster, int rank, char *list, size_t size) {
    const char *kind = cluster->kind ? cluster->kind : "cpu";
    size_t used = 0;
    for (int i = 0; i < cluster->devices[rank] && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s:%d", i ? "," : "", kind, i);
}

static void *worker_thread(void *argument) {
    struct starting *starting = argument;
    struct worker *worker = starting->worker;
    ls_strategy_options options = starting->cluster->options;
    char config[2048], devices[256];
    bool serves = worker->rank >= worker->count;
    (void)snprintf(config, sizeof(config), "{\"cluster\":{%s},\"task\":{\"type\":\"%s\",\"index\":%d}}",
                   starting->members, serves ? "ps" : "worker", serves ? worker->rank - worker->count : worker->rank);
    list_devices(starting->cluster, worker->rank, devices, sizeof(devices));
    options.size = sizeof(options);
    options.tf_config = worker->count > 1 || starting->cluster->servers ? config : "{}";
    if (!options.devices) options.devices = devices;
    if (!options.log) options.log = quiet;
    const ls_local_sgd_options *local = starting->cluster->local;
    const ls_parameter_server_options *stored = starting->cluster->stored;
    worker->status = local    ? ls_local_sgd_strategy_new(&options, local, &worker->strategy)
                     : stored ? ls_parameter_server_strategy_new(&options, stored, &worker->strategy)
                              : ls_multi_worker_mirrored_strategy_new(&options, &worker->strategy);
    if (!worker->status)
        worker->status = ls_strategy_close(worker->strategy, serves ? ls_strategy_serve(worker->strategy)
                                                                    : starting->cluster->fn(worker));
    (void)snprintf(worker->error, sizeof(worker->error), "%s", worker->status ? ls_error() : "");
    return NULL;
}

void run_workers(struct worker_cluster *cluster) {
    int ports[MAX_WORKERS];
    char members[1024] = "";
    pthread_t threads[MAX_WORKERS];
    struct starting starting[MAX_WORKERS];
    int all = cluster->count + cluster->servers;
    take_ports(ports, all);
    for (int i = 0; i < all; i++)
        (void)snprintf(members + strlen(members), sizeof(members) - strlen(members), "%s\"127.0.0.1:%d\"",
                       !i                    ? "\"worker\":["
                       : i == cluster->count ? "],\"ps\":["
                                             : ",",
                       ports[i]);
    (void)strcat(members, "]");
    for (int i = 0; i < all; i++) {
        cluster->workers[i] = (struct worker){.rank = i, .count = cluster->count, .context = cluster->context};
        starting[i] = (struct starting){cluster, &cluster->workers[i], members};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, worker_thread, &starting[i]), 0);
    }
    for (int i = 0; i < all; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

void run_workers_ok(struct worker_cluster *cluster) {
    run_workers(cluster);
    for (int i = 0; i < cluster->count + cluster->servers; i++)
        ck_assert_msg(!cluster->workers[i].status, "rank %d: %s", i, cluster->workers[i].error);
}
