/* What a model trains with in one generation of the group: gradients, in memory that the workers share where they can,
 * the optimizer that reads them, and the reducer. All of it goes when the generation does. */
#include <string.h>

#include "base/memory.h"
#include "strategy/model.h"

static bool is_far(const struct ls_model_replica *replica) {
    return !replica->device->host_memory;
}

static bool any_far(const ls_model *model) {
    bool far = false;
    for (int i = 0; i < model->replica_count; i++) far = far || is_far(&model->replicas[i]);
    return far;
}

/* From one replica's blob to the next. */
static size_t stride_of(const ls_model *model) {
    size_t line = LS_ALIGNMENT / sizeof(float);
    return (model->blob_count + LS_EXTRAS + line - 1) / line * line;
}

static bool adds_in_node(const ls_model *model) {
    return !model->nccl && model->strategy->node_replicas > 1;
}

/* Blobs side by side: one a replica, or one a sum of the node. */
static size_t shared_size(const ls_model *model) {
    int count = adds_in_node(model) ? ls_node_sums(model->strategy) : model->replica_count;
    return (size_t)count * stride_of(model) * sizeof(float);
}

/* The replicas' gradients lie there, or pass through. */
static void place_gradients(ls_model *model, float *memory, bool staging_only) {
    int replicas = adds_in_node(model) ? model->strategy->node_replicas : 1; /* of one blob */
    for (int i = 0; i < model->replica_count; i++) {
        struct ls_model_replica *replica = &model->replicas[i];
        float *place = memory + (size_t)(i / replicas) * stride_of(model);
        if (is_far(replica))
            replica->staging = place;
        else if (!staging_only)
            replica->gradients = place;
    }
}

/* Memory that the other workers may map, so that gradients can be added in place. */
static ls_status share_with_workers(ls_model *model) {
    size_t size = shared_size(model);
    ls_status status = ls_group_share(model->strategy->membership->group, size, &model->shared);
    if (!status && any_far(model)) {
        status = model->host->ops->queue->pin(model->host, model->shared, size);
        model->pinned = !status;
    }
    if (!status) place_gradients(model, model->shared, false);
    return status;
}

/* One worker's replicas need memory in common only where they can not read each other's. */
static ls_status share_in_worker(ls_model *model) {
    if (model->replica_count == 1 || !any_far(model) || adds_in_node(model)) return LS_OK;
    ls_status status = ls_device_allocate_host(model->host, shared_size(model), &model->staging);
    if (!status) place_gradients(model, model->staging, true);
    return status;
}

static ls_status share_gradients(ls_model *model) {
    if (model->nccl) return LS_OK;
    return model->strategy->membership->size > 1 ? share_with_workers(model) : share_in_worker(model);
}

static ls_status allocate_gradients(const ls_model *model, struct ls_model_replica *replica) {
    void *memory = NULL;
    if (replica->gradients) return LS_OK;
    ls_status status =
        replica->device->ops->allocate(replica->device, (model->blob_count + LS_EXTRAS) * sizeof(float), &memory);
    if (!status) replica->gradients = memory;
    return status;
}

/* The blob's part that is moved and not trained: what the step's sum has for it is added. */
static ls_status build_statistics(const ls_model *model, struct ls_model_replica *replica) {
    size_t begin = ls_network_trainable_count(model->network), count = model->blob_count - begin;
    const ls_shape shape = LS_SHAPE((int64_t)count);
    struct ls_op op = {.kind = LS_OP_ADD};
    if (!count) return LS_OK;
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] = (struct ls_tensor){replica->parameters + begin, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_W] = (struct ls_tensor){replica->gradients + begin, LS_FLOAT32, shape, 0};
    ls_status status = replica->device->ops->build(replica->device, &op);
    replica->statistics = op;
    replica->statistics_built = !status;
    return status;
}

/* What a step tells beside its gradients, behind them. */
static ls_status build_report(const ls_model *model, struct ls_model_replica *replica) {
    const struct ls_replica_numbers *numbers = replica->numbers;
    struct ls_op op = {.kind = LS_OP_REPORT,
                       .sums = &replica->numbers->sums,
                       .gathered = &numbers->gathered,
                       .report = numbers->report};
    op.tensors[LS_ARG_Y] =
        (struct ls_tensor){replica->gradients + model->blob_count, LS_FLOAT32, LS_SHAPE(LS_EXTRAS), 0};
    ls_status status = replica->device->ops->build(replica->device, &op);
    replica->report = op;
    replica->report_built = !status;
    return status;
}

static ls_status attach_replica(ls_model *model, struct ls_model_replica *replica) {
    ls_status status = allocate_gradients(model, replica);
    struct ls_optimizer_blobs blobs = {.count = ls_network_trainable_count(model->network),
                                       .parameters = replica->parameters,
                                       .gradients = replica->gradients,
                                       .parts = model->parts,
                                       .part_count = model->part_count};
    memcpy(blobs.moments, replica->moments, sizeof(blobs.moments));
    if (!status) status = ls_optimizer_build(replica->device, &model->numbers->step, &blobs, &replica->optimizer);
    replica->optimizer_built = !status;
    if (!status) status = build_report(model, replica);
    if (!status) status = ls_gather_build(model, replica);
    if (!status) status = ls_scaling_build(model, replica);
    return status ? status : build_statistics(model, replica);
}

static ls_status cut_buckets(ls_model *model) {
    const struct ls_settings *settings = &model->strategy->membership->settings;
    const struct ls_bucket_rule rule = {
        .bytes_per_pack = model->strategy->options.bytes_per_pack,
        .first_bytes = (size_t)settings->first_bucket,
        .bytes = (size_t)settings->bucket,
    };
    size_t count = (size_t)ls_network_variable_count(model->network);
    LS_CLEANUP(ls_free_pointer) size_t *offsets = ls_alloc_array(count, sizeof(*offsets));
    if (!offsets) return ls_fail_memory("offsets", count * sizeof(*offsets));
    for (size_t i = 0; i < count; i++) offsets[i] = ls_network_variable(model->network, (int)i)->offset;
    return ls_buckets_cut(&rule, offsets, count, model->blob_count + LS_EXTRAS, &model->buckets, &model->bucket_count);
}

static ls_status make_node(ls_model *model, float **sums) {
    float *gradients[LS_MAX_LOCAL_DEVICES];
    bool alone = model->strategy->membership->size == 1;
    for (int i = 0; i < model->replica_count; i++) gradients[i] = model->replicas[i].gradients;
    for (int g = 0; g < ls_node_sums(model->strategy); g++)
        sums[g] = model->replicas[g * model->strategy->node_replicas].staging;
    const struct ls_node_config config = {gradients, alone ? NULL : sums, model->buckets, model->bucket_count};
    return ls_node_new(model->strategy, &config, &model->node);
}

static ls_status make_reducer(ls_model *model) {
    float *sums[LS_MAX_LOCAL_DEVICES];
    struct ls_route routes[LS_MAX_LOCAL_DEVICES];
    if (!ls_model_is_reduced(model)) return LS_OK;
    ls_status status = adds_in_node(model) ? make_node(model, sums) : LS_OK;
    if (status) return status;
    for (int i = 0; i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->replicas[i];
        routes[i] = (struct ls_route){replica->device, replica->gradients,
                                      replica->staging ? replica->staging : replica->gradients};
    }
    const struct ls_reducer_config config = {.routes = routes,
                                             .nccl = model->nccl,
                                             .node = model->node,
                                             .sums = sums,
                                             .buckets = model->buckets,
                                             .count = model->bucket_count,
                                             .compressible = ls_network_trainable_count(model->network)};
    return ls_reducer_new(model->strategy, &config, &model->reducer);
}

/* What has given a step up is made anew. */
static bool is_attached(const ls_model *model) {
    bool given_up = model->reducer && ls_reducer_has_failed(model->reducer);
    return model->attached && !given_up && !(model->nccl && ls_nccl_is_aborted(model->nccl));
}

/* Another one adds in another order, or NCCL of another version may. */
static void note_adder(ls_model *model) {
    char before[LS_ADDER_TEXT];
    (void)memcpy(before, model->adder, sizeof(before));
    model->adder[0] = '\0';
    if (model->strategy->total_count > 1 && any_far(model)) ls_nccl_describe(model->nccl, model->adder);
    if (*before && *model->adder && strcmp(before, model->adder) != 0)
        ls_log_warning(&model->strategy->membership->log,
                       "gradients are added otherwise than in the generation before ('%s' then, '%s' now): the bits "
                       "may be others than without an interruption",
                       before, model->adder);
}

ls_status ls_model_attach(ls_model *model) {
    if (is_attached(model)) return LS_OK;
    if (model->attached) ls_model_detach(model);
    ls_status status = ls_nccl_open(model->strategy, &model->nccl);
    if (!status) note_adder(model);
    if (!status) status = cut_buckets(model);
    if (!status) status = share_gradients(model);
    for (int i = 0; !status && i < model->strategy->local_count; i++)
        status = attach_replica(model, &model->replicas[i]);
    if (!status) status = make_reducer(model);
    ls_model_exchange_attach(model);
    model->attached = !status;
    if (status) ls_model_detach(model);
    return status;
}

void ls_model_drop_plans(struct ls_model_replica *replica) {
    for (size_t i = 0; i < LS_PLANS_KEPT; i++) ls_plan_free(replica->plans[i].plan);
    memset(replica->plans, 0, sizeof(replica->plans));
}

/* Gradients in shared memory are released with it. used: a device that was left behind with them may still do so. */
static void detach_replica(struct ls_model_replica *replica, bool shared, bool used) {
    struct ls_device *device = replica->device;
    ls_model_drop_plans(replica); /* they point to the gradients */
    if (replica->optimizer_built) device->ops->discard(device, &replica->optimizer);
    if (replica->report_built) device->ops->discard(device, &replica->report);
    if (replica->statistics_built) device->ops->discard(device, &replica->statistics);
    ls_gather_release(replica);
    ls_scaling_release(replica);
    if (replica->gradients && !used && !(shared && device->host_memory))
        device->ops->release(device, replica->gradients);
    replica->gradients = replica->staging = NULL;
    replica->optimizer_built = replica->report_built = replica->statistics_built = false;
}

static void release_shared(ls_model *model) {
    if (model->pinned) model->host->ops->queue->unpin(model->host, model->shared);
    if (model->shared) ls_group_unshare(model->strategy->membership->group, model->shared);
    if (model->staging) ls_device_release_host(model->host, model->staging);
    model->pinned = false;
    model->shared = model->staging = NULL;
}

/* First whoever still uses the gradients: the communicator, NCCL, what devices have queued. */
void ls_model_detach(ls_model *model) {
    bool shared = model->shared, used = false;
    ls_reducer_free(model->reducer);
    if (model->nccl) ls_nccl_abort(model->nccl);
    if (model->nccl) used = ls_nccl_is_left(model->nccl);
    for (int i = 0; model->replicas && i < model->replica_count; i++) ls_device_drain(model->replicas[i].device);
    ls_nccl_free(model->nccl);
    ls_node_free(model->node);
    for (int i = 0; model->replicas && i < model->replica_count; i++) detach_replica(&model->replicas[i], shared, used);
    release_shared(model);
    ls_inputs_forget(model);
    ls_free(model->buckets);
    model->reducer = NULL;
    model->nccl = NULL;
    model->node = NULL;
    model->buckets = NULL;
    model->attached = false;
}
