/* Strategies: tf.distribute.MirroredStrategy, MultiWorkerMirroredStrategy and OneDeviceStrategy, each a row of names
 * and differences. */
#include "strategy/strategy.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/point.h"
#include "strategy/kept.h"
#include "strategy/nccl.h"
#include "strategy/node.h"

struct ls_strategy_kind {
    const char *name;
    bool multi_worker; /* reads TF_CONFIG */
};
static const struct ls_strategy_kind mirrored = {"MirroredStrategy", false};
static const struct ls_strategy_kind multi_worker_mirrored = {"MultiWorkerMirroredStrategy", true};
static const struct ls_strategy_kind one_device = {"OneDeviceStrategy", false};

static ls_status check_options(const ls_strategy_options *options) {
    if (!ls_cross_device_find(options->cross_device_ops))
        return ls_fail(LS_INVALID_ARGUMENT, "cross_device_ops %d is no ls_cross_device_ops", options->cross_device_ops);
    if (options->threads_per_replica < 0 || options->threads_per_replica > 1024)
        return ls_fail(LS_INVALID_ARGUMENT, "threads_per_replica %d is not in 0 .. 1024", options->threads_per_replica);
    return LS_OK;
}

static ls_status agree_on_options(ls_strategy *strategy) {
    char lines[256];
    const ls_strategy_options *options = &strategy->options;
    (void)snprintf(lines, sizeof(lines),
                   "strategy=%s\ncommunication=%s\ncompression=%s\nbytes_per_pack=%zu\nthreads_per_replica=%d\n",
                   strategy->kind->name, ls_communication_name(options->communication),
                   ls_compression_name(options->compression), options->bytes_per_pack, options->threads_per_replica);
    return ls_membership_agree(strategy->membership, "strategy options", lines);
}

ls_status ls_strategy_introduce(ls_strategy *strategy) {
    ls_status status = ls_layout_number(strategy);
    if (!status) status = agree_on_options(strategy);
    if (!status) status = ls_node_agree(strategy);
    return status ? status : ls_nccl_agree(strategy);
}

static void announce_compression(const ls_strategy *strategy) {
    const struct ls_membership *membership = strategy->membership;
    const char *name = ls_compression_name(strategy->options.compression);
    if (!strategy->options.compression || membership->rank) return;
    if (ls_group_compresses(membership->group, ls_strategy_communication(strategy)))
        ls_log_info(&membership->log, "gradients cross the links as %s", name);
    else
        ls_log_info(&membership->log, "compression %s changes nothing: %s", name,
                    membership->size > 1 ? "all workers share memory" : "there is one worker");
}

static void announce(const ls_strategy *strategy) {
    const struct ls_membership *membership = strategy->membership;
    int on_host = membership->local_size * strategy->local_count;
    ls_log_info(&membership->log, "%s: %d replica%s in sync on %d worker%s; rank %d holds %d from replica %d; %s%s",
                strategy->kind->name, strategy->total_count, strategy->total_count == 1 ? "" : "s", membership->size,
                membership->size == 1 ? "" : "s", membership->rank, strategy->local_count, strategy->replicas[0].id,
                ls_communication_name(strategy->options.communication),
                ls_gate_spins(on_host) ? "" : "; fewer cores than replicas on this host, so waits sleep at once");
}

/* The timeline, if one is wanted: a track for each replica, one for the communicator. */
static ls_status start_trace(ls_strategy *strategy) {
    const struct ls_membership *membership = strategy->membership;
    const struct ls_trace_config config = {
        .path = membership->settings.trace,
        .rank = membership->task, /* an elastic group's ranks change */
        .size = membership->tasks,
        .log = &membership->log,
    };
    if (!*config.path) return LS_OK;
    ls_status status = ls_trace_new(&config, &strategy->trace);
    if (!status) ls_layout_name_tracks(strategy);
    return status ? status : ls_trace_add_track(strategy->trace, "communicator", &strategy->communicator_track);
}

static ls_status build(ls_strategy *strategy, const ls_strategy_options *options) {
    ls_status status = ls_options_copy("ls_strategy_options", &strategy->options, sizeof(strategy->options), options);
    if (!status) status = check_options(&strategy->options);
    if (!status) status = ls_membership_new(&strategy->options, strategy->kind->multi_worker, &strategy->membership);
    if (!status) status = ls_layout_open(strategy);
    if (!status && strategy->kind == &one_device && strategy->device_count != 1)
        status = ls_fail(LS_INVALID_ARGUMENT, "OneDeviceStrategy takes one device, '%s' are %d",
                         strategy->options.devices, strategy->device_count);
    if (status) return status;
    status = ls_strategy_introduce(strategy);
    if (status && !ls_strategy_recover(strategy, &status)) return status; /* which introduces it anew */
    /* Waiting threads may spin only if every replica of this host still has a core. */
    strategy->spins = ls_gate_spins(strategy->membership->local_size * strategy->local_count);
    announce(strategy);
    announce_compression(strategy);
    status = start_trace(strategy);
    return status ? status : ls_replicas_start(strategy);
}

static ls_status strategy_new(const struct ls_strategy_kind *kind, const ls_strategy_options *options,
                              ls_strategy **strategy) {
    ls_strategy *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a strategy", sizeof(*made));
    made->kind = kind;
    ls_status status = build(made, options);
    if (status) return ls_strategy_close(made, status);
    *strategy = made;
    return LS_OK;
}

ls_status ls_multi_worker_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy) {
    return strategy_new(&multi_worker_mirrored, options, strategy);
}

ls_status ls_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy) {
    return strategy_new(&mirrored, options, strategy);
}

ls_status ls_one_device_strategy_new(const char *device, ls_strategy **strategy) {
    return strategy_new(&one_device, LS_STRATEGY(.devices = device ? device : "cpu:0"), strategy);
}

/* All workers come here with the same state; who is lost before all have come is waited for. */
static ls_status pass_exit(ls_strategy *strategy) {
    struct ls_cluster *cluster = strategy->membership->cluster;
    ls_status status;
    if (!cluster || !strategy->membership->holds) return LS_OK;
    ls_reached("exit");
    do status = ls_cluster_pass_exit(cluster);
    while (status && !ls_cluster_is_over(cluster) && ls_strategy_recover(strategy, &status));
    return ls_cluster_is_over(cluster) ? LS_OK : status;
}

ls_status ls_strategy_close(ls_strategy *strategy, ls_status status) {
    if (!strategy) return status;
    ls_replicas_stop(strategy);
    if (!status) status = pass_exit(strategy);
    status = ls_membership_close(strategy->membership, status);
    ls_trace_close(strategy->trace);
    ls_variables_free(strategy);
    for (int i = 0; i < strategy->local_count; i++) ls_device_close(strategy->replicas[i].device);
    ls_free(strategy->replicas);
    ls_free(strategy->meeting.calls);
    ls_free(strategy->first);
    ls_free(strategy->task_devices);
    ls_free(strategy->training.results);
    ls_kept_free(strategy->training.outputs);
    ls_committed_free(strategy);
    ls_free(strategy);
    return status;
}

void ls_strategy_free(ls_strategy *strategy) {
    (void)ls_strategy_close(strategy, LS_OK);
}

int ls_num_replicas_in_sync(const ls_strategy *strategy) {
    return strategy->total_count;
}

int ls_num_workers(const ls_strategy *strategy) {
    return strategy->membership->size;
}

int ls_num_local_replicas(const ls_strategy *strategy) {
    return strategy->local_count;
}

int ls_worker_rank(const ls_strategy *strategy) {
    return strategy->membership->rank;
}

bool ls_is_chief(const ls_strategy *strategy) {
    const struct ls_membership *membership = strategy->membership;
    return membership->cluster || !membership->config ? membership->rank == 0 : membership->config->is_chief;
}
