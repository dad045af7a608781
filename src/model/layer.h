/* Layers from the inside: a node is one layer of a network with its inputs, shapes and variables; a layer type is one
 * row of a table: it infers shapes and variables, and appends ops to a plan. A new layer is one file and one line. */
#pragma once
#include <lockstep/lockstep.h>

#include "model/network.h"

#define LS_LAYER_NAME_SIZE 64
#define LS_MAX_INPUTS      (1 + LS_MAX_OTHER_INPUTS)
#define LS_NETWORK_INPUT   (-1) /* where the number of a node is asked for */
#define LS_NO_NODE         (-2)

struct ls_node {
    char name[LS_LAYER_NAME_SIZE];
    ls_layer layer; /* layer.name is name; names of inputs are gone */
    const struct ls_layer_type *type;
    size_t index;
    int inputs[LS_MAX_INPUTS], input_count; /* nodes */
    ls_shape input, output;                 /* of one example; input: the first one's */
    int first_variable, variable_count;     /* trainable ones, in the network's table */
    int first_statistic, statistic_count;   /* the others */
    /* what of the following nodes this one's op does too: batch normalization adds a residual and activates */
    int last;     /* the node whose output the op writes: itself where nothing follows */
    int residual; /* what is added; LS_NO_NODE: nothing */
    ls_activation activation;
    int owner; /* the node whose op does this one: itself, or an earlier one */
};

/* One layer in a plan: tensors over all rows. Absent gradients: nobody needs them. */
struct ls_node_tensors {
    struct ls_tensor x[LS_MAX_INPUTS], y, residual; /* activations */
    struct ls_tensor dy, dx[LS_MAX_INPUTS], dresidual;
};

struct ls_plan_builder;
struct ls_layer_type {
    ls_layer_kind kind;
    const char *(*base_name)(const ls_layer *layer); /* Keras' automatic name, without number */
    /* Checks the layer's fields, writes node->output and adds variables. position is for messages. */
    ls_status (*infer)(struct ls_network *network, struct ls_node *node, size_t position);
    /* True: y is x in another shape, and there are no ops. NULL: never. */
    bool (*passes_through)(const struct ls_node *node, bool training);
    ls_status (*forward)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    /* dy is this layer's to overwrite, and to pass on: at->dx[0] = at->dy. */
    ls_status (*backward)(struct ls_plan_builder *builder, const struct ls_node *node, struct ls_node_tensors *at);
    /* y from x once more, in backward, so that it need not be kept; NULL: not possible. */
    ls_status (*again)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    bool reads_x; /* in backward */
};
extern const struct ls_layer_type ls_dense_type, ls_flatten_type, ls_activation_type, ls_conv2d_type,
    ls_depthwise_conv2d_type, ls_batch_normalization_type, ls_max_pooling2d_type, ls_average_pooling2d_type,
    ls_global_max_pooling2d_type, ls_global_average_pooling2d_type, ls_add_type, ls_concatenate_type,
    ls_zero_padding2d_type, ls_rescaling_type, ls_dropout_type;

/* For infer. */
struct ls_variable_spec {
    const char *name; /* "kernel" */
    ls_shape shape;
    ls_initializer initializer;
    int64_t fan_in, fan_out;
    bool statistic; /* moved, not trained: */
    float momentum; /* what a step keeps of it */
};
ls_status ls_network_add_variable(struct ls_network *network, struct ls_node *node,
                                  const struct ls_variable_spec *spec);
const ls_shape *ls_network_input_shape(const struct ls_network *network, const struct ls_node *node, int index);
/* INVALID_ARGUMENT "layer 2: activation 7 is ..." */
ls_status ls_layer_check_activation(const ls_layer *layer, size_t position);
/* INVALID_ARGUMENT unless the input is an image (height, width, channels). */
ls_status ls_layer_check_image(const struct ls_node *node, size_t position);
const char *ls_activation_name(ls_activation activation); /* "linear", "relu" */
const char *ls_layer_class(const ls_layer *layer);        /* Keras' name of its class: "Conv2D" */
/* How the layer's window moves over its input, with padding resolved. INVALID_ARGUMENT where it does not fit. */
ls_status ls_layer_window(const struct ls_node *node, size_t position, struct ls_window *window);

/* For forward and backward. */
/* A tensor in the plan's memory, from the first op that has it to the last. */
struct ls_tensor ls_plan_tensor(struct ls_plan_builder *builder, ls_dtype dtype, const ls_shape *shape);
/* The node's index-th variable in the blob, or its gradient; the same of what is moved and not trained. A kernel is
 * what products and convolutions take: where they are of 16 bits, its copy. */
struct ls_tensor ls_plan_parameter(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_kernel(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_gradient(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_statistic(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
struct ls_tensor ls_plan_statistic_change(const struct ls_plan_builder *builder, const struct ls_node *node, int index);
/* One tensor a node that forward leaves to backward. */
struct ls_tensor *ls_plan_kept(struct ls_plan_builder *builder, const struct ls_node *node);
const struct ls_plan_config *ls_plan_config_of(const struct ls_plan_builder *builder);
ls_status ls_plan_append(struct ls_plan_builder *builder, const struct ls_op *op);
/* y = activation(y) and dy's way back through it, in place; nothing for LS_LINEAR. */
ls_status ls_plan_append_activation(struct ls_plan_builder *builder, const ls_layer *layer, const struct ls_tensor *y);
ls_status ls_plan_append_activation_back(struct ls_plan_builder *builder, const ls_layer *layer,
                                         const struct ls_tensor *y, const struct ls_tensor *dy);
static inline bool ls_tensor_exists(const struct ls_tensor *tensor) {
    return tensor->data || tensor->buffer;
}

/* For the plan. */
size_t ls_network_layer_count(const struct ls_network *network);
const ls_shape *ls_network_input(const struct ls_network *network); /* one example */
const struct ls_node *ls_network_node(const struct ls_network *network, size_t index);
/* fuse.c: decides what batch normalizations do of what follows them. */
void ls_nodes_fuse(struct ls_node *nodes, size_t count);
