/* Strategies: tf.distribute.MirroredStrategy, MultiWorkerMirroredStrategy, OneDeviceStrategy, CentralStorageStrategy
 * and ParameterServerStrategy, and LocalSGDStrategy, each a row of names and differences. */
#include "strategy/strategy.h"

#include <math.h>
#include <stdio.h>

#include "base/new.h"
#include "base/options.h"
#include "base/need.h"
#include "base/point.h"
#include "cluster/leave.h"
#include "collective/collectives.h"
#include "runtime/runtime.h"
#include "strategy/device_adders.h"
#include "strategy/elastic_state.h"
#include "strategy/placement.h"
#include "strategy/stages.h"
#include "base/plain.h"

enum { MOST_COPIES = 16, MOST_DELAY = 64 };

struct ls_strategy_kind {
    const char *name;
    bool reads_cluster;                                      /* of TF_CONFIG; otherwise this worker is alone */
    ls_status (*check_devices)(const ls_strategy *strategy); /* once they are open; NULL: any number is right */
    bool central;                                            /* one copy of parameters and moments a worker */
    bool stored;                                             /* moments, and what is updated, are on servers */
    bool divides;                                            /* moments over workers, where the options say so */
};

static ls_status check_one(const ls_strategy *strategy) {
    if (strategy->device_count == 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "OneDeviceStrategy takes one device, '%s' are %d", strategy->options.devices,
                   strategy->device_count);
}

/* All replicas read the parameters where they lie. */
static ls_status check_host_memory(const ls_strategy *strategy) {
    for (int i = 0; i < strategy->device_count; i++)
        if (!strategy->replicas[i].device->host_memory)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "%s: replica %d is on %s, which does not read parameters on CPU:0; give "
                           "devices a number of CPU devices, or take %s",
                           strategy->kind->name, i, strategy->replicas[i].device->name,
                           strategy->kind->stored ? "MultiWorkerMirroredStrategy" : "MirroredStrategy");
    return LS_OK;
}

static const struct ls_strategy_kind mirrored = {"MirroredStrategy"}, local_sgd = {"LocalSGDStrategy", true};
static const struct ls_strategy_kind multi_worker_mirrored = {"MultiWorkerMirroredStrategy", true, .divides = true};
static const struct ls_strategy_kind one_device = {"OneDeviceStrategy", false, check_one};
static const struct ls_strategy_kind central_storage = {"CentralStorageStrategy", false, check_host_memory, true};
static const struct ls_strategy_kind parameter_server = {"ParameterServerStrategy", true, check_host_memory, true,
                                                         true};

static ls_status check_local_options(const ls_local_sgd_options *local, const ls_strategy_options *options) {
    if (!local->sync_every) return LS_OK;
    if (options->communication == LS_NCCL)
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: the host averages variables; take communication AUTO or "
                                            "RING in place of NCCL");
    if (options->compression && !(local->outer_learning_rate > 0))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "LocalSGDStrategy: compression %s would round the variables themselves; leave it out, or give "
                       "an outer_learning_rate, with which changes cross the links",
                       ls_option_names_compression(options->compression));
    return LS_OK;
}

static ls_status check_async_options(const ls_strategy_options *options) {
    if (!options->compression) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED,
                   "ParameterServerStrategy: asynchronous training sends gradients whole: leave "
                   "compression %s out",
                   ls_option_names_compression(options->compression));
}

static ls_status check_sharding(const struct ls_strategy_kind *kind, const ls_strategy_options *options) {
    ls_status status = ls_option_names_check_sharding(options->shard);
    if (status) return status;
    if (options->shard_copies < 0 || options->shard_copies > MOST_COPIES)
        return ls_fail(LS_INVALID_ARGUMENT, "shard_copies %d is not in 1 .. %d", options->shard_copies, MOST_COPIES);
    if (options->shard_copies && !options->shard)
        return ls_fail(LS_INVALID_ARGUMENT, "shard_copies %d goes with shard, and that is none", options->shard_copies);
    if (options->shard && !kind->divides)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: shard %s divides moments over the workers of MultiWorkerMirroredStrategy; leave it out",
                       kind->name, ls_option_names_sharding(options->shard));
    if (options->shard && options->communication == LS_NCCL)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: shard %s adds gradients in host memory; take communication AUTO or RING in place of NCCL",
                       kind->name, ls_option_names_sharding(options->shard));
    return LS_OK;
}

/* Stripes are updated in host memory. */
static ls_status check_sharding_devices(const ls_strategy *strategy) {
    for (int i = 0; strategy->options.shard && i < strategy->device_count; i++)
        if (!strategy->replicas[i].device->host_memory)
            return ls_fail(
                LS_UNIMPLEMENTED,
                "%s: shard %s updates moments in host memory, and replica %d is on %s: give devices a number "
                "of CPU devices, or leave shard out",
                strategy->kind->name, ls_option_names_sharding(strategy->options.shard), i,
                strategy->replicas[i].device->name);
    return LS_OK;
}

static ls_status check_strategy_options(const struct ls_strategy_kind *kind, const ls_strategy_options *options) {
    if (!ls_cross_device_find(options->cross_device_ops))
        return ls_fail(LS_INVALID_ARGUMENT, "cross_device_ops %d is no ls_cross_device_ops", options->cross_device_ops);
    if (options->threads_per_replica < 0 || options->threads_per_replica > 1024)
        return ls_fail(LS_INVALID_ARGUMENT, "threads_per_replica %d is not in 0 .. 1024", options->threads_per_replica);
    if (options->replicas < 0 || options->replicas > 65536)
        return ls_fail(LS_INVALID_ARGUMENT, "replicas %d is not in 0 .. 65536", options->replicas);
    if (kind->stored && options->communication != LS_AUTO)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: communication %s is between workers, and gradients go to servers; leave it out", kind->name,
                       ls_option_names_communication(options->communication));
    ls_status status = check_sharding(kind, options);
    return status ? status : ls_stages_check_options(kind->name, kind->divides, options);
}

ls_status ls_strategy_introduce(ls_strategy *strategy) {
    ls_status status = ls_placement_number(strategy);
    return status ? status : ls_device_adders_agree(strategy);
}

void ls_strategy_replicas_text(int first, int count, char *text, size_t size) {
    if (count == 1)
        (void)snprintf(text, size, "replica %d", first);
    else
        (void)snprintf(text, size, "replicas %d to %d", first, first + count - 1);
}

static void announce_compression(const ls_strategy *strategy) {
    const struct ls_runtime *runtime = strategy->runtime;
    const char *name = ls_option_names_compression(strategy->options.compression);
    if (!strategy->options.compression) return;
    if (ls_group_all_reduce_compresses(runtime->group, runtime->communication))
        ls_runtime_tell(runtime, "gradients cross the links as %s", name);
    else
        ls_runtime_tell(runtime, "compression %s changes nothing: %s", name,
                        runtime->size > 1 ? "all workers share memory" : "there is one worker");
}

static void announce(const ls_strategy *strategy) {
    const struct ls_runtime *runtime = strategy->runtime;
    int on_host = runtime->local_size * strategy->local_count, first = strategy->replicas[0].id;
    char own[48];
    ls_strategy_replicas_text(first, strategy->local_count, own, sizeof(own));
    ls_runtime_tell(runtime, "%s: %d replica%s in sync on %d worker%s; this worker is rank %d and has %s; %s%s",
                    strategy->kind->name, strategy->total_count, strategy->total_count == 1 ? "" : "s", runtime->size,
                    runtime->size == 1 ? "" : "s", runtime->rank, own,
                    ls_option_names_communication(strategy->options.communication),
                    ls_gate_spins(on_host) ? "" : "; fewer cores than replicas on this host, so waits sleep at once");
}

static void announce_meetings(const ls_strategy *strategy) {
    const ls_local_sgd_options *local = &strategy->local;
    char outer[80] = "", fragments[112] = "";
    if (!local->sync_every) return;
    if (local->outer_learning_rate > 0)
        (void)ls_plain_text(outer, sizeof(outer), "; outer learning rate %g, momentum %g",
                            (double)local->outer_learning_rate, (double)local->outer_momentum);
    if (local->fragments > 1 || local->fragment_delay > 0)
        (void)snprintf(fragments, sizeof(fragments), "; %d fragment%s, each used %d step%s after its meeting begins",
                       local->fragments ? local->fragments : 1, local->fragments > 1 ? "s" : "", local->fragment_delay,
                       local->fragment_delay == 1 ? "" : "s");
    ls_runtime_tell(strategy->runtime, "workers meet every %d step%s%s%s%s", local->sync_every,
                    local->sync_every == 1 ? "" : "s", outer, fragments,
                    local->local_moments ? "; each has its own moments" : "");
}

static void announce_bounds(const ls_strategy *strategy) {
    const ls_parameter_server_options *servers = &strategy->servers;
    char ahead[64] = "any number of batches", stale[96] = "";
    if (!ls_strategy_is_async(strategy)) return;
    if (servers->staleness)
        (void)snprintf(ahead, sizeof(ahead), "at most %d batch%s", servers->staleness,
                       servers->staleness == 1 ? "" : "es");
    if (servers->on_stale == LS_STALE_SCALE)
        (void)snprintf(stale, sizeof(stale), "; rates are divided by the updates since the variables were read");
    if (servers->on_stale == LS_STALE_DROP)
        (void)snprintf(stale, sizeof(stale), "; gradients of variables more than %d updates ago are dropped",
                       servers->max_staleness);
    ls_runtime_tell(strategy->runtime,
                    "asynchronous: each batch is one worker's, and updates the variables by itself; a worker may be "
                    "%s ahead of the slowest%s",
                    ahead, stale);
}

static void announce_delay(const ls_strategy *strategy) {
    if (!strategy->delay) return;
    ls_runtime_tell(strategy->runtime, "a step's gradients are of the variables before the last %d step%s",
                    strategy->delay, strategy->delay == 1 ? "" : "s");
}

static void announce_sharding(const ls_strategy *strategy) {
    int copies = strategy->options.shard_copies, workers = strategy->runtime->size;
    if (!strategy->options.shard) return;
    if (copies > workers) copies = workers;
    bool gradients = strategy->options.shard == LS_SHARDING_GRADIENTS && workers > 1;
    ls_runtime_tell(strategy->runtime,
                    "each of %d worker%s owns its part of the optimizer's moments; %d cop%s of each%s", workers,
                    workers == 1 ? "" : "s", copies, copies == 1 ? "y" : "ies",
                    gradients ? ", and the gradients of these alone" : "");
}

/* Opens the timeline, if one is wanted, with a track for each replica and one for the communicator. */
static ls_status start_trace(ls_strategy *strategy) {
    ls_status status = ls_runtime_trace_open(strategy->runtime, NULL, &strategy->trace);
    if (!status) ls_placement_name_tracks(strategy);
    return status ? status : ls_trace_add_track(strategy->trace, "communicator", &strategy->communicator_track);
}

static ls_status build_strategy(ls_strategy *strategy, const ls_strategy_options *options) {
    ls_status status = ls_options_copy("ls_strategy_options", &strategy->options, sizeof(strategy->options), options);
    if (!status) status = check_strategy_options(strategy->kind, &strategy->options);
    if (!status && strategy->options.shard && !strategy->options.shard_copies)
        strategy->options.shard_copies = LS_SHARD_COPIES;
    if (!status && strategy->options.shard) strategy->way = LS_WAY_SHARDED;
    if (!status && strategy->options.stages > 1) strategy->way = LS_WAY_STAGES;
    if (!status) status = check_local_options(&strategy->local, &strategy->options);
    if (!status && ls_strategy_is_async(strategy)) status = check_async_options(&strategy->options);
    enum ls_runtime_use use = strategy->kind->stored ? LS_RUNTIME_STORES : LS_RUNTIME_TRAINS;
    if (strategy->servers.hybrid) use = LS_RUNTIME_HYBRID;
    if (ls_strategy_is_async(strategy)) use = LS_RUNTIME_GOES_ON;
    if (!status) status = ls_runtime_new(&strategy->options, strategy->kind->reads_cluster, use, &strategy->runtime);
    if (!status && strategy->runtime->serves) strategy->options.devices = "cpu:0"; /* it computes nothing */
    if (!status) ls_elastic_state_enlist(strategy);
    if (!status) status = ls_placement_open(strategy);
    if (!status && strategy->kind->check_devices) status = strategy->kind->check_devices(strategy);
    if (!status) status = check_sharding_devices(strategy);
    if (!status) status = ls_stages_check_workers(strategy, strategy->kind->name);
    if (status) return status;
    status = ls_strategy_introduce(strategy);
    if (status && !ls_strategy_recover(strategy, &status)) return status; /* which introduces it anew */
    /* Waiting threads may spin only if every replica of this host still has a core. */
    strategy->spins = ls_gate_spins(strategy->runtime->local_size * strategy->local_count);
    if (!strategy->runtime->serves) announce(strategy);
    if (!strategy->runtime->serves) announce_compression(strategy);
    if (!strategy->runtime->serves) announce_meetings(strategy);
    if (!strategy->runtime->serves) announce_bounds(strategy);
    if (!strategy->runtime->serves) announce_delay(strategy);
    if (!strategy->runtime->serves) announce_sharding(strategy);
    if (strategy->way == LS_WAY_STAGES) ls_stages_announce(strategy);
    status = start_trace(strategy);
    return status ? status : ls_replicas_start(strategy);
}

/* like: what the kind's own options say. */
static ls_status strategy_with(const struct ls_strategy_kind *kind, const ls_strategy_options *options,
                               const struct ls_strategy *like, ls_strategy **strategy) {
    LS_NEW(ls_strategy, made, "a strategy");
    *made = *like;
    made->kind = kind;
    ls_status status = build_strategy(made, options);
    if (status) return ls_strategy_close(made, status);
    *strategy = made;
    return LS_OK;
}

static ls_status strategy_new(const struct ls_strategy_kind *kind, const ls_strategy_options *options,
                              ls_strategy **strategy) {
    return strategy_with(kind, options, &(struct ls_strategy){0}, strategy);
}

ls_status ls_multi_worker_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy) {
    LS_NEED(strategy);
    return strategy_new(&multi_worker_mirrored, options, strategy);
}

ls_status ls_mirrored_strategy_new(const ls_strategy_options *options, ls_strategy **strategy) {
    LS_NEED(strategy);
    return strategy_new(&mirrored, options, strategy);
}

ls_status ls_one_device_strategy_new(const char *device, ls_strategy **strategy) {
    LS_NEED(strategy);
    return strategy_new(&one_device, LS_STRATEGY(.devices = device ? device : "cpu:0"), strategy);
}

ls_status ls_central_storage_strategy_new(const ls_strategy_options *options, const ls_central_storage_options *central,
                                          ls_strategy **strategy) {
    ls_central_storage_options own;
    LS_NEED(strategy);
    ls_status status = ls_options_copy("ls_central_storage_options", &own, sizeof(own), central);
    if (status) return status;
    if (own.parameter_device && !ls_plain_same(own.parameter_device, "cpu:0"))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "CentralStorageStrategy: parameter_device '%.80s' is not CPU:0, where all replicas read the "
                       "parameters; leave it out",
                       own.parameter_device);
    return strategy_new(&central_storage, options, strategy);
}

static ls_status check_servers(const ls_parameter_server_options *servers) {
    if (servers->replicas < 0 || servers->replicas > MOST_COPIES)
        return ls_fail(LS_INVALID_ARGUMENT, "ParameterServerStrategy: replicas %d is not in 1 .. %d", servers->replicas,
                       MOST_COPIES);
    ls_status status = ls_option_names_check_consistency(servers->consistency);
    if (status) return ls_fail_context(status, "ParameterServerStrategy");
    if (servers->delay < 0 || servers->delay > MOST_DELAY)
        return ls_fail(LS_INVALID_ARGUMENT, "ParameterServerStrategy: delay %d is not in 0 .. %d", servers->delay,
                       MOST_DELAY);
    if (servers->delay && servers->consistency != LS_DELAYED)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: delay %d goes with consistency LS_DELAYED, and it is %s",
                       servers->delay, ls_option_names_consistency(servers->consistency));
    if (servers->staleness < 0 || servers->max_staleness < 0)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: staleness %d, max_staleness %d must not be negative",
                       servers->staleness, servers->max_staleness);
    if ((unsigned)servers->on_stale > LS_STALE_DROP)
        return ls_fail(LS_INVALID_ARGUMENT, "ParameterServerStrategy: on_stale %d is no ls_on_stale",
                       servers->on_stale);
    if ((servers->staleness || servers->on_stale) && servers->consistency != LS_ASYNC)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: staleness and on_stale go with consistency LS_ASYNC, and it is %s",
                       ls_option_names_consistency(servers->consistency));
    if ((unsigned)servers->sparse > LS_SPARSE_NEVER)
        return ls_fail(LS_INVALID_ARGUMENT, "ParameterServerStrategy: sparse %d is no ls_sparse_tables",
                       (int)servers->sparse);
    if (servers->hybrid && servers->consistency != LS_SYNC)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: hybrid goes with consistency LS_SYNC, and it is %s",
                       ls_option_names_consistency(servers->consistency));
    if (servers->sparse == LS_SPARSE_ALWAYS && (servers->consistency == LS_ASYNC || servers->delay))
        return ls_fail(LS_UNIMPLEMENTED,
                       "ParameterServerStrategy: rows of tables move in step: take consistency LS_SYNC in place of %s, "
                       "or leave LS_SPARSE_ALWAYS out",
                       ls_option_names_consistency(servers->consistency));
    if ((servers->max_staleness > 0) != (servers->on_stale == LS_STALE_DROP))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: max_staleness %d %s LS_STALE_DROP, which drops what is older",
                       servers->max_staleness, servers->max_staleness ? "goes with" : "is needed by");
    return LS_OK;
}

ls_status ls_parameter_server_strategy_new(const ls_strategy_options *options,
                                           const ls_parameter_server_options *servers, ls_strategy **strategy) {
    ls_parameter_server_options own;
    LS_NEED(strategy);
    ls_status status = ls_options_copy("ls_parameter_server_options", &own, sizeof(own), servers);
    if (!status) status = check_servers(&own);
    if (status) return status;
    enum ls_way way = own.hybrid                    ? LS_WAY_MIRRORED
                      : own.consistency == LS_ASYNC ? LS_WAY_ASYNC
                      : own.delay                   ? LS_WAY_DELAYED
                                                    : LS_WAY_SERVERS;
    bool in_step = way == LS_WAY_MIRRORED || way == LS_WAY_SERVERS;
    const struct ls_strategy like = {.way = way,
                                     .copies_on_servers = own.replicas ? own.replicas : 1,
                                     .delay = own.delay,
                                     .servers = own,
                                     .sparse = in_step ? own.sparse : LS_SPARSE_NEVER};
    return strategy_with(&parameter_server, options, &like, strategy);
}

static ls_status check_fragments(const ls_local_sgd_options *local) {
    int count = local->fragments ? local->fragments : 1;
    if (count < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: fragments %d must be at least 1", local->fragments);
    if (local->sync_every % count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "LocalSGDStrategy: sync_every %d is no multiple of fragments %d, one of which meets each "
                       "sync_every / fragments steps; take sync_every %lld",
                       local->sync_every, count, ((long long)local->sync_every / count + 1) * count);
    if (local->fragment_delay < 0 || local->fragment_delay >= local->sync_every / count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "LocalSGDStrategy: fragment_delay %d is not in 0 .. %d: a fragment is used before the next one "
                       "meets, each %d steps",
                       local->fragment_delay, local->sync_every / count - 1, local->sync_every / count);
    if (!(local->fragment_alpha >= 0) || !(local->fragment_alpha <= 1))
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: fragment_alpha %g is not in [0, 1]",
                       (double)local->fragment_alpha);
    return LS_OK;
}

static ls_status check_local_sgd(const ls_local_sgd_options *local) {
    if (local->sync_every < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: sync_every %d must be at least 1", local->sync_every);
    if (!(local->outer_learning_rate >= 0) || !isfinite(local->outer_learning_rate))
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: outer_learning_rate %g must not be negative",
                       (double)local->outer_learning_rate);
    if (!(local->outer_momentum >= 0) || !(local->outer_momentum < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: outer_momentum %g is not in [0, 1)",
                       (double)local->outer_momentum);
    if (local->outer_momentum > 0 && !(local->outer_learning_rate > 0))
        return ls_fail(LS_INVALID_ARGUMENT, "LocalSGDStrategy: outer_momentum %g needs an outer_learning_rate",
                       (double)local->outer_momentum);
    return check_fragments(local);
}

ls_status ls_local_sgd_strategy_new(const ls_strategy_options *options, const ls_local_sgd_options *local,
                                    ls_strategy **strategy) {
    ls_local_sgd_options own;
    LS_NEED(local, strategy);
    ls_status status = ls_options_copy("ls_local_sgd_options", &own, sizeof(own), local);
    if (!status) status = check_local_sgd(&own);
    return status
               ? status
               : strategy_with(&local_sgd, options, &(struct ls_strategy){.way = LS_WAY_LOCAL, .local = own}, strategy);
}

/* All workers come here with the same state. A worker that was lost before is waited for. */
static ls_status pass_exit(ls_strategy *strategy) {
    struct ls_cluster *cluster = strategy->runtime->cluster;
    ls_status status;
    if (!cluster || !strategy->runtime->holds) return LS_OK;
    ls_reached("exit");
    do status = ls_leave_pass_exit(cluster);
    while (status && !ls_leave_is_over(cluster) && ls_strategy_recover(strategy, &status));
    return ls_leave_is_over(cluster) ? LS_OK : status;
}

ls_status ls_strategy_close(ls_strategy *strategy, ls_status status) {
    if (!strategy) return status;
    ls_replicas_stop(strategy);
    if (!status) status = pass_exit(strategy);
    ls_stages_dismiss(strategy);
    status = ls_runtime_close(strategy->runtime, status);
    status = ls_runtime_trace_close(strategy->trace, status);
    ls_participants_close(strategy);
    for (int i = 0; i < strategy->local_count; i++) ls_device_close(strategy->replicas[i].device);
    ls_free(strategy->replicas);
    ls_free(strategy->meeting.calls);
    ls_free(strategy->first);
    ls_free(strategy->task_devices);
    ls_free(strategy);
    return status;
}

ls_status ls_strategy_abort(ls_strategy *strategy, const char *reason) {
    LS_NEED(strategy, reason);
    ls_runtime_abort(strategy->runtime, reason);
    return LS_OK;
}

void ls_strategy_free(ls_strategy *strategy) {
    (void)ls_strategy_close(strategy, LS_OK);
}

bool ls_strategy_is_central(const ls_strategy *strategy) {
    return strategy->kind->central;
}

int ls_strategy_first_of_device(const ls_strategy *strategy, int local) {
    return local % strategy->device_count;
}

int ls_strategy_holder(const ls_strategy *strategy, int local) {
    return ls_strategy_is_central(strategy) ? 0 : ls_strategy_first_of_device(strategy, local);
}

int ls_num_replicas_in_sync(const ls_strategy *strategy) {
    LS_NEED_OR(0, strategy);
    if (strategy->way == LS_WAY_STAGES) return ls_stages_replicas(strategy);
    return ls_strategy_is_async(strategy) ? strategy->local_count : strategy->base_count;
}

int ls_num_replicas_present(const ls_strategy *strategy) {
    LS_NEED_OR(0, strategy);
    return strategy->total_count;
}

int ls_num_workers(const ls_strategy *strategy) {
    LS_NEED_OR(0, strategy);
    return strategy->runtime->size;
}

int ls_num_local_replicas(const ls_strategy *strategy) {
    LS_NEED_OR(0, strategy);
    return strategy->local_count;
}

int ls_worker_rank(const ls_strategy *strategy) {
    LS_NEED_OR(0, strategy);
    return strategy->runtime->rank;
}

bool ls_is_parameter_server(const ls_strategy *strategy) {
    LS_NEED_OR(false, strategy);
    return strategy->runtime->serves;
}

ls_status ls_strategy_serve(ls_strategy *strategy) {
    LS_NEED(strategy);
    if (strategy->runtime->serves) return ls_runtime_serve(strategy->runtime);
    return ls_fail(LS_FAILED_PRECONDITION,
                   "ls_strategy_serve: this is no ps task of TF_CONFIG: call fit, or give it the type ps");
}

bool ls_is_chief(const ls_strategy *strategy) {
    LS_NEED_OR(false, strategy);
    const struct ls_runtime *runtime = strategy->runtime;
    return runtime->cluster || !runtime->config ? runtime->rank == 0 : runtime->config->is_chief;
}
