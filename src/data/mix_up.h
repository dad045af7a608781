/* The stage that mixes an example with another one: keras.layers.MixUp. */
#pragma once
#include "data/stage.h"
#include "data/targets.h"

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
