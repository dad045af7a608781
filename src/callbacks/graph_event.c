/* The graph that Keras' TensorBoard calls conceptual: a node a layer, with Keras' class as its op. */
#include "callbacks/graph_event.h"

#include <stdio.h>

#include "base/memory.h"
#include "model/layer.h"
#include "model/network.h"

struct graph {
    struct ls_event_node *nodes;            /* [count]; the input is the first */
    char (*names)[LS_LAYER_NAME_SIZE + 32]; /* [count] */
    const char *(*inputs)[LS_MAX_INPUTS];   /* [count] */
    size_t count;
};

static void release_graph_event(struct graph *graph) {
    ls_free(graph->nodes);
    ls_free(graph->names);
    ls_free((void *)graph->inputs);
}

static ls_status allocate_nodes(struct graph *graph) {
    graph->nodes = ls_alloc_array(graph->count, sizeof(*graph->nodes));
    graph->names = ls_alloc_array(graph->count, sizeof(*graph->names));
    graph->inputs = ls_alloc_array(graph->count, sizeof(*graph->inputs));
    if (graph->nodes && graph->names && graph->inputs) return LS_OK;
    return ls_fail_memory("a graph", graph->count * sizeof(*graph->nodes));
}

/* The node's number in the graph is one more than in the network: LS_NETWORK_INPUT becomes 0. */
static void fill_layer(struct graph *graph, const struct ls_node *layer) {
    size_t place = layer->index + 1;
    for (int i = 0; i < layer->input_count; i++) graph->inputs[place][i] = graph->names[layer->inputs[i] + 1];
    graph->nodes[place] = (struct ls_event_node){.name = graph->names[place],
                                                 .op = layer->title.class_name,
                                                 .inputs = graph->inputs[place],
                                                 .input_count = (size_t)layer->input_count,
                                                 .output = layer->output};
}

ls_status ls_graph_event_write(struct ls_event_file *file, const ls_model *model, const char *prefix) {
    const struct ls_network *network = model->built.network;
    LS_CLEANUP(release_graph_event) struct graph graph = {.count = ls_network_layer_count(network) + 1};
    ls_status status = allocate_nodes(&graph);
    if (status) return status;
    for (size_t i = 0; i < graph.count; i++)
        (void)snprintf(graph.names[i], sizeof(graph.names[i]), "%s%s", prefix,
                       i ? ls_network_node(network, i - 1)->name : "input");
    graph.nodes[0] = (struct ls_event_node){.name = graph.names[0], .op = "InputLayer", .output = model->built.input};
    for (size_t i = 1; i < graph.count; i++) fill_layer(&graph, ls_network_node(network, i - 1));
    return ls_event_file_graph(file, graph.nodes, graph.count);
}
