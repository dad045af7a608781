/* Blocks of a network: what lies between two values through which all goes, as the norm, attention and projection
 * between two sums of a residual stream. Of a block backward needs its input alone, when its forward runs again
 * (LS_RECOMPUTE_BLOCKS). A network with convolutions has none: the images that a kernel's gradient takes at a time
 * follow from the ops beside it (parts.c), and more ops would be other bits. */
#include "model/layer.h"

static bool convolves(const struct ls_node *node) {
    ls_layer_kind kind = node->layer.kind;
    return kind == LS_LAYER_CONV2D || kind == LS_LAYER_DEPTHWISE_CONV2D || kind == LS_LAYER_CONV1D;
}

/* A node is inside where a later one takes a value from before it. Seen from the end: the earliest input of all nodes
 * behind this one. The network's own input is there for all of a step, and counts for nothing. */
void ls_blocks_mark(struct ls_node *nodes, size_t count) {
    int earliest = (int)count;
    for (size_t i = 0; i < count; i++)
        if (convolves(&nodes[i])) return;
    for (size_t i = count; i-- > 0;) {
        nodes[i].inside = earliest < (int)i;
        for (int k = 0; k < nodes[i].input_count; k++)
            if (nodes[i].inputs[k] != LS_NETWORK_INPUT && nodes[i].inputs[k] < earliest) earliest = nodes[i].inputs[k];
    }
}
