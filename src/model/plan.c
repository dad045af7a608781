/* A plan: the flat list of ops that one replica runs each step, over tensors in one arena. Ops run in the order of the
 * list in the calling thread, one thread at a time. Mirrors what a traced train_function is to Keras. */
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "model/layer.h"
#include "model/network.h"

#define ARENA_STEP  16 /* floats: tensors begin on cache lines */
#define NOT_READY   SIZE_MAX
#define ARENA_LIMIT (SIZE_MAX / sizeof(float) / 4)

struct step {
    struct ls_op op;
    size_t ready; /* after this op: gradients from here on are final; or NOT_READY */
};

struct ls_plan {
    struct ls_device *device; /* borrowed */
    void *arena;
    struct step *steps;
    size_t count, capacity;
};

/* Tensor i is what layer i reads and layer i - 1 writes; tensor 0 holds the features. */
struct ls_plan_builder {
    const struct ls_plan_config *config;
    struct ls_plan *plan;
    struct ls_tensor *values, *gradients;
    struct ls_tensor one_hot;
    float *arena; /* NULL while sizes are counted */
    size_t used;  /* floats */
};

void ls_plan_free(struct ls_plan *plan) {
    if (!plan) return;
    for (size_t i = 0; i < plan->count; i++) plan->device->ops->discard(plan->device, &plan->steps[i].op);
    if (plan->arena) plan->device->ops->release(plan->device, plan->arena);
    ls_free(plan->steps);
    ls_free(plan);
}

static void free_plan(struct ls_plan **plan) {
    ls_plan_free(*plan);
}

static ls_status missing(const char *field) {
    return ls_fail(LS_INVALID_ARGUMENT, "plan: %s is missing", field);
}

static ls_status check_config(const struct ls_plan_config *config) {
    if (!config->network) return missing("network");
    if (!config->device) return missing("device");
    if (!config->parameters) return missing("parameters");
    if (!config->features) return missing("features");
    if (!config->labels) return missing("labels");
    if (!config->sums) return missing("sums");
    if (config->training && !config->gradients) return missing("gradients, which training needs,");
    if (config->training && !config->loss_scale) return missing("loss_scale, which training needs,");
    if (config->rows < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "plan: rows %lld must be 1 or more", (long long)config->rows);
    if (config->loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY || config->loss == LS_CATEGORICAL_CROSSENTROPY) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "plan: loss %d is no ls_loss", (int)config->loss);
}

static ls_shape with_rows(int64_t rows, const ls_shape *shape) {
    ls_shape result = {.rank = shape->rank + 1, .dims = {rows}};
    memcpy(result.dims + 1, shape->dims, (size_t)shape->rank * sizeof(shape->dims[0]));
    return result;
}

/* The next place in the arena; NULL while sizes are counted. */
static struct ls_tensor place(struct ls_plan_builder *builder, const ls_shape *shape) {
    struct ls_tensor tensor = {builder->arena ? builder->arena + builder->used : NULL, LS_FLOAT32, *shape};
    int64_t count = ls_shape_count(shape);
    if (count < 0 || (uint64_t)count > ARENA_LIMIT || builder->used > ARENA_LIMIT)
        builder->used = ARENA_LIMIT + 1;
    else
        builder->used += ((size_t)count + ARENA_STEP - 1) / ARENA_STEP * ARENA_STEP;
    return tensor;
}

/* The same elements under another shape. */
static struct ls_tensor reshape(struct ls_tensor tensor, const ls_shape *shape) {
    tensor.shape = *shape;
    return tensor;
}

/* Gives every tensor its place. Run twice: to count with no arena, then to bind. */
static void lay_out(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    size_t count = ls_network_layer_count(config->network);
    bool trainable = false; /* something up to here has variables: its gradients are needed */
    builder->used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ls_node *node = ls_network_node(config->network, i);
        ls_shape input = with_rows(config->rows, &node->input), shape = with_rows(config->rows, &node->output);
        bool through = node->type->passes_through(node);
        if (!i) builder->values[0] = (struct ls_tensor){(void *)config->features, LS_FLOAT32, input};
        builder->values[i + 1] = through ? reshape(builder->values[i], &shape) : place(builder, &shape);
        trainable = trainable || node->variable_count;
        if (!config->training || !trainable) continue;
        builder->gradients[i + 1] = through ? reshape(builder->gradients[i], &shape) : place(builder, &shape);
    }
    ls_shape logits = builder->values[count].shape;
    if (config->loss == LS_CATEGORICAL_CROSSENTROPY) builder->one_hot = place(builder, &logits);
}

static ls_status allocate_arena(struct ls_plan_builder *builder) {
    struct ls_device *device = builder->config->device;
    lay_out(builder);
    if (builder->used > ARENA_LIMIT)
        return ls_fail(LS_RESOURCE_EXHAUSTED, "plan: the activations of %lld rows are larger than memory can be",
                       (long long)builder->config->rows);
    ls_status status = device->ops->allocate(device, builder->used * sizeof(float), &builder->plan->arena);
    if (status) return status;
    builder->arena = builder->plan->arena;
    lay_out(builder);
    return LS_OK;
}

static struct ls_tensor variable_in(const struct ls_plan_builder *builder, float *blob, int index) {
    const struct ls_network_variable *variable = ls_network_variable(builder->config->network, index);
    return (struct ls_tensor){blob + variable->offset, LS_FLOAT32, variable->shape};
}

struct ls_tensor ls_plan_parameter(const struct ls_plan_builder *builder, const struct ls_node *node, int index) {
    return variable_in(builder, builder->config->parameters, node->first_variable + index);
}

struct ls_tensor ls_plan_gradient(const struct ls_plan_builder *builder, const struct ls_node *node, int index) {
    return variable_in(builder, builder->config->gradients, node->first_variable + index);
}

static ls_status grow_steps(struct ls_plan *plan) {
    if (plan->count < plan->capacity) return LS_OK;
    size_t capacity = plan->capacity ? 2 * plan->capacity : 16;
    struct step *grown = ls_alloc_array(capacity, sizeof(*grown));
    if (!grown) return ls_fail_memory("the ops of a plan", capacity * sizeof(*grown));
    if (plan->count) memcpy(grown, plan->steps, plan->count * sizeof(*grown));
    ls_free(plan->steps);
    plan->steps = grown;
    plan->capacity = capacity;
    return LS_OK;
}

ls_status ls_plan_append(struct ls_plan_builder *builder, const struct ls_op *op) {
    struct ls_plan *plan = builder->plan;
    ls_status status = grow_steps(plan);
    if (status) return status;
    struct step *step = &plan->steps[plan->count];
    *step = (struct step){*op, NOT_READY};
    status = plan->device->ops->build(plan->device, &step->op);
    if (!status) plan->count++;
    return status;
}

static struct ls_node_tensors tensors_at(const struct ls_plan_builder *builder, size_t layer) {
    return (struct ls_node_tensors){.x = builder->values[layer],
                                    .y = builder->values[layer + 1],
                                    .dy = builder->gradients[layer + 1],
                                    .dx = builder->gradients[layer]};
}

static ls_status append_forward(struct ls_plan_builder *builder) {
    size_t count = ls_network_layer_count(builder->config->network);
    for (size_t i = 0; i < count; i++) {
        const struct ls_node *node = ls_network_node(builder->config->network, i);
        struct ls_node_tensors at = tensors_at(builder, i);
        ls_status status = node->type->forward(builder, node, &at);
        if (status) return ls_fail_context(status, "layer '%s'", node->name);
    }
    return LS_OK;
}

static ls_status append_loss(struct ls_plan_builder *builder) {
    const struct ls_plan_config *config = builder->config;
    size_t count = ls_network_layer_count(config->network);
    struct ls_tensor labels = {(void *)config->labels, LS_INT32, LS_SHAPE(config->rows)};
    if (config->loss == LS_CATEGORICAL_CROSSENTROPY) {
        struct ls_op expand = {.kind = LS_OP_ONE_HOT};
        expand.tensors[LS_ARG_LABELS] = labels;
        expand.tensors[LS_ARG_ONE_HOT] = labels = builder->one_hot;
        ls_status status = ls_plan_append(builder, &expand);
        if (status) return status;
    }
    struct ls_op op = {.kind = LS_OP_SOFTMAX_CROSSENTROPY, .scale = config->loss_scale, .sums = config->sums};
    op.tensors[LS_ARG_LOGITS] = builder->values[count];
    op.tensors[LS_ARG_LABELS] = labels;
    op.tensors[LS_ARG_DLOGITS] = builder->gradients[count];
    ls_status status = ls_plan_append(builder, &op);
    if (!status && config->training)
        builder->plan->steps[builder->plan->count - 1].ready = ls_network_blob_count(config->network);
    return status;
}

static ls_status append_backward(struct ls_plan_builder *builder) {
    const struct ls_network *network = builder->config->network;
    for (size_t i = ls_network_layer_count(network); i-- > 0;) {
        const struct ls_node *node = ls_network_node(network, i);
        struct ls_node_tensors at = tensors_at(builder, i);
        if (!at.dy.data) break; /* nothing from here down has variables */
        ls_status status = node->type->backward(builder, node, &at);
        if (status) return ls_fail_context(status, "layer '%s'", node->name);
        if (node->variable_count)
            builder->plan->steps[builder->plan->count - 1].ready =
                ls_network_variable(network, node->first_variable)->offset;
    }
    return LS_OK;
}

static ls_status build_plan(struct ls_plan_builder *builder) {
    ls_status status = allocate_arena(builder);
    if (!status) status = append_forward(builder);
    if (!status) status = append_loss(builder);
    if (!status && builder->config->training) status = append_backward(builder);
    return status;
}

ls_status ls_plan_new(const struct ls_plan_config *config, struct ls_plan **plan) {
    ls_status status = check_config(config);
    if (status) return status;
    size_t tensors = ls_network_layer_count(config->network) + 1;
    LS_CLEANUP(free_plan) struct ls_plan *made = ls_alloc(sizeof(*made));
    LS_CLEANUP(ls_free_pointer) struct ls_tensor *values = ls_alloc_array(tensors, sizeof(*values));
    LS_CLEANUP(ls_free_pointer) struct ls_tensor *gradients = ls_alloc_array(tensors, sizeof(*gradients));
    if (!made || !values || !gradients) return ls_fail_memory("a plan", sizeof(*made) + 2 * tensors * sizeof(*values));
    made->device = config->device;
    struct ls_plan_builder builder = {.config = config, .plan = made, .values = values, .gradients = gradients};
    status = build_plan(&builder);
    if (!status) *plan = ls_steal(made);
    return status;
}

/* In oneDNN's generated matrix products (2.6.3, with AVX2 and AVX-512) the stack pointer points into the heap for a
 * while. The frame of a signal handler that ran then would overwrite what lies there: so signals wait for the end. */
ls_status ls_plan_run(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    sigset_t before;
    ls_status status = LS_OK;
    ls_signals_block(&before);
    for (size_t i = 0; !status && i < plan->count; i++) {
        const struct step *step = &plan->steps[i];
        status = step->op.run(&step->op);
        if (!status && ready && step->ready != NOT_READY) ready(context, step->ready);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
