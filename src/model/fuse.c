/* Which nodes a batch normalization does along with its own work: the sum with another value, then ReLU or ReLU6, where
 * nobody else sees what is in between. One pass over memory instead of three. And whose bias it takes away: its output
 * is the same with and without, and the bias' gradient is 0. The moving mean alone has the bias (layer_batch_norm.c).
 * A frozen one does neither: its backward has no activation, and its mean is not the batch's. */
#include "model/layer.h"

/* The only node that takes node's output; LS_NO_NODE when there are none or several. A value that another node reads as
 * well must exist in memory, so nothing may swallow it. Nodes come in the order of computing, hence consumers stand
 * behind node. */
static int only_consumer(const struct ls_node *nodes, size_t count, int node) {
    int found = LS_NO_NODE;
    for (size_t i = (size_t)node + 1; i < count; i++)
        for (int k = 0; k < nodes[i].input_count; k++) {
            if (nodes[i].inputs[k] != node) continue;
            if (found != LS_NO_NODE) return LS_NO_NODE;
            found = (int)i;
        }
    return found;
}

static bool is(const struct ls_node *nodes, int node, ls_layer_kind kind) {
    return node != LS_NO_NODE && nodes[node].layer.kind == kind;
}

/* The other input of a sum of two that is there before node runs. */
static int other_input(const struct ls_node *sum, int node) {
    if (sum->input_count != 2) return LS_NO_NODE;
    int other = sum->inputs[sum->inputs[0] == node];
    return other < node ? other : LS_NO_NODE;
}

static void take_next(struct ls_node *nodes, struct ls_node *node, int next) {
    nodes[next].owner = (int)node->index;
    node->last = next;
}

static void fuse(struct ls_node *nodes, size_t count, struct ls_node *node) {
    int next = only_consumer(nodes, count, node->last);
    int other = is(nodes, next, LS_LAYER_ADD) ? other_input(&nodes[next], node->last) : LS_NO_NODE;
    if (other != LS_NO_NODE) {
        node->residual = other;
        take_next(nodes, node, next);
        next = only_consumer(nodes, count, next);
    }
    if (!is(nodes, next, LS_LAYER_ACTIVATION)) return;
    ls_activation activation = nodes[next].layer.activation;
    if (activation != LS_RELU && activation != LS_RELU6) return;
    node->activation = activation;
    take_next(nodes, node, next);
}

static void fold_bias(struct ls_node *nodes, size_t count, struct ls_node *norm) {
    int before = norm->inputs[0];
    bool convolves =
        before >= 0 && (is(nodes, before, LS_LAYER_CONV2D) || is(nodes, before, LS_LAYER_DEPTHWISE_CONV2D));
    if (!convolves || nodes[before].layer.no_bias || nodes[before].layer.activation != LS_LINEAR) return;
    if (only_consumer(nodes, count, before) != (int)norm->index) return;
    nodes[before].folds = true;
    norm->folded = before;
}

void ls_fuse_nodes(struct ls_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].layer.kind != LS_LAYER_BATCH_NORMALIZATION || nodes[i].layer.frozen) continue;
        fuse(nodes, count, &nodes[i]);
        fold_bias(nodes, count, &nodes[i]);
    }
}
