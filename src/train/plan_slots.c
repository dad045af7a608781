/* The newest plans of a replica are kept; the one that was used longest ago gives way. */
#include "train/step.h"

#include <string.h>

#include "model/plan.h"
#include "model/plan_decode.h"
#include "train/sparse.h"
#include "train/staged.h"

/* For LS_RECOMPUTE_AUTO. The arena is there for the new plan, too. */
static size_t keep_within(const ls_model *model, const struct ls_model_replica *replica) {
    const struct ls_device_queue_ops *queue = replica->device->ops->queue;
    size_t available = 0;
    if (model->spec.objective.recompute != LS_RECOMPUTE_AUTO || !queue) return 0;
    return queue->available(replica->device, &available) ? 0 : (available + replica->arena.size) / 2;
}

/* The present batch's kind. */
struct batch {
    struct ls_target_kind targets;
    bool labelled;                      /* it has targets: the plan has a loss */
    const struct ls_pixel_table *table; /* its features are bytes; NULL: floats */
};

/* Without a pipeline: examples alone, or what a training would have. */
static struct batch batch_of(const ls_model *model, const struct ls_model_replica *replica, bool training) {
    const struct ls_pipeline *pipeline = model->progress.pipeline;
    if (!pipeline) return (struct batch){.labelled = training};
    return (struct batch){*ls_pipeline_targets(pipeline), ls_pipeline_is_labelled(pipeline),
                          replica->device->host_memory ? NULL : ls_pipeline_table(pipeline)};
}

struct ls_plan_config ls_plan_slots_config(ls_model *model, int local, int64_t rows, bool training) {
    struct ls_model_replica *replica = &model->built.replicas[local];
    const struct ls_model_input *input = &replica->inputs[replica->input];
    const struct batch batch = batch_of(model, replica, training);
    return (struct ls_plan_config){
        .network = model->built.network,
        .device = replica->device,
        .rows = rows,
        .training = training,
        .objective = model->spec.objective,
        .parameters = replica->parameters,
        .gradients = training ? replica->gradients : NULL,
        .features = input->features,
        .byte_values = batch.table ? input->byte_values : NULL,
        .byte_channels = batch.table ? batch.table->channels : 0,
        .tables = ls_sparse_plan(model, local),
        .labels = batch.labelled && !batch.targets.numbers ? input->targets : NULL,
        .numbers = batch.targets.numbers ? input->targets : NULL,
        .weights = batch.targets.weighted ? input->weights : NULL,
        .loss_scale = &model->built.numbers->loss_scale,
        .gradient_scale = &replica->numbers->gradient_scale,
        .sums = &replica->numbers->sums,
        .arena = &model->built.replicas[ls_turn_arena(model, local)].arena,
        .keep_within = keep_within(model, replica),
        .await = training ? model->bound.await : NULL,
        .await_context = model->bound.await_context,
        .exchange = model->bound.synchronized ? &replica->exchange.exchange : NULL,
        .seed = model->spec.seed,
        .replica = model->strategy->replicas[local].id,
        .step = &model->built.numbers->step,
    };
}

ls_status ls_plan_slots_cost(ls_model *model, int local, int64_t rows, ls_recompute recompute,
                             struct ls_plan_cost *cost) {
    const struct ls_plan_config config = ls_plan_slots_config(model, local, rows, true);
    return ls_plan_cost(&config, recompute, cost);
}

ls_status ls_plan_slots_find(ls_model *model, int local, int64_t rows, bool training, struct ls_plan **plan) {
    struct ls_model_replica *replica = &model->built.replicas[local];
    struct ls_plan_slot *oldest = &replica->plans[0];
    const struct batch batch = batch_of(model, replica, training);
    bool numbers = batch.targets.numbers, weighted = batch.targets.weighted, bytes = batch.table;
    ls_status status = ls_staged_check(model, false);
    if (status) return status;
    replica->clock++;
    for (size_t i = 0; i < LS_PLANS_KEPT; i++) {
        struct ls_plan_slot *slot = &replica->plans[i];
        if (slot->plan && slot->rows == rows && slot->training == training && slot->input == replica->input &&
            slot->labelled == batch.labelled && slot->numbers == numbers && slot->weighted == weighted &&
            slot->bytes == bytes) {
            slot->used = replica->clock;
            *plan = slot->plan;
            return LS_OK;
        }
        if (slot->used < oldest->used) oldest = slot;
    }
    const struct ls_plan_config config = ls_plan_slots_config(model, local, rows, training);
    struct ls_plan *made;
    status = ls_plan_new(&config, &made);
    if (status) return status;
    ls_plan_free(oldest->plan);
    *oldest = (struct ls_plan_slot){.plan = made,
                                    .rows = rows,
                                    .input = replica->input,
                                    .training = training,
                                    .labelled = batch.labelled,
                                    .numbers = numbers,
                                    .weighted = weighted,
                                    .bytes = bytes,
                                    .used = replica->clock};
    *plan = made;
    return LS_OK;
}

ls_status ls_plan_slots_decode(ls_model *model, const struct ls_decoding *decoding, const void *ids,
                               struct ls_plan **plan) {
    struct ls_plan_config config = ls_plan_slots_config(model, 0, 1, false);
    ls_status status = ls_staged_check(model, false);
    if (status) return status;
    config.features = ids;
    config.decoding = decoding;
    return ls_plan_new(&config, plan);
}

void ls_plan_slots_drop(struct ls_model_replica *replica) {
    for (size_t i = 0; i < LS_PLANS_KEPT; i++) ls_plan_free(replica->plans[i].plan);
    memset(replica->plans, 0, sizeof(replica->plans));
}
