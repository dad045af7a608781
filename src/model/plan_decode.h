/* Decoding: plans over some positions of examples, behind those that plans before had. */
#pragma once
#include "model/layer.h"
#include "model/network.h"

/* Of a network without an obstacle. */
struct ls_decoding {
    int64_t positions; /* of each row; the plan's features are (rows, positions) */
    const int32_t *at; /* device: the first one's place in the example, which each run reads; they fit into that */
    float *kept;       /* device: rows times ls_plan_decode_floats; a run reads and writes it */
    bool keeps_alone;  /* the plan ends with the last layer that keeps something, and has no outputs */
};
/* The first layer that needs all positions of an example at once; NULL: plans may decode. */
const struct ls_node *ls_plan_decode_obstacle(const struct ls_network *network);
size_t ls_plan_decode_floats(const struct ls_network *network); /* that are kept of an example */

/* For plans and layers. */

/* INVALID_ARGUMENT where the config has a decoding that cannot be. */
ls_status ls_plan_decode_check(const struct ls_plan_config *config);
/* The layers that run: all but those behind the last that keeps something, where nobody wants outputs. */
size_t ls_plan_decode_layers(const struct ls_plan_config *config);
/* The decoding's at, (1); absent without a decoding. */
struct ls_tensor ls_plan_decode_place(const struct ls_plan_builder *builder);
/* The node's part of kept, over all rows. */
struct ls_tensor ls_plan_decode_kept(const struct ls_plan_builder *builder, const struct ls_node *node,
                                     const ls_shape *shape);
