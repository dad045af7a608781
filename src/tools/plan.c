/* lockstep plan: one worker's model is built here as a real worker builds it, and the rest follows from the cluster's
 * numbers by the functions that place and move the bytes in training. */
#include "tools/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/text.h"
#include "collective/schedule/schedules.h"
#include "data/pipeline.h"
#include "resolver/resolver.h"
#include "strategy/iterator.h"
#include "train/bind.h"
#include "train/callback_list.h"
#include "train/input.h"
#include "train/fit.h"
#include "train/model_build.h"
#include "train/step.h"
#include "train/sparse.h"
#include "train/stored.h"

#define MOST_TASKS 1024

/* ---- who ---- */

static ls_status find_tasks(struct ls_tools_planning *planning) {
    const ls_tools_plan_options *options = planning->options;
    planning->workers = options->workers;
    planning->servers = options->servers;
    if (options->workers) return LS_OK;
    ls_status status = ls_resolver_read(NULL, &planning->cluster, NULL);
    if (status) return status;
    const struct ls_cluster_view *cluster = planning->cluster;
    planning->workers = ls_cluster_view_count(cluster, LS_TASK_CHIEF) + ls_cluster_view_count(cluster, LS_TASK_WORKER);
    planning->servers = ls_cluster_view_count(cluster, LS_TASK_PS);
    if (!planning->workers) planning->workers = 1; /* alone */
    return LS_OK;
}

static ls_status check_tasks(const struct ls_tools_planning *planning) {
    if (planning->workers > MOST_TASKS || planning->servers > MOST_TASKS - planning->workers)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%d workers and %d parameter servers are more tasks than %d, which a plan may have",
                       planning->workers, planning->servers, MOST_TASKS);
    if (planning->serves && !planning->servers)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: there is no ps task: give --ps K, or cluster.ps in TF_CONFIG");
    if (planning->serves && planning->strategy_options.communication != LS_AUTO)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "ParameterServerStrategy: gradients go to servers, and communication must be AUTO");
    return LS_OK;
}

static ls_status check_options(const ls_tools_plan_options *options) {
    if (!options->kind) return ls_fail(LS_INVALID_ARGUMENT, "a plan has no kind of strategy");
    if (options->workers < 0 || options->servers < 0 || options->copies < 0 || options->batch < 0 ||
        options->measure < 0 || options->memory_limit < 0 || !(options->bits >= 0) || !isfinite(options->bits))
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "a plan's workers %d, servers %d, copies %d, batch %lld, measure %d, memory_limit %lld and bits %g may not "
            "be negative",
            options->workers, options->servers, options->copies, (long long)options->batch, options->measure,
            (long long)options->memory_limit, options->bits);
    return LS_OK;
}

static bool is(const ls_tools_plan_options *options, const char *kind) {
    return !strcmp(options->kind, kind);
}

static void ignore(void *context, ls_log_level level, const char *line) {
    (void)context, (void)level, (void)line;
}

/* Of one process. Replicas of a worker whose variables are on servers share them as those of CentralStorageStrategy. */
static ls_status open_alone(struct ls_tools_planning *planning) {
    const ls_tools_plan_options *options = planning->options;
    ls_strategy_options own = planning->strategy_options;
    bool shares = planning->stores || is(options, "central-storage");
    own.tf_config = "{}";
    if (planning->divides) own.shard = LS_SHARDING_NONE;
    if (planning->divides) own.shard_copies = 0;
    own.log = ignore;
    own.request = NULL;
    if (planning->serves || own.communication == LS_NCCL) own.communication = LS_AUTO;
    if (planning->meets) return ls_local_sgd_strategy_new(&own, options->local, &planning->strategy);
    if (shares) return ls_central_storage_strategy_new(&own, NULL, &planning->strategy);
    if (is(options, "one-device")) return ls_one_device_strategy_new(own.devices, &planning->strategy);
    return ls_mirrored_strategy_new(&own, &planning->strategy);
}

/* The first worker has the most replicas: they are dealt as ls_placement_number deals them. */
static ls_status open_first(struct ls_tools_planning *planning) {
    int *wanted = &planning->strategy_options.replicas, all = *wanted;
    *wanted = 0;
    ls_status status = open_alone(planning);
    if (status) return status;
    int devices = planning->workers * planning->strategy->device_count;
    planning->total = all ? all : devices;
    if (planning->total < devices)
        return ls_fail(LS_INVALID_ARGUMENT, "replicas %d: the workers have %d devices, and each needs one", all,
                       devices);
    if (planning->total == devices) return LS_OK;
    *wanted = (int)ls_block_start((size_t)all, devices, planning->strategy->device_count);
    ls_strategy_free(ls_steal(planning->strategy));
    return open_alone(planning);
}

static ls_status place_replicas(struct ls_tools_planning *planning) {
    int ranks = planning->workers + planning->servers, devices = planning->strategy->device_count;
    planning->first = ls_alloc_array((size_t)ranks + 1, sizeof(*planning->first));
    if (!planning->first) return ls_fail_memory("a plan", (size_t)ranks * sizeof(*planning->first));
    for (int r = 1; r <= ranks; r++)
        planning->first[r] = r > planning->workers ? planning->total
                                                   : (int)ls_block_start((size_t)planning->total,
                                                                         planning->workers * devices, r * devices);
    planning->batch = planning->options->batch ? planning->options->batch : 64 * (int64_t)planning->total;
    return LS_OK;
}

/* ---- what ---- */

static ls_status make_model(struct ls_tools_planning *planning, int64_t rows, ls_tools_plan_fn *make, void *context) {
    ls_model_free(ls_steal(planning->model));
    ls_dataset_free(ls_steal(planning->data));
    ls_error_forget();
    ls_status status = make(context, planning->strategy, rows, &planning->data, &planning->model);
    if (status) return ls_fail_from_user(status, "the function that makes a plan's model");
    if (!planning->data || !planning->model)
        return ls_fail(LS_INVALID_ARGUMENT, "the function that makes a plan's model made none");
    return LS_OK;
}

/* The first epoch's first step is not timed. A sparse table is dense here, for there is no server. */
static ls_status measure_steps(struct ls_tools_planning *planning, int64_t rows) {
    ls_status status = ls_model_fit(planning->model, planning->data,
                                    LS_FIT(.epochs = 2, .steps_per_epoch = planning->options->measure, .verbose = -1),
                                    &planning->worker.memory);
    if (!status && planning->worker.memory.samples_per_second > 0)
        planning->worker.compute = (double)rows / planning->worker.memory.samples_per_second;
    return status;
}

static ls_status make_and_measure(struct ls_tools_planning *planning, ls_tools_plan_fn *make, void *context) {
    const ls_tools_plan_options *options = planning->options;
    int64_t rows = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < ls_plan_share_replicas(planning, 0); i++) rows += ls_plan_share_rows(planning, i);
    if (options->measure) status = make_model(planning, rows, make, context);
    if (options->measure && !status) status = measure_steps(planning, rows);
    if (planning->serves) {
        planning->strategy->planned = (struct ls_planned){planning->workers, planning->servers, planning->batch};
        planning->strategy->sparse = options->sparse;
        planning->strategy->servers.hybrid = options->hybrid;
    }
    if (!status) status = make_model(planning, rows, make, context);
    return status ? status : ls_iterator_open_pipeline(planning->strategy, planning->data, NULL, &planning->pipeline);
}

/* In the replica's own thread, whose number of threads decides what ops need beside. */
static ls_status lay_out_layers(ls_replica *replica, void *context) {
    struct ls_tools_planning *planning = context;
    int64_t rows = ls_pipeline_max_rows(planning->pipeline);
    struct ls_plan *plan;
    ls_turn_begin(planning->model, replica->local_id);
    ls_status status = ls_plan_slots_find(planning->model, replica->local_id, rows, true, &plan);
    status = ls_turn_end(planning->model, replica->local_id, status);
    if (status || replica->local_id) return status;
    planning->worker.workspace = plan->workspace;
    for (int r = LS_RECOMPUTE_NONE; !status && r <= LS_RECOMPUTE_BLOCKS; r++)
        status = ls_plan_slots_cost(planning->model, 0, rows, (ls_recompute)r, &planning->worker.costs[r]);
    return status;
}

/* As a fit does it before its first step. */
static ls_status build_model(struct ls_tools_planning *planning) {
    ls_model *model = planning->model;
    ls_status status = ls_model_build(model, planning->data, planning->pipeline, NULL);
    if (!status) status = ls_bind_attach(model);
    if (status) return status;
    ls_input_use_pipeline(model, planning->pipeline);
    status = ls_strategy_run(planning->strategy, lay_out_layers, planning);
    ls_input_use_pipeline(model, NULL);
    if (!status) ls_memory_report_fill(model, &planning->worker.memory);
    return status;
}

static ls_status tell_callbacks(const struct ls_tools_planning *planning) {
    const ls_tools_plan_options *options = planning->options;
    struct ls_callback_list *callbacks;
    ls_status status = ls_callback_list_new(planning->model, options->callbacks, options->validates, &callbacks);
    if (!status) status = ls_callback_list_build(callbacks);
    ls_callback_list_free(callbacks);
    return status;
}

static ls_status divide_over_servers(struct ls_tools_planning *planning) {
    size_t count = planning->model->bound.bucket_count;
    planning->keeps = planning->stores || ls_sparse_has(planning->model);
    if (!planning->keeps) return LS_OK;
    planning->ranges = ls_alloc_array(count, sizeof(*planning->ranges));
    if (!planning->ranges) return ls_fail_memory("buckets", count * sizeof(*planning->ranges));
    ls_status status = ls_sparse_terms(planning->model, &planning->tables);
    if (status) return status;
    planning->terms = ls_stored_terms(planning->model, planning->copies, planning->ranges);
    planning->terms.tables = planning->tables;
    planning->terms.table_count = (size_t)ls_network_table_count(planning->model->built.network);
    return LS_OK;
}

static void close_planning(struct ls_tools_planning *planning) {
    ls_pipeline_free(planning->pipeline);
    ls_model_free(planning->model);
    ls_dataset_free(planning->data);
    ls_strategy_free(planning->strategy);
    ls_cluster_view_free(planning->cluster);
    ls_free(planning->tables);
    ls_free(planning->ranges);
    ls_free(planning->first);
    ls_free(planning->beside);
    ls_free(planning->candidates);
}

ls_status ls_tools_plan(const ls_tools_plan_options *options, ls_tools_plan_fn *make, void *context, char **text) {
    LS_NEED(options, make, text);
    ls_status status = check_options(options);
    if (status) return status;
    bool alone = is(options, "mirrored") || is(options, "central-storage") || is(options, "one-device");
    LS_CLEANUP(close_planning)
    struct ls_tools_planning planning = {.options = options,
                                         .serves = is(options, "parameter-server"),
                                         .stores = is(options, "parameter-server") && !options->hybrid,
                                         .meets = is(options, "local-sgd"),
                                         .copies = options->copies ? options->copies : 1,
                                         .workers = 1};
    status = ls_options_copy("ls_strategy_options", &planning.strategy_options, sizeof(planning.strategy_options),
                             options->strategy);
    if (!status && planning.strategy_options.stages > 1)
        status =
            ls_fail(LS_UNIMPLEMENTED, "plan: stages %d: a plan knows workers that have all layers; leave stages out",
                    planning.strategy_options.stages);
    planning.divides = !status && is(options, "multi-worker") && planning.strategy_options.shard;
    if (planning.divides && !planning.strategy_options.shard_copies)
        planning.strategy_options.shard_copies = LS_SHARD_COPIES;
    if (!status && !alone) status = find_tasks(&planning);
    if (!status) status = check_tasks(&planning);
    if (!status) status = open_first(&planning);
    if (!status) status = place_replicas(&planning);
    if (!status) status = make_and_measure(&planning, make, context);
    if (!status) status = build_model(&planning);
    if (!status) status = tell_callbacks(&planning);
    if (!status) status = divide_over_servers(&planning);
    if (!status) status = ls_plan_memory_count(&planning);
    if (!status) status = ls_plan_wire_count(&planning);
    if (!status && options->memory_limit) status = ls_plan_fit(&planning);
    return status ? status : LS_TEXT(out, ls_plan_print(&planning, out), "a plan", text);
}
