/* Keras mixes the examples of a batch with each other. Here the partner is any example of the dataset, so that it does
 * not depend on how batches are divided: the bits stay those of every layout. */
#include "data/stage.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/status.h"

/* Of Beta(alpha, alpha), from three draws without a rejection: the formula of Devroye ("Random variate generation in
 * one line of code", 1996), for any alpha above 0. */
static double draw_beta(double alpha, const uint32_t random[3]) {
    double u = ((double)random[0] + 0.5) * 0x1p-32, v = ((double)random[1] + 0.5) * 0x1p-32;
    double side = cos(6.283185307179586 * v), power = pow(u, -1 / alpha) - 1;
    double half = 0.5 / sqrt(1 + 1 / (power * side * side));
    return random[2] >> 31 ? 0.5 + half : 0.5 - half;
}

struct ls_mix_up ls_mix_up_draw(const ls_map *map, const uint32_t random[8], int64_t count) {
    return (struct ls_mix_up){ls_stage_below(random[3], count), (float)draw_beta((double)map->amount, random)};
}

LS_CLONES static void blend(float weight, const float *first, const float *other, int64_t count, float *mixed) {
    for (int64_t i = 0; i < count; i++) mixed[i] = weight * first[i] + (1 - weight) * other[i];
}

void ls_mix_up_numbers(float weight, const float *first, const float *other, int64_t count, float *mixed) {
    blend(weight, first, other, count, mixed);
}

static ls_status add_share(float weight, int32_t label, int64_t classes, float *shares) {
    if (label < 0 || label >= classes)
        return ls_fail(LS_INVALID_ARGUMENT, "mix-up: label %d is none of %lld classes", label, (long long)classes);
    shares[label] += weight;
    return LS_OK;
}

ls_status ls_mix_up_targets(float weight, const struct ls_target_kind *mixed_kind, const struct ls_targets *first,
                            const struct ls_targets *other, const struct ls_targets *mixed) {
    int64_t width = ls_target_width(mixed_kind);
    if (mixed->weights) *mixed->weights = *first->weights;
    if (first->numbers) {
        ls_mix_up_numbers(weight, first->numbers, other->numbers, width, mixed->numbers);
        return LS_OK;
    }
    memset(mixed->numbers, 0, (size_t)width * sizeof(*mixed->numbers));
    ls_status status = add_share(weight, *first->labels, width, mixed->numbers);
    return status ? status : add_share(1 - weight, *other->labels, width, mixed->numbers);
}

ls_status ls_mix_up_kind(const struct ls_target_kind *kind, int classes, struct ls_target_kind *mixed) {
    *mixed = *kind;
    if (kind->numbers) return LS_OK;
    if (classes < 1) return ls_fail(LS_INVALID_ARGUMENT, "mix-up: the examples have no targets that could be mixed");
    mixed->numbers = true;
    mixed->shape = LS_SHAPE(classes);
    return LS_OK;
}

ls_status ls_mix_up_check(const ls_map *map, const ls_shape *shape) {
    (void)shape;
    if (map->amount > 0 && map->amount <= 1e6F) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "its alpha is %g: it must be above 0, such as 0.2", (double)map->amount);
}
