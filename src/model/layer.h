/* Layers from the inside: a node is one layer of a network with its inputs, shapes and variables; a layer type is one
 * row of a table: it infers shapes and variables, and appends ops to a plan. A new layer is one file and one row. */
#pragma once
#include <lockstep/lockstep.h>

#include "model/network.h"

#define LS_LAYER_NAME_SIZE 64
#define LS_MAX_INPUTS      (1 + LS_MAX_OTHER_INPUTS)
#define LS_NETWORK_INPUT   (-1) /* where the number of a node is asked for */
#define LS_NO_NODE         (-2)

struct ls_layer_type;
/* Keras' names of a layer. */
struct ls_layer_title {
    const char *name;       /* automatic, without number: "conv2d" */
    const char *class_name; /* "Conv2D" */
};

struct ls_node {
    char name[LS_LAYER_NAME_SIZE];
    ls_layer layer; /* layer.name is name; names of inputs are gone */
    const struct ls_layer_type *type;
    struct ls_layer_title title;
    size_t index;
    int inputs[LS_MAX_INPUTS], input_count; /* nodes */
    ls_shape input, output;                 /* of one example; input: the first one's */
    int first_variable, variable_count;     /* trainable ones, in the network's table */
    int first_statistic, statistic_count;   /* the others */
    int first_table, table_count;           /* the sparse ones, in a list of their own */
    /* what of the following nodes this one's op does too: batch normalization adds a residual and activates */
    int last;     /* the node whose output the op writes: itself where nothing follows */
    int residual; /* what is added; LS_NO_NODE: nothing */
    ls_activation activation;
    int owner; /* the node whose op does this one: itself, or an earlier one */
    /* A convolution whose bias training leaves out, for the batch normalization behind it takes it away again; and of
     * that normalization, the convolution, or LS_NO_NODE. */
    bool folds;
    int folded;
};

/* One layer in a plan: tensors over all rows. Absent gradients: nobody needs them. */
struct ls_node_tensors {
    struct ls_tensor x[LS_MAX_INPUTS], y, residual; /* activations */
    struct ls_tensor dy, dx[LS_MAX_INPUTS], dresidual;
};

struct ls_plan_builder;
struct ls_layer_type {
    ls_layer_kind kind;
    struct ls_layer_title title;
    /* for a title that depends on fields; NULL if it is title */
    struct ls_layer_title (*title_of)(const ls_layer *layer);
    ls_layer takes;              /* not zero: each field of layer_fields.c that says something to this kind */
    const char *described_units; /* units' name in descriptions; NULL if the shapes tell them */
    /* Checks fields that need no shape: INVALID_ARGUMENT naming the field. position is for messages. May be NULL. */
    ls_status (*check)(const struct ls_node *node, size_t position);
    /* Checks fields that need shapes, writes node->output and adds variables. */
    ls_status (*infer)(struct ls_network *network, struct ls_node *node, size_t position);
    /* True if y is x in another shape, so that the layer has no ops. May be NULL. */
    bool (*passes_through)(const struct ls_node *node, bool training);
    ls_status (*forward)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    /* dy is this layer's to overwrite, and to pass on: at->dx[0] = at->dy. */
    ls_status (*backward)(struct ls_plan_builder *builder, const struct ls_node *node, struct ls_node_tensors *at);
    /* Computes y from x once more, in backward, so that the plan need not keep y. NULL if not possible. */
    ls_status (*again)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    bool reads_x; /* in backward */
};
/* The table: ls_NAME_type stands in the layer's file. */
#define LS_LAYER_TYPES(ROW)                                                                                            \
    ROW(dense)                                                                                                         \
    ROW(flatten)                                                                                                       \
    ROW(activation)                                                                                                    \
    ROW(conv2d)                                                                                                        \
    ROW(depthwise_conv2d)                                                                                              \
    ROW(batch_normalization)                                                                                           \
    ROW(max_pooling2d)                                                                                                 \
    ROW(average_pooling2d)                                                                                             \
    ROW(global_max_pooling2d)                                                                                          \
    ROW(global_average_pooling2d)                                                                                      \
    ROW(add)                                                                                                           \
    ROW(concatenate)                                                                                                   \
    ROW(zero_padding2d)                                                                                                \
    ROW(rescaling)                                                                                                     \
    ROW(dropout)                                                                                                       \
    ROW(embedding)                                                                                                     \
    ROW(global_average_pooling1d)
#define LS_LAYER_DECLARE(name) extern const struct ls_layer_type ls_##name##_type;
LS_LAYER_TYPES(LS_LAYER_DECLARE)

/* For infer. */
struct ls_variable_spec {
    const char *name; /* "kernel" */
    ls_shape shape;
    ls_initializer initializer;
    int64_t fan_in, fan_out;
    bool statistic; /* moved by momentum, not trained */
    float momentum; /* what a step keeps of it */
    bool sparse;    /* a table whose rows are in no blob */
};

/* For forward and backward. */
static inline bool ls_tensor_exists(const struct ls_tensor *tensor) {
    return tensor->data || tensor->buffer;
}
