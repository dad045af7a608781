/* What a model trains with in one generation of the group: gradients, in memory that the workers share where they can,
 * the optimizer that reads them, and the reducer. All of it goes when the generation does. */
#include <string.h>

#include "base/memory.h"
#include "strategy/model.h"

static bool devices_have_host_memory(const ls_strategy *strategy) {
    for (int i = 0; i < strategy->local_count; i++)
        if (!strategy->replicas[i].device->host_memory) return false;
    return true;
}

/* The replicas' gradients side by side in memory that the other workers may map, so that they can be added in place.
 * Every worker calls, also one whose devices have memory of their own: the others wait for it. */
static ls_status share_gradients(ls_model *model) {
    ls_strategy *strategy = model->strategy;
    size_t line = LS_ALIGNMENT / sizeof(float), stride = (model->blob_count + LS_EXTRAS + line - 1) / line * line;
    bool host = devices_have_host_memory(strategy);
    if (strategy->membership->size == 1) return LS_OK;
    size_t size = host ? (size_t)strategy->local_count * stride * sizeof(float) : LS_ALIGNMENT;
    ls_status status = ls_group_share(strategy->membership->group, size, &model->shared);
    for (int i = 0; !status && host && i < strategy->local_count; i++)
        model->replicas[i].gradients = (float *)model->shared + (size_t)i * stride;
    return status;
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

static ls_status attach_replica(ls_model *model, struct ls_model_replica *replica) {
    ls_status status = allocate_gradients(model, replica);
    struct ls_optimizer_blobs blobs = {.count = ls_network_trainable_count(model->network),
                                       .parameters = replica->parameters,
                                       .gradients = replica->gradients,
                                       .parts = model->parts,
                                       .part_count = model->part_count};
    memcpy(blobs.moments, replica->moments, sizeof(blobs.moments));
    if (!status) status = ls_optimizer_build(replica->device, &model->step, &blobs, &replica->optimizer);
    replica->optimizer_built = !status;
    if (!status) status = ls_gather_build(model, replica);
    if (!status) status = ls_scaling_build(model, replica);
    return status ? status : build_statistics(model, replica);
}

static ls_status make_reducer(ls_model *model) {
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
    ls_status status =
        ls_buckets_cut(&rule, offsets, count, model->blob_count + LS_EXTRAS, &model->buckets, &model->bucket_count);
    if (status || model->strategy->membership->size == 1) return status;
    float *gradients[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < model->strategy->local_count; i++) gradients[i] = model->replicas[i].gradients;
    const struct ls_reducer_config config = {gradients, model->buckets, model->bucket_count,
                                             ls_network_trainable_count(model->network)};
    return ls_reducer_new(model->strategy, &config, &model->reducer);
}

ls_status ls_model_attach(ls_model *model) {
    if (model->attached) return LS_OK;
    ls_status status = share_gradients(model);
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

/* Gradients in shared memory are released with it. */
static void detach_replica(struct ls_model_replica *replica, bool shared) {
    struct ls_device *device = replica->device;
    ls_model_drop_plans(replica); /* they point to the gradients */
    if (replica->optimizer_built) device->ops->discard(device, &replica->optimizer);
    if (replica->statistics_built) device->ops->discard(device, &replica->statistics);
    ls_gather_release(replica);
    ls_scaling_release(replica);
    if (!shared) device->ops->release(device, replica->gradients);
    replica->gradients = NULL;
    replica->optimizer_built = replica->statistics_built = false;
}

void ls_model_detach(ls_model *model) {
    bool shared = model->shared && devices_have_host_memory(model->strategy);
    ls_reducer_free(model->reducer);
    for (int i = 0; model->replicas && i < model->replica_count; i++) detach_replica(&model->replicas[i], shared);
    if (model->shared) ls_group_unshare(model->strategy->membership->group, model->shared);
    ls_free(model->buckets);
    model->reducer = NULL;
    model->shared = NULL;
    model->buckets = NULL;
    model->attached = false;
}
