/* One stage at work on one example: what the files of stages get from map.c. Images are height x width x channels. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/targets.h"

struct ls_map_example;
struct ls_stage {
    const ls_map *map;
    const ls_shape *shape, *result; /* of input, of output */
    const float *input;
    float *output;  /* is not input */
    size_t element; /* bytes: sizeof(float), or 1 for stages that move elements */
    /* A function of (seed, pass, example, stage), so that replicas, layouts and restarts see the same. */
    uint32_t random[8];
    const struct ls_map_example *example;
};
/* In [0, 1). */
float ls_stage_uniform(uint32_t word);
/* In [range[0], range[1]). */
float ls_stage_between(uint32_t word, const float range[2]);
/* From 0 to below limit. */
int64_t ls_stage_below(uint32_t word, int64_t limit);
/* The output is the input. */
ls_status ls_stage_copy(const struct ls_stage *stage);
/* INVALID_ARGUMENT unless low <= range[0] <= range[1] <= high; name is the field's. */
ls_status ls_stage_check_range(const char *name, const float range[2], float low, float high);

/* Stages that move an image's pixels: keras.layers.RandomRotation, RandomZoom and RandomTranslation. */

ls_status ls_affine_rotate(const struct ls_stage *stage);
ls_status ls_affine_zoom(const struct ls_stage *stage);
ls_status ls_affine_shift(const struct ls_stage *stage);
/* INVALID_ARGUMENT names the field: factors in [-1, 1], and a fill mode of these. */
ls_status ls_affine_check(const ls_map *map, const ls_shape *shape);

/* Stages that change an image's colours: keras.layers.RandomHue and RandomSaturation, of values in [0, 1]. */

ls_status ls_colors_hue(const struct ls_stage *stage);
ls_status ls_colors_saturation(const struct ls_stage *stage);
/* INVALID_ARGUMENT unless there are three channels, and a factor in [0, 1]. */
ls_status ls_colors_check(const ls_map *map, const ls_shape *shape);

/* The stage that erases a rectangle: keras.layers.RandomErasing, of values in [0, 1]. */

ls_status ls_erase(const struct ls_stage *stage);
/* INVALID_ARGUMENT names the field: factor and scale in [0, 1], a fill mode of NOISE and CONSTANT. */
ls_status ls_erase_check(const ls_map *map, const ls_shape *shape);

/* The stage that mixes an example with another one: keras.layers.MixUp. */

struct ls_mix_up {
    int64_t partner; /* the other example */
    float weight;    /* of the first; the other one has the rest */
};
/* Draws from count examples, and from the Beta distribution of (alpha, alpha). */
struct ls_mix_up ls_mix_up_draw(const ls_map *map, const uint32_t random[8], int64_t count);
void ls_mix_up_numbers(float weight, const float *first, const float *other, int64_t count, float *mixed);
/* Classes become their shares. The weight of an example is the first's. INVALID_ARGUMENT for a label that is no class.
 */
ls_status ls_mix_up_targets(float weight, const struct ls_target_kind *mixed_kind, const struct ls_targets *first,
                            const struct ls_targets *other, const struct ls_targets *mixed);
/* The kind of what is mixed, of so many classes where targets are no numbers. INVALID_ARGUMENT where examples have
 * neither. */
ls_status ls_mix_up_kind(const struct ls_target_kind *kind, int classes, struct ls_target_kind *mixed);
ls_status ls_mix_up_check(const ls_map *map, const ls_shape *shape);
