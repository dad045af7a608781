/* Stages that change an image's colours: keras.layers.RandomHue and RandomSaturation, of values in [0, 1]. */
#pragma once
#include "data/stage.h"

ls_status ls_colors_hue(const struct ls_stage *stage);
ls_status ls_colors_saturation(const struct ls_stage *stage);
/* INVALID_ARGUMENT unless there are three channels, and a factor in [0, 1]. */
ls_status ls_colors_check(const ls_map *map, const ls_shape *shape);
