/* A plan: the flat list of ops that one replica runs each step, over tensors in an arena. Mirrors Keras' traced
 * train_function. Ops run in the order of steps in the calling thread, one thread at a time.
 *
 * ls_plan_new makes a plan in three passes. ls_plan_builder_run adds steps and buffers: forward with the loss, then
 * from the step turn on backward. ls_plan_place notes each buffer's life, from the step first to the step last; buffers
 * whose lives do not meet may have the same offset in the arena. prepare_steps lets the device build each op; workspace
 * is the largest need of any op, and lies behind the buffers. plan_run.c runs them. */
#include "model/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "device/op_layers.h"
#include "model/plan_builder.h"
#include "model/plan_decode.h"

static void drop(struct ls_program **program) {
    struct ls_program *dropped = ls_steal(*program);
    if (dropped) dropped->drop(dropped);
}

void ls_plan_drop_programs(struct ls_plan *plan) {
    drop(&plan->program);
    for (size_t i = 0; i < plan->segment_count; i++) drop(&plan->segments[i].program);
}

void ls_plan_free(struct ls_plan *plan) {
    if (!plan) return;
    ls_plan_drop_programs(plan);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].built) plan->device->ops->discard(plan->device, &plan->steps[i].op);
    ls_arena_release(&plan->own);
    ls_free(plan->segments);
    ls_free(plan->steps);
    ls_free(plan->buffers);
    ls_free(plan);
}

LS_CLEANER(free_plan, struct ls_plan *, ls_plan_free);

static ls_status missing(const char *field) {
    return ls_fail(LS_INVALID_ARGUMENT, "plan: %s is missing", field);
}

static ls_status check_config(const struct ls_plan_config *config) {
    if (!config->network) return missing("network");
    if (!config->device) return missing("device");
    if (!config->parameters) return missing("parameters");
    if (!config->features) return missing("features");
    bool judges = config->labels || config->numbers;
    if (judges && !config->sums) return missing("sums");
    if (config->training && !config->gradients) return missing("gradients, which training needs,");
    if (config->training && judges && !config->loss_scale) return missing("loss_scale, which training needs,");
    if (config->rows < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "plan: rows %lld must be 1 or more", (long long)config->rows);
    if (config->objective.loss >= LS_SPARSE_CATEGORICAL_CROSSENTROPY && config->objective.loss <= LS_HUBER)
        return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "plan: loss %d is no ls_loss", (int)config->objective.loss);
}

/* ---- memory ---- */

static void note_life(struct ls_plan *plan, const struct ls_tensor *tensor, size_t step) {
    if (tensor->buffer <= 0) return;
    struct ls_plan_buffer *buffer = &plan->buffers[tensor->buffer - 1];
    if (!buffer->used) buffer->first = buffer->last = step;
    buffer->used = true;
    if (step < buffer->first) buffer->first = step;
    if (step > buffer->last) buffer->last = step;
}

/* A buffer lives from the first op that names it to the last. An activation that backward needs lives across the turn,
 * and one that it does not need gives its memory back early. The outputs and their gradient are there at the turn. */
static void note_lifetimes(struct ls_plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        for (int t = 0; t < LS_OP_TENSORS; t++) note_life(plan, &plan->steps[i].op.tensors[t], i);
    note_life(plan, &plan->outputs, plan->turn - 1);
    note_life(plan, &plan->output_gradient, plan->turn - 1);
    note_life(plan, &plan->entry_gradient, plan->count); /* it is read behind all steps */
}

static void point(const struct ls_plan *plan, struct ls_tensor *tensor) {
    int buffer = tensor->buffer;
    if (!buffer) return;
    const void *memory =
        buffer < 0 ? plan->given[-buffer] : (float *)plan->arena->memory + plan->buffers[buffer - 1].offset;
    tensor->data = (char *)(uintptr_t)memory + tensor->within;
}

/* Points all tensors and the workspace into what was given, and into the arena, which another plan may have made
 * larger. */
void ls_plan_bind(struct ls_plan *plan) {
    float *memory = plan->arena->memory;
    if (plan->bound == memory) return;
    ls_plan_drop_programs(plan);
    for (size_t i = 0; i < plan->count; i++) {
        struct ls_op *op = &plan->steps[i].op;
        for (int t = 0; t < LS_OP_TENSORS; t++) point(plan, &op->tensors[t]);
        op->workspace = memory + plan->floats;
    }
    point(plan, &plan->outputs);
    point(plan, &plan->output_gradient);
    point(plan, &plan->entry_gradient);
    plan->bound = memory;
}

ls_status ls_plan_place(struct ls_plan *plan, int64_t rows) {
    note_lifetimes(plan);
    if (plan->device->host_memory) ls_parts_divide(plan, rows); /* for the caches of processors */
    return ls_arena_place(plan->buffers, plan->buffer_count, &plan->floats);
}

static void clear_steps(struct ls_plan *plan) {
    ls_free(ls_steal(plan->steps));
    ls_free(ls_steal(plan->buffers));
    plan->count = plan->capacity = plan->buffer_count = plan->buffer_capacity = 0;
}

static ls_status place_so(const struct ls_plan_config *config, ls_recompute recompute, struct ls_plan *plan) {
    clear_steps(plan);
    ls_status status = ls_plan_builder_run(config, recompute, plan);
    return status ? status : ls_plan_place(plan, config->rows);
}

/* AUTO keeps what backward could make again, unless that is more than the config allows. */
static ls_status place_all(const struct ls_plan_config *config, struct ls_plan *plan) {
    ls_recompute recompute = config->objective.recompute;
    bool chooses = recompute == LS_RECOMPUTE_AUTO, tries = chooses && config->keep_within;
    ls_status status = LS_OK;
    if (tries) status = place_so(config, LS_RECOMPUTE_NONE, plan);
    if (!status && !(tries && plan->floats <= config->keep_within / sizeof(float)))
        status = place_so(config, chooses ? LS_RECOMPUTE_ACTIVATIONS : recompute, plan);
    if (!status && plan->floats > LS_ARENA_LIMIT)
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "plan: the activations are larger than memory can be");
    return status;
}

/* The device prepares each op; then it is known how much workspace they need. */
static ls_status prepare_steps(struct ls_plan *plan) {
    ls_status reserved = ls_arena_reserve(plan->arena, ls_plan_memory(plan));
    if (reserved) return reserved;
    ls_plan_bind(plan);
    for (size_t i = 0; i < plan->count; i++) {
        struct ls_plan_step *step = &plan->steps[i];
        ls_status status = plan->device->ops->build(plan->device, &step->op);
        if (status && step->of) return ls_fail_context(status, "layer '%s'", step->of);
        if (status) return status;
        step->built = true;
        if (step->op.workspace_size > plan->workspace) plan->workspace = step->op.workspace_size;
        if (ls_op_layers_exchanged(&step->op)) plan->exchanges = true;
    }
    return ls_arena_reserve(plan->arena, ls_plan_memory(plan));
}

static size_t needs_of_tensor(const struct ls_plan_config *config, const struct ls_tensor *tensor) {
    size_t begin = tensor->within / sizeof(float);
    if (begin >= ls_network_trainable_count(config->network)) return 0;
    if (tensor->buffer == -LS_GIVEN_GRADIENTS) return SIZE_MAX;
    return tensor->buffer == -LS_GIVEN_PARAMETERS ? begin + (size_t)ls_shape_count(&tensor->shape) : 0;
}

/* The variables for which each op waits. */
static void note_needs(const struct ls_plan_config *config, struct ls_plan *plan) {
    for (size_t i = 0; config->await && i < plan->count; i++)
        for (int t = 0; t < LS_OP_TENSORS; t++) {
            size_t needs = needs_of_tensor(config, &plan->steps[i].op.tensors[t]);
            if (needs > plan->steps[i].needs) plan->steps[i].needs = needs;
        }
    plan->await = config->await;
    plan->await_context = config->await_context;
}

const float *ls_plan_outputs(const struct ls_plan *plan) {
    return plan->outputs.data;
}

float *ls_plan_output_gradient(const struct ls_plan *plan) {
    return plan->output_gradient.data;
}

const float *ls_plan_entry_gradient(const struct ls_plan *plan) {
    return plan->entry_gradient.data;
}

size_t ls_plan_memory(const struct ls_plan *plan) {
    return plan->floats * sizeof(float) + plan->workspace;
}

ls_status ls_plan_new(const struct ls_plan_config *config, struct ls_plan **plan) {
    ls_status status = check_config(config);
    if (!status && config->decoding) status = ls_plan_decode_check(config);
    if (status) return status;
    LS_CLEANUP(free_plan) LS_NEW(struct ls_plan, made, "a plan");
    made->device = config->device;
    made->own.device = config->device;
    made->scales[0] = config->loss_scale;
    made->scales[1] = config->gradient_scale;
    made->arena = config->arena ? config->arena : &made->own;
    status = place_all(config, made);
    if (!status) note_needs(config, made);
    if (!status) status = prepare_steps(made);
    if (!status) *plan = ls_steal(made);
    return status;
}
