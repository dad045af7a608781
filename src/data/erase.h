/* The stage that erases a rectangle: keras.layers.RandomErasing, of values in [0, 1]. */
#pragma once
#include "data/stage.h"

ls_status ls_erase(const struct ls_stage *stage);
/* INVALID_ARGUMENT names the field: factor and scale in [0, 1], a fill mode of NOISE and CONSTANT. */
ls_status ls_erase_check(const ls_map *map, const ls_shape *shape);
