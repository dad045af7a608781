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
    int tied;                               /* the embedding whose table it takes too; LS_NO_NODE */
    bool is_tied;                           /* another node takes its table, and writes its gradient first */
    ls_shape input, output;                 /* of one example; input: the first one's */
    int first_variable, variable_count;     /* for ls_network_variable_of */
    int first_table, table_count;           /* the sparse ones, in a list of their own */
    /* what of the following nodes this one's op does too: batch normalization adds a residual and activates */
    int last;     /* the node whose output the op writes: itself where nothing follows */
    int residual; /* what is added; LS_NO_NODE: nothing */
    ls_activation activation;
    int owner;   /* the node whose op does this one: itself, or an earlier one */
    bool inside; /* of a block, where its value is not that through which all goes: blocks.c */
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
    struct ls_layer_title title; /* its name is the kind's in files */
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
    /* Ops of a training before those of all nodes, in forward and then in backward. May be NULL. */
    ls_status (*begin)(struct ls_plan_builder *builder, const struct ls_node *node, bool backward);
    ls_status (*forward)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    /* The same for some positions of the examples, behind others that have been there (plan_decode.c): forward itself,
     * where a position takes nothing of others. NULL: it takes others, and no plan keeps what it needs of them. */
    ls_status (*decode)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    int64_t (*kept_floats)(const struct ls_node *node); /* of an example, for decode; NULL: none */
    bool (*looks_ahead)(const struct ls_node *node);    /* takes positions behind, so there is no decode; may be NULL */
    /* dy is this layer's to overwrite, and to pass on: at->dx[0] = at->dy. */
    ls_status (*backward)(struct ls_plan_builder *builder, const struct ls_node *node, struct ls_node_tensors *at);
    /* Computes y from x once more, in backward, so that the plan need not keep y. NULL if not possible. Of a kind that
     * takes an activation: from what that took, where the plan keeps it for backward anyway. */
    ls_status (*again)(struct ls_plan_builder *builder, const struct ls_node *node, const struct ls_node_tensors *at);
    bool reads_x, reads_y; /* in backward; activations aside */
    bool divides; /* its ops may be appended for parts of the rows, and what they add up over rows adds up over parts */
};
/* The table: ls_NAME_type stands in the layer's file. */
#define LS_LAYER_TYPES(ROW)                                                                                            \
    ROW(dense)                                                                                                         \
    ROW(flatten)                                                                                                       \
    ROW(activation)                                                                                                    \
    ROW(conv2d)                                                                                                        \
    ROW(depthwise_conv2d)                                                                                              \
    ROW(layer_normalization)                                                                                           \
    ROW(rms_normalization)                                                                                             \
    ROW(batch_normalization)                                                                                           \
    ROW(max_pooling2d)                                                                                                 \
    ROW(average_pooling2d)                                                                                             \
    ROW(global_max_pooling2d)                                                                                          \
    ROW(global_average_pooling2d)                                                                                      \
    ROW(add)                                                                                                           \
    ROW(multiply)                                                                                                      \
    ROW(concatenate)                                                                                                   \
    ROW(zero_padding2d)                                                                                                \
    ROW(rescaling)                                                                                                     \
    ROW(dropout)                                                                                                       \
    ROW(embedding)                                                                                                     \
    ROW(global_average_pooling1d)                                                                                      \
    ROW(tied_dense)                                                                                                    \
    ROW(attention)                                                                                                     \
    ROW(position_embedding)                                                                                            \
    ROW(lstm)                                                                                                          \
    ROW(gru)                                                                                                           \
    ROW(conv1d)                                                                                                        \
    ROW(max_pooling1d)                                                                                                 \
    ROW(average_pooling1d)                                                                                             \
    ROW(global_max_pooling1d)
#define LS_LAYER_DECLARE(name) extern const struct ls_layer_type ls_##name##_type;
LS_LAYER_TYPES(LS_LAYER_DECLARE)

/* For infer. */
struct ls_variable_spec {
    const char *name; /* "kernel" */
    ls_shape shape;
    ls_initializer initializer;
    int64_t fan_in, fan_out;
    bool moved;      /* by sums, and not trained */
    float momentum;  /* what a step keeps of it */
    bool sparse;     /* a table whose rows are in no blob */
    int64_t ones[2]; /* elements from the first to before the second are 1, whatever the initializer */
};

/* For forward and backward. */
static inline bool ls_tensor_exists(const struct ls_tensor *tensor) {
    return tensor->data || tensor->buffer;
}

/* Names of layers. */

/* Writes every node's name: the user's, or Keras' automatic one ("dense", "dense_1", ...), skipping names that are
 * taken. INVALID_ARGUMENT for a bad name or one that is there twice. */
ls_status ls_layer_names(struct ls_node *nodes, size_t count);

/* An activation as a layer of its own, and as the end of other layers. */

/* The tensor for what the activation takes, which the layer's op writes: y. In a training, where the slope follows from
 * that value, it is one of its own, which the node keeps as LS_KEPT_BEFORE. */
struct ls_tensor ls_layer_activation_place(struct ls_plan_builder *builder, const struct ls_node *node,
                                           const struct ls_tensor *y);
/* y = activation(what is in that place), and dy's way back through it, in place; nothing for LS_LINEAR. */
ls_status ls_layer_activation_append(struct ls_plan_builder *builder, const struct ls_node *node,
                                     const struct ls_tensor *y);
ls_status ls_layer_activation_append_back(struct ls_plan_builder *builder, const struct ls_node *node,
                                          const struct ls_tensor *y, const struct ls_tensor *dy);
/* The same as the layer's again, where the activation takes x. */
ls_status ls_layer_activation_again(struct ls_plan_builder *builder, const struct ls_node *node,
                                    const struct ls_node_tensors *at);

/* Windows of convolutions and pools over an image. */

/* For takes: the fields of a window. */
#define LS_LAYER_SEQUENCE_FIELDS .kernel_size = 1, .strides = 1, .padding = LS_SAME
#define LS_LAYER_WINDOW_FIELDS   LS_LAYER_SEQUENCE_FIELDS, .kernel_width = 1

/* The same of the window's size and how it moves. */
ls_status ls_layer_window_check(const struct ls_node *node, size_t position);
/* The input as an image (height, width, channels): a sequence (n, channels) is one of a single column. And the shape of
 * what a window over it yields, of the same kind as the input. */
ls_shape ls_layer_window_image(const struct ls_node *node);
ls_shape ls_layer_window_output(const struct ls_node *node, const struct ls_window *window, int64_t channels);
/* A tensor over the batch as an op has it: one of sequences as images, and of channels alone as images of one place. */
struct ls_tensor ls_layer_window_as_image(struct ls_tensor tensor);
/* INVALID_ARGUMENT unless the input is an image, or for layers over sequences a sequence. */
ls_status ls_layer_window_check_image(const struct ls_node *node, size_t position);
/* Fills in the layer's window over its input, with padding resolved. INVALID_ARGUMENT if it does not fit. */
ls_status ls_layer_window(const struct ls_node *node, size_t position, struct ls_window *window);

/* Which nodes a batch normalization does along with its own work. */

/* Decides what batch normalizations do of what follows them. */
void ls_fuse_nodes(struct ls_node *nodes, size_t count);

/* Blocks. */

/* Marks the nodes inside of blocks. */
void ls_blocks_mark(struct ls_node *nodes, size_t count);

/* Activations by name, and as a field of layers. */

/* INVALID_ARGUMENT "layer 2: activation 7 is ..." */
ls_status ls_activation_check(const struct ls_node *node, size_t position);
const char *ls_activation_name(ls_activation activation); /* "linear", "relu" */
