/* An activation as a layer of its own, and as the end of other layers. */
#pragma once
#include "model/layer.h"

/* y = activation(y) and dy's way back through it, in place; nothing for LS_LINEAR. */
ls_status ls_layer_activation_append(struct ls_plan_builder *builder, const ls_layer *layer, const struct ls_tensor *y);
ls_status ls_layer_activation_append_back(struct ls_plan_builder *builder, const ls_layer *layer,
                                          const struct ls_tensor *y, const struct ls_tensor *dy);
