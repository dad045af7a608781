/* A network: layers with shapes and variables, independent of devices and replicas; and a plan: the flat list of ops
 * that one replica runs for a given number of rows. Parameters, gradients and moments are one contiguous float32 blob
 * each, in plain layout. The trained variables come first, in forward order, so that gradients become ready from the
 * tail. Those that sums move follow, such as statistics; the frozen ones, which are neither, come last. The gradient
 * blob ends before these: it holds a variable's gradient, or the change of a moved one by this replica. The sum of the
 * changes over all replicas is added to the variable. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/fill.h"
#include "device/device.h"
#include "model/objective.h"

struct ls_network_variable {
    char name[96]; /* "dense_1/kernel" */
    ls_shape shape;
    size_t offset, count; /* elements in the blob; offsets are multiples of 16 (64 bytes), gaps stay zero */
    ls_initializer initializer;
    int64_t fan_in, fan_out;
    float stddev;    /* of LS_RANDOM_NORMAL; 0: the default */
    int64_t ones[2]; /* elements that are 1 at first: from, and the one behind */
    bool trained;    /* by gradients and the optimizer's rule */
    bool moved;      /* by the sum of all replicas' changes */
    float rate;      /* of a trained one: what multiplies the learning rate */
    float l1, l2;    /* regularisers */
    float momentum;  /* of a moved one: what a step keeps of it */
    int before;      /* of a sparse table: variables in front of it, where it is none */
};
struct ls_network;
/* The rows of tables that a plan takes, in place of whole tables. Of rows x ids places a table, as many have rows as
 * ids are different. */
struct ls_plan_rows {
    int32_t *places;                 /* device (rows, input...): the place of each id's row */
    float **parameters, **gradients; /* [tables] device (places, width) */
};
/* Returns the errors of ls_network_new that do not depend on the input. */
ls_status ls_network_check(const ls_layer *layers, size_t count);
/* found [count] becomes true for layers with variables whose names match. names: names and shell patterns with commas.
 * INVALID_ARGUMENT names one that matches none. */
ls_status ls_network_find(const ls_layer *layers, size_t count, const char *names, bool *found);
/* Copies layers; input is the shape of one example. INVALID_ARGUMENT naming the layer and the field. */
ls_status ls_network_new(const ls_layer *layers, size_t count, const ls_shape *input, struct ls_network **network);
void ls_network_free(struct ls_network *network);
size_t ls_network_blob_count(const struct ls_network *network);      /* float32 elements in a blob, gaps included */
size_t ls_network_trainable_count(const struct ls_network *network); /* those of them that come first */
size_t ls_network_summed_count(const struct ls_network *network);    /* and with the moved ones: those of gradients */
int ls_network_variable_count(const struct ls_network *network);
int ls_network_summed_variables(
    const struct ls_network *network); /* those of them that are not frozen, which come first */
const struct ls_network_variable *ls_network_variable(const struct ls_network *network, int index);
/* The sparse tables are variables too, which lie in no blob and have no offset. */
int ls_network_table_count(const struct ls_network *network);
const struct ls_network_variable *ls_network_table(const struct ls_network *network, int index);
int ls_network_outputs(
    const struct ls_network *network); /* elements of the last layer's output: classes, of one axis */
const ls_shape *ls_network_output_shape(const struct ls_network *network);
/* Says whether examples are integers, which embedding layers alone take, or floats, which hold ids of at most 2^24
 * rows. INVALID_ARGUMENT naming the layer that does not take them. */
ls_status ls_network_take_integers(struct ls_network *network, bool integers);
bool ls_network_takes_integers(const struct ls_network *network);
/* The model's input as ids, of an embedding layer: (rows, count), LS_INT32 or LS_FLOAT32. features: (rows, input...).
 */
struct ls_tensor ls_network_ids(const struct ls_network *network, const void *features, int64_t rows);
/* INVALID_ARGUMENT naming an embedding layer, of which bytes / 255 are no ids. */
ls_status ls_network_check_bytes(const struct ls_network *network);
/* INVALID_ARGUMENT naming the layer, where one of its ids in features (rows, input...) is none. */
ls_status ls_network_check_ids(const struct ls_network *network, const void *features, int64_t rows);
/* Writes initial values into a host blob: a function of (seed, variable name, element) only. */
void ls_network_initialize(const struct ls_network *network, uint64_t seed, float *blob);

/* Memory that the plans of one replica use in turn: it grows to what the largest one needs. */
struct ls_arena {
    struct ls_device *device; /* borrowed */
    void *memory;
    size_t size; /* bytes */
};

/* Variables that come while the plan runs. It is called before ops that read variables below that element of the blob,
 * and with SIZE_MAX before ops that write gradients. An error of it ends the run. */
typedef ls_status ls_plan_await_fn(void *context, size_t end);
/* Decoding (plan_decode.h). Of a network without an obstacle. */
struct ls_decoding {
    int64_t positions; /* of each row; the plan's features are (rows, positions) */
    const int32_t *at; /* device: the first one's place in the example, which each run reads; they fit into that */
    float *kept;       /* device: rows times ls_plan_decode_floats; a run reads and writes it */
    size_t layers;     /* that run, of ls_plan_decode_layers: the plan has no outputs; 0: all */
};
/* A stage of a pipeline: a plan of the nodes from begin to before end alone. All that goes from a stage to the next one
 * is the value of one node (stages.h). */
struct ls_plan_stage {
    size_t begin, end;
    const float *entry; /* device (rows, output...): the value of node begin - 1; of a stage behind the first one */
};
struct ls_plan_config {
    const struct ls_network *network; /* borrowed, as is everything here */
    struct ls_device *device;
    int64_t rows;  /* >= 1 */
    bool training; /* false: forward alone; gradients may be NULL */
    struct ls_objective objective;
    float *parameters, *gradients; /* device blobs */
    const void *features;          /* device (rows, input...) float32, or int32 as of ls_network_take_integers */
    /* device (byte_channels, 256): features are bytes, and these are what they stand for (LS_OP_EXPAND); NULL: floats
     */
    const float *byte_values;
    int byte_channels;
    const struct ls_plan_rows *tables; /* NULL if the network has no sparse ones */
    /* device: classes, of the outputs' shape without the last axis; or targets of the outputs' shape that are numbers.
     * Both NULL: the plan has no loss, and sums may be NULL */
    const int32_t *labels;
    const float *numbers;
    const float *weights;        /* device (rows); NULL if all examples count as 1 */
    const float *loss_scale;     /* read at each run: 1 / global rows */
    const float *gradient_scale; /* of the loss's gradients, likewise; NULL if it is loss_scale */
    struct ls_loss_sums *sums;   /* written by each run; metrics beyond the objective's are left alone */
    struct ls_arena *arena;      /* of the same device; NULL if the plan makes its own */
    /* bytes: LS_RECOMPUTE_AUTO keeps what backward could make again since forward if all layers fit in so many */
    size_t keep_within;
    ls_plan_await_fn *await; /* NULL: all variables are there */
    void *await_context;
    const struct ls_exchange *exchange; /* of synchronized layers; NULL if this replica is alone */
    const struct ls_plan_stage *stage;  /* NULL: all nodes */
    const struct ls_decoding *decoding; /* plan_decode.h; NULL: whole examples. It has no training and no loss */
    /* of layers that draw random numbers */
    uint64_t seed;
    int replica;                          /* in all of the group */
    const struct ls_optimizer_step *step; /* read at each run; NULL if no layer needs it */
};
struct ls_plan;
/* Called from the running thread when all gradients from element offset to the end of the blob are final; offsets fall.
 * The first call has the trainable count: forward and loss are done, and with them the statistics' changes, no gradient
 * is; the last call has offset 0. */
typedef void ls_ready_fn(void *context, size_t offset);

/* ---- for layers and plans ---- */

struct ls_node;
struct ls_variable_spec;
ls_status ls_network_add_variable(struct ls_network *network, struct ls_node *node,
                                  const struct ls_variable_spec *spec);
const ls_shape *ls_network_input_shape(const struct ls_network *network, const struct ls_node *node, int index);
size_t ls_network_layer_count(const struct ls_network *network);
const ls_shape *ls_network_input(const struct ls_network *network); /* one example */
const struct ls_node *ls_network_node(const struct ls_network *network, size_t index);
/* The node's index-th variable in the order in which it has added them, sparse tables aside. */
const struct ls_network_variable *ls_network_variable_of(const struct ls_network *network, const struct ls_node *node,
                                                         int index);

/* A network as one text that is equal exactly when the networks are. */

/* One text that is equal exactly when the networks are: "dense/kernel float32 (784, 128); ..." Freed with ls_free. */
ls_status ls_network_describe(const struct ls_network *network, char **text);

/* Initial values of one variable. */

/* The rule of its elements, of any initializer but LS_ORTHOGONAL. */
struct ls_fill ls_initializer_fill(const struct ls_network_variable *variable, uint64_t seed);
/* Writes variable->count values. */
void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values);
const char *ls_initializer_name(ls_initializer initializer); /* "glorot_uniform"; NULL when it is none */
