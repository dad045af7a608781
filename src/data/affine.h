/* Stages that move an image's pixels: keras.layers.RandomRotation, RandomZoom and RandomTranslation. */
#pragma once
#include "data/stage.h"

ls_status ls_affine_rotate(const struct ls_stage *stage);
ls_status ls_affine_zoom(const struct ls_stage *stage);
ls_status ls_affine_shift(const struct ls_stage *stage);
/* INVALID_ARGUMENT names the field: factors in [-1, 1], and a fill mode of these. */
ls_status ls_affine_check(const ls_map *map, const ls_shape *shape);
