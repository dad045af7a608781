/* The graph that Keras' TensorBoard calls conceptual: a node a layer, with Keras' class as its op. */
#include "callbacks/graph_event.h"

#include <stdio.h>

#include "base/new.h"
#include "model/layer.h"
#include "model/network.h"

struct texts {
    char name[LS_LAYER_NAME_SIZE + 32];
    const char *inputs[LS_MAX_INPUTS];
};

/* The node's number in the graph is one more than in the network: LS_NETWORK_INPUT becomes 0. */
static struct ls_event_node node_of(const struct ls_node *layer, struct texts *texts) {
    struct texts *own = &texts[layer->index + 1];
    for (int i = 0; i < layer->input_count; i++) own->inputs[i] = texts[layer->inputs[i] + 1].name;
    return (struct ls_event_node){.name = own->name,
                                  .op = layer->title.class_name,
                                  .inputs = own->inputs,
                                  .input_count = (size_t)layer->input_count,
                                  .output = layer->output};
}

ls_status ls_graph_event_write(struct ls_event_file *file, const ls_model *model, const char *prefix) {
    const struct ls_network *network = model->built.network;
    size_t count = ls_network_layer_count(network) + 1; /* the input is the first */
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_event_node, nodes, count, "a graph");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct texts, texts, count, "a graph");
    for (size_t i = 0; i < count; i++)
        (void)snprintf(texts[i].name, sizeof(texts[i].name), "%s%s", prefix,
                       i ? ls_network_node(network, i - 1)->name : "input");
    nodes[0] = (struct ls_event_node){.name = texts[0].name, .op = "InputLayer", .output = model->built.input};
    for (size_t i = 1; i < count; i++) nodes[i] = node_of(ls_network_node(network, i - 1), texts);
    return ls_event_file_graph(file, nodes, count);
}
