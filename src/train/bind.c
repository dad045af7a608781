/* Binds a built model to one generation of the group, and unbinds it before the generation ends. A generation owns the
 * parts of struct ls_model_bound. ls_bind_attach makes them in this order: nccl, if the GPUs add with NCCL; buckets,
 * ranges of the gradient blob that are reduced together; shared, memory in which the workers of a host add gradients in
 * place, or staging, host memory for gradients of devices without it; each replica's gradients and the ops of its
 * updates; node and reducer, which add the buckets. ls_bind_detach stops everything that may still use the gradients
 * (the reducer, NCCL, the devices' queues) before it releases them. A step that fails leaves the reducer failed; the
 * next ls_bind_attach makes all parts anew. */
#include "train/bind.h"

#include <string.h>

#include "base/new.h"
#include "gradients/intra_node.h"
#include "store/store.h"
#include "train/step.h"
#include "train/input.h"
#include "train/kept_gradients.h"
#include "train/model.h"
#include "train/shards.h"
#include "train/stages.h"
#include "train/sparse.h"
#include "train/stored.h"

static bool any_far(const ls_model *model) {
    bool far = false;
    for (int i = 0; i < model->built.replica_count; i++) far = far || !model->built.replicas[i].device->host_memory;
    return far;
}

/* Floats from one replica's blob to the next one. */
static size_t stride_of(const ls_model *model) {
    size_t line = (ls_kept_gradients_are(model) ? ls_kept_gradients_page(model) : LS_ALIGNMENT) / sizeof(float);
    return (model->built.summed_count + LS_EXTRAS + line - 1) / line * line;
}

static bool adds_in_node(const ls_model *model) {
    return !model->bound.nccl && model->strategy->node_replicas > 1;
}

/* Blobs side by side: one a replica, or one a sum of the node. */
static size_t shared_size(const ls_model *model) {
    int count = adds_in_node(model) ? ls_intra_node_sums(model->strategy) : model->built.replica_count;
    return (size_t)count * stride_of(model) * sizeof(float);
}

/* Places the replicas' gradients, or their staging, in memory. The blobs lie stride_of apart, each on its own cache
 * lines. Replicas of one group of the node share the blob of their sum: their gradients stay on the GPUs, and only the
 * sum comes to the host. */
static void place_gradients(ls_model *model, float *memory, bool staging_only) {
    int replicas = adds_in_node(model) ? model->strategy->node_replicas : 1; /* of one blob */
    for (int i = 0; i < model->built.replica_count; i++) {
        struct ls_model_replica *replica = &model->built.replicas[i];
        float *place = memory + (size_t)(i / replicas) * stride_of(model);
        if (!replica->device->host_memory)
            replica->staging = place;
        else if (!staging_only)
            replica->gradients = place;
    }
}

/* Memory that the other workers may map, so that gradients can be added in place. */
static ls_status share_with_workers(ls_model *model) {
    size_t size = shared_size(model);
    ls_status status = ls_group_share(model->strategy->runtime->group, size, &model->bound.shared);
    if (!status && any_far(model)) {
        status = model->built.host->ops->queue->pin(model->built.host, model->bound.shared, size);
        model->bound.pinned = !status;
    }
    if (!status) place_gradients(model, model->bound.shared, false);
    return status;
}

/* The replicas of a lone worker need shared host memory only if their devices have none. */
static ls_status share_in_worker(ls_model *model) {
    if (model->built.replica_count == 1 || !any_far(model) || adds_in_node(model)) return LS_OK;
    ls_status status = ls_device_allocate_host(model->built.host, shared_size(model), &model->bound.staging);
    if (!status) place_gradients(model, model->bound.staging, true);
    return status;
}

static ls_status divide_gradients(ls_model *model) {
    ls_status status = ls_kept_gradients_new(model, shared_size(model));
    if (!status) place_gradients(model, model->bound.kept.data, false);
    return status;
}

static ls_status share_gradients(ls_model *model) {
    if (model->bound.nccl) return LS_OK;
    if (ls_kept_gradients_are(model)) return divide_gradients(model);
    return ls_model_is_alone(model) ? share_in_worker(model) : share_with_workers(model);
}

/* The blob's part that is moved and not trained: what the step's sum has for it is added. The blob's sums behind the
 * trainable variables are the changes of moving statistics (layer_batch_norm.c), each replica's already multiplied by
 * its share of the batch. Adding them keeps the mirrored copies equal. */
static ls_status build_statistics(const ls_model *model, struct ls_model_replica *replica) {
    size_t begin = ls_network_trainable_count(model->built.network), count = model->built.summed_count - begin;
    const ls_shape shape = LS_SHAPE((int64_t)count);
    struct ls_op op = {.kind = LS_OP_ADD};
    if (!count || model->sync->leaves || model->sync->updates) return LS_OK;
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] = (struct ls_tensor){replica->parameters + begin, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_W] = (struct ls_tensor){replica->gradients + begin, LS_FLOAT32, shape, 0};
    return ls_update_add(replica, LS_UPDATE_STATISTICS, &op);
}

/* Builds the op that writes the step's report (LS_EXTRA_...) into the blob behind the gradients. A replica alone writes
 * it where the host reads it without a copy. */
static ls_status build_report(const ls_model *model, struct ls_model_replica *replica) {
    struct ls_replica_numbers *numbers = replica->numbers;
    bool alone = model->strategy->total_count == 1 && !ls_model_is_reduced(model);
    struct ls_op op = {
        .kind = LS_OP_REPORT, .sums = &numbers->sums, .gathered = &numbers->gathered, .report = numbers->report};
    replica->totals = alone ? numbers->totals : NULL;
    float *behind = replica->gradients + model->built.summed_count;
    op.tensors[LS_ARG_Y] = (struct ls_tensor){alone ? numbers->totals : behind, LS_FLOAT32, LS_SHAPE(LS_EXTRAS), 0};
    return ls_update_add(replica, LS_UPDATE_REPORT, &op);
}

/* The ops that change the variables. */
static ls_status attach_updates(ls_model *model, struct ls_model_replica *replica) {
    struct ls_update *optimizer = &replica->updates[LS_UPDATE_OPTIMIZER];
    struct ls_optimizer_blobs blobs = {.count = ls_network_trainable_count(model->built.network),
                                       .parameters = replica->parameters,
                                       .gradients = replica->gradients,
                                       .parts = model->built.parts,
                                       .part_count = model->built.part_count};
    memcpy(blobs.moments, replica->moments, sizeof(blobs.moments));
    ls_status status = LS_OK;
    bool own = !ls_stored_is(model) && !model->sync->updates;
    if (own) status = ls_optimizer_build(replica->device, &model->built.numbers->step, &blobs, &optimizer->op);
    optimizer->built = own && !status;
    ls_stored_build(model, &replica->updates[LS_UPDATE_STORED]);
    if (!status) status = ls_precision_scaling_build(model, replica);
    return status ? status : build_statistics(model, replica);
}

static ls_status attach_replica(ls_model *model, struct ls_model_replica *replica) {
    size_t count = model->built.summed_count + LS_EXTRAS;
    ls_status status =
        replica->gradients ? LS_OK : ls_device_allocate_floats(replica->device, count, &replica->gradients);
    if (!status) status = build_report(model, replica);
    if (!status) status = ls_accumulate_build(model, replica);
    return status || replica->shares ? status : attach_updates(model, replica);
}

static ls_status cut_buckets(ls_model *model) {
    const struct ls_settings *settings = &model->strategy->runtime->settings;
    size_t count = (size_t)ls_network_summed_variables(model->built.network);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, offsets, count, "offsets");
    for (size_t i = 0; i < count; i++) offsets[i] = ls_network_variable(model->built.network, (int)i)->offset;
    const struct ls_bucket_rule rule = {.bytes_per_pack = model->strategy->options.bytes_per_pack,
                                        .first_bytes = (size_t)settings->first_bucket,
                                        .bytes = (size_t)settings->bucket,
                                        .total = model->built.summed_count + LS_EXTRAS,
                                        .extras = LS_EXTRAS,
                                        .offsets = offsets,
                                        .count = count};
    return ls_buckets_cut(&rule, &model->bound.buckets, &model->bound.bucket_count);
}

/* adder: it becomes the node's, which adds for all where this worker is alone. */
static ls_status add_in_node(ls_model *model, struct ls_adder *adder) {
    struct ls_model_bound *bound = &model->bound;
    float *gradients[LS_MAX_LOCAL_DEVICES];
    adder->count = ls_model_is_alone(model) ? 0 : ls_intra_node_sums(model->strategy);
    for (int i = 0; i < adder->replicas; i++) gradients[i] = adder->routes[i].gradients;
    for (int g = 0; g < adder->count; g++) adder->arrays[g] = adder->routes[g * model->strategy->node_replicas].host;
    const struct ls_intra_node_config config = {gradients, adder->count ? adder->arrays : NULL, bound->buckets,
                                                bound->bucket_count};
    ls_status status = ls_intra_node_new(model->strategy, &config, &bound->node);
    if (status) return status;
    adder->ops = &ls_intra_node_adds;
    adder->by = bound->node;
    adder->first = ls_intra_node_first(bound->node);
    return LS_OK;
}

static struct ls_adder add_on_host(const ls_model *model) {
    struct ls_adder adder = {.ops = &ls_host_staging_adds,
                             .runtime = model->strategy->runtime,
                             .buckets = model->bound.buckets,
                             .replicas = model->strategy->local_count,
                             .count = model->strategy->local_count,
                             .first = model->strategy->first};
    for (int i = 0; i < adder.replicas; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        adder.arrays[i] = replica->staging ? replica->staging : replica->gradients;
        adder.routes[i] = (struct ls_host_staging){replica->device, replica->gradients, adder.arrays[i]};
    }
    return adder;
}

static ls_status choose_adder(ls_model *model) {
    struct ls_model_bound *bound = &model->bound;
    bound->adder = add_on_host(model);
    if (adds_in_node(model)) return add_in_node(model, &bound->adder);
    if (!bound->nccl) return LS_OK;
    bound->adder.ops = &ls_nccl_adds;
    bound->adder.by = bound->nccl;
    bound->adder.count = 0;
    return LS_OK;
}

static ls_status make_reducer(ls_model *model) {
    struct ls_model_bound *bound = &model->bound;
    struct ls_reducer_config config = {.adder = bound->adder,
                                       .store = ls_stored_is(model) ? bound->store : NULL,
                                       .buckets = bound->buckets,
                                       .count = bound->bucket_count,
                                       .compressible = ls_network_trainable_count(model->built.network)};
    if (!ls_model_is_reduced(model)) return LS_OK;
    ls_status status = model->sync->attach ? model->sync->attach(model, &config) : LS_OK;
    bound->goes_on = config.end != NULL;
    return status ? status : ls_reducer_new(model->strategy, &config, &bound->reducer);
}

/* False if the reducer or NCCL has given a step up: neither can be used again. Communicators that saw an error stay in
 * it: buckets of the failed step may be half added, on some workers only. The next attach is collective, so all workers
 * make new ones together. */
static bool is_attached(const ls_model *model) {
    const struct ls_model_bound *bound = &model->bound;
    bool given_up = bound->reducer && ls_reducer_has_failed(bound->reducer);
    return bound->attached && !given_up && !ls_stored_lacks(model) && !ls_shards_lack(model) &&
           !ls_nccl_is_aborted(bound->nccl);
}

/* Warns if the bits of sums may change: NCCL adds in another order than the host, and one version of NCCL may differ
 * from another. */
static void note_adder(ls_model *model) {
    char before[LS_ADDER_TEXT];
    (void)memcpy(before, model->built.adder, sizeof(before));
    model->built.adder[0] = '\0';
    if (model->strategy->total_count > 1 && any_far(model)) ls_nccl_describe(model->bound.nccl, model->built.adder);
    if (*before && *model->built.adder && strcmp(before, model->built.adder) != 0)
        ls_log_shared(&model->strategy->runtime->log, ls_runtime_speaks(model->strategy->runtime), LS_LOG_WARNING,
                      "gradients are added otherwise than in the generation before ('%s' then, '%s' now): the bits "
                      "may be others than without an interruption",
                      before, model->built.adder);
}

ls_status ls_bind_attach(ls_model *model) {
    if (is_attached(model)) return LS_OK;
    if (model->bound.attached) ls_bind_detach(model);
    ls_status status = ls_nccl_open(model->strategy, &model->bound.nccl);
    if (!status) note_adder(model);
    if (!status) status = cut_buckets(model);
    if (!status) status = share_gradients(model);
    if (!status) status = ls_stages_attach(model);
    for (int i = 0; !status && i < model->strategy->local_count; i++)
        status = attach_replica(model, &model->built.replicas[i]);
    if (!status) status = ls_stored_attach(model);
    if (!status) status = ls_shards_attach(model);
    if (!status) status = ls_stages_build(model);
    if (!status) status = choose_adder(model);
    if (!status) status = make_reducer(model);
    ls_step_exchange_attach(model);
    ls_sync_batch_norm_attach(model);
    ls_sparse_attach(model);
    model->bound.attached = !status;
    if (status) ls_bind_detach(model);
    return status;
}

/* Gradients in memory of all replicas are released with it. used: a device that was left behind with them may still do
 * so. */
static void detach_replica(struct ls_model_replica *replica, bool shared, bool used) {
    struct ls_device *device = replica->device;
    ls_plan_slots_drop(replica); /* they point to the gradients */
    ls_update_discard(replica, LS_UPDATE_PENALTY + 1);
    ls_accumulate_release(replica);
    replica->watched = false;
    if (replica->gradients && !used && !(shared && device->host_memory))
        device->ops->release(device, replica->gradients);
    replica->gradients = replica->staging = NULL;
}

static void release_shared(const ls_model *model) {
    const struct ls_model_bound *bound = &model->bound;
    if (bound->pinned) model->built.host->ops->queue->unpin(model->built.host, bound->shared);
    if (bound->shared) ls_group_unshare(model->strategy->runtime->group, bound->shared);
    if (bound->staging) ls_device_release_host(model->built.host, bound->staging);
}

/* Stops first everything that still uses the gradients: the reducer's thread, NCCL, the devices' queues. */
void ls_bind_detach(ls_model *model) {
    const struct ls_model_built *built = &model->built;
    const struct ls_model_bound *bound = &model->bound;
    ls_reducer_free(bound->reducer);
    if (model->sync->detach) model->sync->detach(model);
    ls_store_free(bound->store);
    ls_shards_detach(model);
    ls_stages_detach(model);
    ls_nccl_abort(bound->nccl);
    bool used = ls_nccl_is_left(bound->nccl);
    for (int i = 0; i < built->replica_count; i++) ls_device_drain(built->replicas[i].device);
    ls_nccl_free(bound->nccl);
    ls_intra_node_free(bound->node);
    bool together = bound->shared || bound->kept.data;
    for (int i = 0; i < built->replica_count; i++) detach_replica(&built->replicas[i], together, used);
    release_shared(model);
    ls_kept_gradients_free(model);
    ls_inputs_forget(model);
    ls_free(bound->buckets);
    model->bound = (struct ls_model_bound){0};
}
