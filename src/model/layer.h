/* Layers from the inside: a node is one layer of a network with its shapes and variables; a layer kind is one row of a
 * table: it infers shapes and variables, and appends ops to a plan. A new layer is one file and one line. */
#pragma once
#include <lockstep/lockstep.h>

#include "model/network.h"

#define LS_LAYER_NAME_SIZE 64

struct ls_node {
    char name[LS_LAYER_NAME_SIZE];
    ls_layer layer; /* layer.name is name */
    const struct ls_layer_type *type;
    ls_shape input, output;             /* of one example */
    int first_variable, variable_count; /* in the network's table */
};

/* One layer in a plan: tensors over all rows. data is NULL until the arena exists. */
struct ls_node_tensors {
    struct ls_tensor x, y;   /* activations */
    struct ls_tensor dy, dx; /* gradients; dx.data NULL: nobody needs it */
};

struct ls_plan_builder;
struct ls_layer_type {
    ls_layer_kind kind;
    const char *(*base_name)(const ls_layer *layer); /* Keras' automatic name, without number */
    /* Checks the layer's fields, writes node->output and adds variables. position is for messages. */
    ls_status (*infer)(struct ls_network *network, struct ls_node *node, size_t position);
    /* True: y is x in another shape, and there are no ops. */
    bool (*passes_through)(const struct ls_node *node);
    ls_status (*forward)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    /* May overwrite dy. */
    ls_status (*backward)(struct ls_plan_builder *builder, const struct ls_node *node,
                          const struct ls_node_tensors *at);
};
extern const struct ls_layer_type ls_dense_type, ls_flatten_type, ls_activation_type;

/* For infer. */
struct ls_variable_spec {
    const char *name; /* "kernel" */
    ls_shape shape;
    ls_initializer initializer;
    int64_t fan_in, fan_out;
};
ls_status ls_network_add_variable(struct ls_network *network, struct ls_node *node,
                                  const struct ls_variable_spec *spec);
/* INVALID_ARGUMENT "layer 2: activation 7 is ..." */
ls_status ls_layer_check_activation(const ls_layer *layer, size_t position);
const char *ls_activation_name(ls_activation activation); /* "linear", "relu" */

/* For forward and backward: the node's index-th variable in the blob, or its gradient; and one more op. */
struct ls_tensor ls_plan_parameter(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_gradient(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
ls_status ls_plan_append(struct ls_plan_builder *builder, const struct ls_op *op);

/* For the plan. */
size_t ls_network_layer_count(const struct ls_network *network);
const struct ls_node *ls_network_node(const struct ls_network *network, size_t index);
