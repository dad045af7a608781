/* The blob's part that servers keep is the trained one. Statistics stay on the workers. */
#include "train/stored.h"

#include <string.h>

#include "base/memory.h"
#include "cluster/cluster.h"
#include "train/model_state.h"
#include "train/sparse.h"
#include "train/step.h"

bool ls_stored_is(const ls_model *model) {
    return model->built.state->owners == LS_OWNED_WITH_COPIES;
}

bool ls_stored_has(const ls_model *model) {
    return model->strategy->copies_on_servers && ls_model_state_count(model, LS_PARTS_ON_SERVERS);
}

bool ls_stored_lacks(const ls_model *model) {
    return ls_stored_has(model) && ls_parts_are_new(model->built.state, model->built.state_count);
}

static ls_status check_has_servers(const ls_model *model) {
    if (!ls_group_assisted(model->strategy->runtime->group))
        return ls_fail(LS_FAILED_PRECONDITION, "ParameterServerStrategy: this task has no parameter server, and cannot "
                                               "train: fit is for chief and workers");
    if (model->spec.objective.precision != LS_MIXED_FLOAT16) return model->sync->check(model);
    return ls_fail(LS_UNIMPLEMENTED, "ParameterServerStrategy has no loss scaling: take precision mixed_bfloat16 or "
                                     "float32 in place of mixed_float16, or MultiWorkerMirroredStrategy");
}

/* Buckets end with the trained variables: statistics and the extras behind them are all-reduced. */
static size_t clip_buckets(const ls_model *model, size_t trained, struct ls_range *ranges) {
    size_t made = 0;
    for (size_t i = 0; i < model->bound.bucket_count; i++) {
        const struct ls_bucket *bucket = &model->bound.buckets[i];
        if (bucket->begin < trained)
            ranges[made++] = (struct ls_range){bucket->begin, bucket->end < trained ? bucket->end : trained};
    }
    return made;
}

struct ls_terms_model ls_stored_terms(const ls_model *model, int copies, struct ls_range *ranges) {
    const struct ls_model_built *built = &model->built;
    const ls_optimizer *rule = &model->progress.step.rule;
    size_t trained = model->strategy->servers.hybrid ? 0 : ls_network_trainable_count(built->network);
    return (struct ls_terms_model){.model = model->number,
                                   .count = trained,
                                   .kind = (int32_t)ls_optimizer_op(rule),
                                   .moments = ls_optimizer_moments(rule),
                                   .replicas = copies,
                                   .buckets = ranges,
                                   .bucket_count = clip_buckets(model, trained, ranges),
                                   .parts = built->parts,
                                   .part_count = trained ? built->part_count : 0,
                                   .asynchronous = model->sync->leaves};
}

static ls_status open_store(ls_model *model, struct ls_range *ranges, struct ls_terms_table *tables) {
    struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_model_built *built = &model->built;
    struct ls_terms_model terms = ls_stored_terms(model, model->strategy->copies_on_servers, ranges);
    terms.tables = tables;
    terms.table_count = (size_t)ls_network_table_count(built->network);
    const struct ls_store_config config = {
        .group = ls_group_assisted(runtime->group),
        .terms = terms,
        .generation = (int64_t)runtime->generation,
        .version = model->progress.step.iteration,
        .variables = built->replicas[0].parameters,
        .parts = built->state,
        .listed = runtime->config->num_servers,
        .lost = &runtime->lost,
        .anew = &runtime->anew,
        .returns = model->progress.returns,
        .awaits = &runtime->awaits,
    };
    bool waited = runtime->awaits;
    ls_status status = ls_store_open(&config, &model->bound.store);
    if (status && runtime->awaits && !waited) ls_group_sever(runtime->group); /* for a generation with the others */
    if (!status) runtime->awaits = false;
    ls_cluster_await_servers(runtime->cluster, runtime->awaits);
    if (!status) ls_parts_settle(built->state, built->state_count, model->progress.keeps);
    return status;
}

ls_status ls_stored_attach(ls_model *model) {
    if (!ls_stored_has(model)) return LS_OK;
    size_t count = model->bound.bucket_count;
    ls_status status = check_has_servers(model);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) struct ls_range *ranges = ls_alloc_array(count, sizeof(*ranges));
    LS_CLEANUP(ls_free_pointer) struct ls_terms_table *tables = NULL;
    if (!ranges) return ls_fail_memory("buckets", count * sizeof(*ranges));
    status = ls_sparse_terms(model, &tables);
    return status ? status : open_store(model, ranges, tables);
}

/* Rank 0 wants it where a checkpoint of the step is due, or one that somebody has asked for in the step. */
static bool wants_moments(const ls_model *model, const float *extras) {
    if (model->strategy->runtime->rank || !model->progress.keeps) return false;
    return model->progress.fetches || ls_step_report_asks(extras);
}

/* With that replica's floating-point mode. */
ls_status ls_stored_add_statistics(const ls_model *model, const float *blob) {
    const struct ls_model_replica *first = &model->built.replicas[0];
    struct ls_thread_state before;
    ls_status status = first->device->ops->enter(first->device, &before);
    if (status) return status;
    for (int r = 0; r < model->strategy->local_count; r++) {
        const struct ls_model_replica *replica = &model->built.replicas[r];
        size_t end = replica->shares ? 0 : model->built.summed_count;
        for (size_t i = ls_network_trainable_count(model->built.network); i < end; i++)
            replica->parameters[i] += blob[i];
    }
    first->device->ops->leave(first->device, &before);
    return LS_OK;
}

/* Sets *parts to the list if rank 0 wants what is away, and something is. */
static ls_status expect(const ls_model *model, bool wanted, struct ls_shard_part **parts) {
    const struct ls_model_built *built = &model->built;
    *parts = wanted && ls_model_state_count(model, LS_PARTS_AWAY) ? built->state : NULL;
    return *parts ? ls_parts_expect(*parts, built->state_count) : LS_OK;
}

ls_status ls_stored_step(ls_model *model, struct ls_store_stepping stepping, bool wanted) {
    struct ls_shard_part *parts;
    ls_status status = expect(model, wanted, &parts);
    stepping.parts = parts;
    if (!status) status = ls_store_step(model->bound.store, &stepping);
    if (!status && parts) ls_parts_arrived(parts, model->built.state_count, stepping.step->iteration);
    return status;
}

/* The new variables come where the gradients were, for a loss on the way must not leave half of them. */
static ls_status update_at_servers(const struct ls_op *op) {
    ls_model *model = op->handle;
    struct ls_model_built *built = &model->built;
    struct ls_model_replica *first = &built->replicas[0];
    float *array = ls_stored_is(model) ? first->gradients : NULL;
    ls_status status =
        ls_stored_step(model, (struct ls_store_stepping){.step = &built->numbers->step, .keep = true, .array = array},
                       wants_moments(model, first->gradients + built->summed_count));
    if (!status && array) memcpy(first->parameters, array, ls_network_trainable_count(built->network) * sizeof(*array));
    return status;
}

ls_status ls_stored_fetch(ls_model *model, bool wanted) {
    struct ls_shard_part *parts;
    ls_status status = expect(model, wanted, &parts);
    if (!status) status = ls_store_fetch(model->bound.store, parts);
    if (!status && parts) ls_parts_arrived(parts, model->built.state_count, model->progress.step.iteration);
    return status;
}

void ls_stored_build(ls_model *model, struct ls_update *update) {
    if (!ls_stored_has(model)) return;
    update->op =
        (struct ls_op){.kind = ls_optimizer_op(&model->progress.step.rule), .run = update_at_servers, .handle = model};
    update->built = !model->sync->leaves; /* sync/async.c gives the gradients to the servers */
}
