/* Decoding: plans over some positions of examples, behind those that plans before had. */
#pragma once
#include "model/layer.h"
#include "model/network.h"

/* The first layer that needs all positions of an example at once; NULL: plans may decode. */
const struct ls_node *ls_plan_decode_obstacle(const struct ls_network *network);
size_t ls_plan_decode_floats(const struct ls_network *network); /* that are kept of an example */

/* For plans and layers. */

/* INVALID_ARGUMENT where the config has a decoding that cannot be. */
ls_status ls_plan_decode_check(const struct ls_plan_config *config);
/* All layers but those behind the last one that keeps something. */
size_t ls_plan_decode_layers(const struct ls_network *network);
/* The decoding's at, (1); absent without a decoding. */
struct ls_tensor ls_plan_decode_place(const struct ls_plan_builder *builder);
/* The node's part of kept, over all rows. */
struct ls_tensor ls_plan_decode_kept(const struct ls_plan_builder *builder, const struct ls_node *node,
                                     const ls_shape *shape);
