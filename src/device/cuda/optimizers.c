/* Optimizers and penalties: the table of variables that their kernels go by, made once, and a rule's numbers, computed
 * at each step. */
#include <string.h>

#include "base/new.h"
#include "device/cuda/elements.h"
#include "device/cuda/kernels_elements.h"
#include "device/rule.h"

/* ---- the table ---- */

/* The parts and chunks to fill; both are NULL if they are only counted. */
struct table {
    struct ls_cuda_part *parts;
    struct ls_cuda_chunk *chunks;
    int64_t part_count, chunk_count;
};

/* Adds a part; variable is NULL for a gap between variables. */
static void add_optimizers_part(struct table *table, size_t offset, size_t count, const struct ls_blob_part *variable) {
    int64_t chunks = (int64_t)((count + LS_CUDA_CHUNK - 1) / LS_CUDA_CHUNK), first = table->chunk_count;
    if (!count) return;
    if (table->parts) {
        struct ls_cuda_part *part = &table->parts[table->part_count];
        *part = (struct ls_cuda_part){.first = first, .chunks = chunks, .rate = 1};
        if (variable) {
            part->l1 = variable->l1, part->l2 = variable->l2, part->rate = ls_rule_part_rate(variable);
            part->decays = variable->decays, part->variable = 1;
        }
        for (size_t done = 0; done < count; done += LS_CUDA_CHUNK)
            table->chunks[first++] =
                (struct ls_cuda_chunk){.offset = (int64_t)(offset + done),
                                       .count = (int32_t)(count - done < LS_CUDA_CHUNK ? count - done : LS_CUDA_CHUNK),
                                       .part = (int32_t)table->part_count};
    }
    table->part_count++;
    table->chunk_count += chunks;
}

static void add_parts(struct table *table, const struct ls_op *op) {
    size_t at = 0, end = (size_t)op->tensors[LS_ARG_PARAMETERS].shape.dims[0];
    for (size_t i = 0; i < op->variable_count; i++) {
        const struct ls_blob_part *variable = &op->variables[i];
        add_optimizers_part(table, at, variable->offset - at, NULL);
        add_optimizers_part(table, variable->offset, variable->count, variable);
        at = variable->offset + variable->count;
    }
    add_optimizers_part(table, at, end - at, NULL);
}

static ls_status check_order(const struct ls_op *op) {
    size_t at = 0;
    for (size_t i = 0; i < op->variable_count; i++) {
        if (op->variables[i].offset < at)
            return ls_fail(LS_INVALID_ARGUMENT, "%s: part %zu begins before the one before it ends",
                           ls_op_name(op->kind), i);
        at = op->variables[i].offset + op->variables[i].count;
    }
    return LS_OK;
}

/* One block of device memory: parts, chunks, partials, squares, factors, trusts, and the rule's numbers. */
struct optimizer {
    void *memory;
    struct ls_cuda_rule *numbers; /* in host memory, of the last run or renewal; NULL for penalties */
    struct ls_cuda_rule *rule;    /* their copy on the device */
    struct ls_cuda_update update; /* where they are, and how many */
};

static size_t table_size(const struct table *table) {
    return (size_t)table->part_count * sizeof(*table->parts) + (size_t)table->chunk_count * sizeof(*table->chunks);
}

static size_t scratch_size(const struct table *table) {
    return (size_t)table->chunk_count * 2 * sizeof(double) +
           (size_t)table->part_count * (sizeof(double) + 2 * sizeof(float)) + sizeof(struct ls_cuda_rule);
}

static void divide_chunks(struct optimizer *made, const struct table *table) {
    struct ls_cuda_update *u = &made->update;
    u->part_count = table->part_count, u->chunk_count = table->chunk_count;
    struct ls_cuda_part *parts = made->memory;
    struct ls_cuda_chunk *chunks = (struct ls_cuda_chunk *)(parts + u->part_count);
    u->parts = parts;
    u->chunks = chunks;
    u->partials = (double *)(chunks + u->chunk_count);
    u->squares = u->partials + 2 * u->chunk_count;
    u->factors = (float *)(u->squares + u->part_count);
    u->trusts = u->factors + u->part_count;
    made->rule = (struct ls_cuda_rule *)(u->trusts + u->part_count);
    u->rule = made->numbers ? made->rule : NULL;
    u->known = made->numbers;
}

/* Fills a table of known size and brings it to the device. */
static ls_status upload(struct ls_cuda_device *device, const struct ls_op *op, const struct table *sizes, void *to) {
    LS_CLEANUP(ls_free_pointer) void *host = ls_alloc(table_size(sizes));
    if (!host) return ls_fail_memory("an optimizer's table of variables", table_size(sizes));
    struct table table = {.parts = host};
    table.chunks = (struct ls_cuda_chunk *)(table.parts + sizes->part_count);
    add_parts(&table, op);
    return device->device.ops->copy_in(&device->device, to, host, table_size(sizes));
}

/* ---- a rule's numbers ---- */

static struct ls_cuda_rule rule_of(const struct ls_optimizer_step *step) {
    const ls_optimizer *rule = &step->rule;
    int64_t applied = ls_step_applied(step);
    return (struct ls_cuda_rule){.rate = rule->learning_rate,
                                 .momentum = ls_rule_momentum(step),
                                 .alpha = ls_rule_adam(rule, applied),
                                 .rest_1 = ls_rule_rest(rule->beta_1),
                                 .rest_2 = ls_rule_rest(rule->beta_2),
                                 .epsilon = ls_rule_epsilon(rule, applied),
                                 .rho = rule->rho,
                                 .rest_rho = ls_rule_rest(rule->rho),
                                 .correction_1 = ls_rule_correction(rule->beta_1, applied),
                                 .correction_2 = ls_rule_correction(rule->beta_2, applied),
                                 .weight_decay = rule->weight_decay,
                                 .clipvalue = rule->clipvalue,
                                 .clipnorm = rule->clipnorm,
                                 .global_clipnorm = rule->global_clipnorm,
                                 .unscale = step->unscale != 0 ? step->unscale : 1,
                                 .nesterov = rule->nesterov,
                                 .centered = rule->centered};
}

/* The copy to the device reads them when it runs: the one before must be done. */
static ls_status renew(const struct ls_op *op) {
    const struct optimizer *own = ls_cuda_kept(op);
    *own->numbers = rule_of(op->step);
    return LS_OK;
}

/* ---- building ---- */

static ls_status keep_numbers(struct ls_cuda_device *device, struct ls_op *op, struct optimizer *made) {
    void *memory = NULL;
    ls_status status = device->device.ops->queue->allocate_host(&device->device, sizeof(*made->numbers), &memory);
    made->numbers = memory;
    op->renew = status ? NULL : renew;
    return status;
}

ls_status ls_cuda_optimizer_build(struct ls_cuda_device *device, struct ls_op *op) {
    struct table sizes = {0};
    ls_status status = check_order(op);
    if (status) return status;
    add_parts(&sizes, op);
    LS_NEW(struct optimizer, made, "an optimizer");
    ((struct ls_cuda_op *)op->handle)->own = made;
    status = device->device.ops->allocate(&device->device, table_size(&sizes) + scratch_size(&sizes), &made->memory);
    if (!status) status = upload(device, op, &sizes, made->memory);
    if (!status && op->step) status = keep_numbers(device, op, made);
    if (status)
        ls_cuda_optimizer_discard(op);
    else
        divide_chunks(made, &sizes);
    return status;
}

void ls_cuda_optimizer_discard(struct ls_op *op) {
    struct ls_cuda_op *handle = op->handle;
    struct ls_device *device = &handle->device->device;
    struct optimizer *own = handle->own;
    if (own && own->memory) device->ops->release(device, own->memory);
    if (own && own->numbers) device->ops->queue->release_host(device, own->numbers);
    ls_free(own);
    handle->own = NULL;
}

/* ---- a step ---- */

static struct ls_cuda_update update_of(const struct ls_op *op) {
    struct ls_cuda_update update = ((const struct optimizer *)ls_cuda_kept(op))->update;
    update.w = op->tensors[LS_ARG_PARAMETERS].data;
    update.g = op->tensors[LS_ARG_GRADIENTS].data;
    for (int i = 0; i < LS_MAX_MOMENTS; i++) update.moments[i] = op->tensors[LS_ARG_MOMENT_1 + i].data;
    return update;
}

static cudaError_t launch(enum ls_op_kind kind, const struct ls_cuda_update *update, cudaStream_t stream) {
    if (kind == LS_OP_ADAM) return ls_cuda_adam(update, stream);
    if (kind == LS_OP_RMSPROP) return ls_cuda_rmsprop(update, stream);
    return kind == LS_OP_LAMB ? ls_cuda_lamb(update, stream) : ls_cuda_sgd(update, stream);
}

ls_status ls_cuda_optimizer_run(const struct ls_op *op) {
    const struct optimizer *own = ls_cuda_kept(op);
    const struct ls_cuda_update update = update_of(op);
    cudaStream_t stream = ls_cuda_stream(op);
    ls_status status = renew(op);
    if (status) return status;
    cudaError_t error = cudaMemcpyAsync(own->rule, own->numbers, sizeof(*own->rule), cudaMemcpyHostToDevice, stream);
    return ls_cuda_launched(op, error == cudaSuccess ? launch(op->kind, &update, stream) : error);
}

ls_status ls_cuda_penalty_run(const struct ls_op *op) {
    const struct ls_cuda_update update = update_of(op);
    return ls_cuda_launched(op, ls_cuda_penalty(&update, op->value, ls_cuda_stream(op)));
}
