/* Gradient accumulation (Keras' gradient_accumulation_steps): a step takes several batches. Each replica adds up what
 * its parts of them give, in their order; the last one is reduced and applied as that of any step is. Nothing of it
 * outlives a step, so a step that fails begins again with its first batch.
 *
 * Of moving statistics each batch gives (1 - momentum) (its own - those before the step); since a statistic after k
 * batches is linear in theirs, the changes add up as change = momentum change + the next, to what step by step gives.
 */
#include "train/step.h"

#include "base/memory.h"
#include "train/model.h"
#include "train/staged.h"

/* gradients = (gradients + gathered factor) scale, from a variable's beginning to an end. */
static struct ls_op merge_of(const ls_model *model, const struct ls_model_replica *replica,
                             const struct ls_network_variable *variable, size_t end) {
    const ls_shape shape = LS_SHAPE((int64_t)(end - variable->offset));
    struct ls_op op = {.kind = LS_OP_MERGE,
                       .alpha = variable->trained ? 1 : variable->momentum,
                       .scale = variable->trained ? &model->built.numbers->merge_scale
                                                  : &model->built.numbers->statistic_scale};
    op.tensors[LS_ARG_X] = (struct ls_tensor){replica->gathered + variable->offset, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_Y] = (struct ls_tensor){replica->gradients + variable->offset, LS_FLOAT32, shape, 0};
    return op;
}

static size_t end_of_variable(const ls_model *model, int index) {
    bool last = index + 1 == ls_network_summed_variables(model->built.network);
    return last ? model->built.summed_count : ls_network_variable(model->built.network, index + 1)->offset;
}

/* True if a merge op begins at the variable: its scale differs from the one of the variable before it, or a new bucket
 * begins at the variable or inside of it, or a stage does. */
static bool begins_merge(const ls_model *model, int index) {
    const struct ls_network_variable *variable = ls_network_variable(model->built.network, index), *before;
    before = ls_network_variable(model->built.network, index - 1);
    bool alike = variable->trained == before->trained && (variable->trained || variable->momentum == before->momentum);
    const struct ls_model_bound *bound = &model->bound;
    return !alike || ls_staged_ends_at(model, variable->offset) ||
           (ls_model_is_reduced(model) &&
            ls_buckets_begin_in(bound->buckets, bound->bucket_count, variable->offset, end_of_variable(model, index)));
}

/* Neighbouring variables with one factor share an op; a variable in which a bucket begins has the next one, for it is
 * merged when the bucket is ready, and not before. */
static ls_status build_merges(const ls_model *model, struct ls_model_replica *replica) {
    int count = ls_network_summed_variables(model->built.network);
    ls_status status = LS_OK;
    for (int first = 0, next; !status && first < count; first = next) {
        for (next = first + 1; next < count && !begins_merge(model, next);) next++;
        struct ls_op op = merge_of(model, replica, ls_network_variable(model->built.network, first),
                                   end_of_variable(model, next - 1));
        status = replica->device->ops->build(replica->device, &op);
        if (!status) replica->merges[replica->merge_count++] = op;
    }
    return status;
}

static ls_status build_ops(const ls_model *model, struct ls_model_replica *replica) {
    const ls_shape shape = LS_SHAPE((int64_t)model->built.summed_count);
    struct ls_op copy = {.kind = LS_OP_SCALE, .alpha = 1};
    copy.tensors[LS_ARG_X] = (struct ls_tensor){replica->gradients, LS_FLOAT32, shape, 0};
    copy.tensors[LS_ARG_Y] = (struct ls_tensor){replica->gathered, LS_FLOAT32, shape, 0};
    ls_status status = ls_update_add(replica, LS_UPDATE_GATHER, &copy);
    return status ? status : build_merges(model, replica);
}

ls_status ls_accumulate_build(const ls_model *model, struct ls_model_replica *replica) {
    size_t count = (size_t)ls_network_summed_variables(model->built.network);
    if (model->progress.step.rule.gradient_accumulation_steps <= 1) return LS_OK;
    ls_status status = ls_device_allocate_floats(replica->device, model->built.summed_count, &replica->gathered);
    if (status) return status;
    replica->watched = true;
    replica->merges = ls_alloc_array(count, sizeof(*replica->merges));
    if (!replica->merges) return ls_fail_memory("the ops of gradient accumulation", count * sizeof(*replica->merges));
    return build_ops(model, replica);
}

void ls_accumulate_release(struct ls_model_replica *replica) {
    struct ls_device *device = replica->device;
    for (int i = 0; i < replica->merge_count; i++) device->ops->discard(device, &replica->merges[i]);
    if (replica->gathered) device->ops->release(device, replica->gathered);
    ls_free(replica->merges);
    replica->merges = NULL;
    replica->gathered = NULL;
    replica->merge_count = 0;
}

/* The callers go down the blob in ranges that join, [offset, end), so each merge runs once a batch. */
ls_status ls_accumulate_merge(const struct ls_model_replica *replica, size_t offset, size_t end) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < replica->merge_count; i++) {
        const struct ls_op *merge = &replica->merges[i];
        size_t begin = (size_t)((const float *)merge->tensors[LS_ARG_Y].data - replica->gradients);
        if (begin >= offset && begin < end) status = merge->run(merge);
    }
    return status;
}

ls_status ls_accumulate_keep(const ls_model *model, struct ls_model_replica *replica, bool first) {
    struct ls_replica_numbers *numbers = replica->numbers;
    ls_status status = first ? LS_OK : ls_accumulate_merge(replica, 0, model->built.summed_count);
    if (!status) status = ls_update_run(replica, LS_UPDATE_GATHER);
    if (!status) status = ls_device_wait(replica->device); /* the sums are there */
    if (!status) ls_op_add_loss_sums(&numbers->gathered, &numbers->sums);
    return status;
}
