/* The cuts of a pipeline. Costs are those of a training's ops; a dynamic programme over the nodes finds the cuts whose
 * dearest stage is cheapest, and of equal ones the first. A network with convolutions is not cut: the images that a
 * kernel's gradient takes at a time follow from the ops beside it (parts.c), and other ops beside it are other bits. */
#include "model/stages.h"

#include "base/new.h"
#include "base/shape.h"
#include "model/layer.h"
#include "model/plan.h"
#include "model/plan_builder.h"

#define PRODUCTS_A_BYTE 2.5 /* that a processor makes while it moves a byte */

/* ---- costs ---- */

/* Each element of what a kernel makes, or is made of, takes a column of it. */
static double count_products(const struct ls_op *op) {
    const struct ls_tensor *kernel = &op->tensors[LS_ARG_W];
    const struct ls_tensor *made = &op->tensors[ls_tensor_exists(&op->tensors[LS_ARG_DY]) ? LS_ARG_DY : LS_ARG_Y];
    int rank = kernel->shape.rank;
    bool multiplies = op->kind == LS_OP_DENSE_FORWARD || op->kind == LS_OP_DENSE_BACKWARD;
    if (!multiplies || !ls_tensor_exists(kernel) || rank < 2) return 0;
    double columns = (double)ls_shape_count(&kernel->shape) / (double)kernel->shape.dims[rank - 1];
    int times = op->kind == LS_OP_DENSE_BACKWARD
                    ? ls_tensor_exists(&op->tensors[LS_ARG_DX]) + ls_tensor_exists(&op->tensors[LS_ARG_DW])
                    : 1;
    return times * columns * (double)ls_shape_count(&made->shape);
}

/* An op of no node, as the loss is, counts for the last one. */
static size_t node_of(const struct ls_network *network, const struct ls_plan_step *step) {
    size_t last = ls_network_layer_count(network) - 1;
    for (size_t i = 0; i < last; i++)
        if (step->of == ls_network_node(network, i)->name) return i;
    return last;
}

/* costs [layers] */
static ls_status add_costs(const struct ls_plan_config *config, double *costs) {
    struct ls_plan plan = {.device = config->device};
    ls_status status = ls_plan_builder_run(config, LS_RECOMPUTE_NONE, &plan);
    for (size_t i = 0; i < plan.count; i++)
        costs[node_of(config->network, &plan.steps[i])] +=
            ls_plan_cost_moved(&plan.steps[i].op) + count_products(&plan.steps[i].op) / PRODUCTS_A_BYTE;
    ls_free(plan.steps);
    ls_free(plan.buffers);
    return status;
}

/* ---- places ---- */

static bool needs_one_before(const struct ls_node *node, size_t begin) {
    bool before = node->owner < (int)begin || (node->folded >= 0 && node->folded < (int)begin);
    for (int k = 0; k < node->input_count; k++) before = before || node->inputs[k] < (int)begin - 1;
    return before || (node->residual != LS_NO_NODE && node->residual < (int)begin - 1);
}

/* All nodes from begin on take the value of the node before it, and no earlier one. */
static bool may_begin(const struct ls_network *network, size_t begin) {
    for (size_t i = begin; i < ls_network_layer_count(network); i++)
        if (needs_one_before(ls_network_node(network, i), begin)) return false;
    return true;
}

static bool is_trained(const struct ls_network *network, size_t index) {
    const struct ls_node *node = ls_network_node(network, index);
    for (int v = 0; v < node->variable_count; v++)
        if (ls_network_variable_of(network, node, v)->trained) return true;
    return false;
}

static ls_status check_layers(const struct ls_network *network) {
    for (size_t i = 0; i < ls_network_layer_count(network); i++) {
        const struct ls_node *node = ls_network_node(network, i);
        ls_layer_kind kind = node->layer.kind;
        if (kind == LS_LAYER_CONV2D || kind == LS_LAYER_DEPTHWISE_CONV2D || kind == LS_LAYER_CONV1D)
            return ls_fail(LS_UNIMPLEMENTED,
                           "stages: layer '%s' is a convolution, whose sums follow from the layers beside it, so a cut "
                           "would change the bits; leave stages out",
                           node->name);
    }
    return LS_OK;
}

/* ---- the choice ---- */

/* Of nodes from 0 to before n, in so many stages. */
struct choice {
    double dearest; /* less than 0: there is none */
    size_t start;   /* of the last stage */
};
struct search {
    size_t count;           /* nodes */
    double *costs;          /* [count + 1] of the nodes before each */
    size_t *trained;        /* likewise, those that are trained */
    bool *may;              /* [count] a stage may begin there */
    struct choice *choices; /* [stages][count + 1] */
};

static struct choice choose(const struct search *search, const struct choice *before, size_t n) {
    struct choice best = {-1, 0};
    for (size_t start = 1; start < n; start++) {
        if (!search->may[start] || before[start].dearest < 0 || search->trained[n] == search->trained[start]) continue;
        double last = search->costs[n] - search->costs[start];
        double dearest = last > before[start].dearest ? last : before[start].dearest;
        if (best.dearest < 0 || dearest < best.dearest) best = (struct choice){dearest, start};
    }
    return best;
}

static ls_status find_cuts(const struct search *search, int stages, size_t *starts) {
    size_t width = search->count + 1, end = search->count;
    int most = 0;
    for (size_t n = 1; n < width; n++)
        search->choices[n] = (struct choice){search->trained[n] ? search->costs[n] : -1, 0};
    search->choices[0].dearest = -1;
    for (int s = 1; s < stages; s++)
        for (size_t n = 0; n < width; n++)
            search->choices[(size_t)s * width + n] = choose(search, search->choices + (size_t)(s - 1) * width, n);
    while (most < stages && search->choices[(size_t)most * width + end].dearest >= 0) most++;
    if (most < stages)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "stages %d: the model can be cut into %d at most, for each stage trains a variable, and one "
                       "value goes from one to the next",
                       stages, most);
    starts[stages] = end;
    for (int s = stages; s-- > 0;) {
        starts[s] = search->choices[(size_t)s * width + end].start;
        end = starts[s];
    }
    return LS_OK;
}

ls_status ls_stages_cut(const struct ls_plan_config *config, int stages, size_t *starts) {
    const struct ls_network *network = config->network;
    size_t count = ls_network_layer_count(network), width = count + 1;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(double, costs, width, "stages");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, trained, width, "stages");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(bool, may, width, "stages");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct choice, choices, (size_t)stages * width, "stages");
    ls_status status = check_layers(network);
    if (!status) status = add_costs(config, costs + 1);
    for (size_t i = 0; i < count; i++) {
        costs[i + 1] += costs[i];
        trained[i + 1] = trained[i] + is_trained(network, i);
        may[i] = may_begin(network, i);
    }
    const struct search search = {count, costs, trained, may, choices};
    return status ? status : find_cuts(&search, stages, starts);
}
