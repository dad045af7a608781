/* A rectangle is filled with one value, or with noise: normal numbers cut to [0, 1], one a pixel and channel. */
#include "data/stage.h"

#include <math.h>

#include "base/random.h"
#include "base/status.h"

static const float usual_scale[2] = {0.02F, 0.33F};

/* Pixels from the first to before the end of an axis. */
struct stretch {
    int64_t first, end;
};

/* A share of an axis, somewhere on it. A pixel is taken if its number lies in it, which the first one's hardly does:
 * Keras draws and counts so. */
static struct stretch draw_stretch(int64_t length, float share, uint32_t where) {
    float size = sqrtf(share) * (float)length, first = ls_stage_uniform(where) * ((float)length - size);
    struct stretch span = {(int64_t)ceilf(first), (int64_t)ceilf(first + size)};
    if (span.end > length) span.end = length;
    return span;
}

static float noise(const struct ls_stage *stage, uint64_t stream, int64_t element) {
    uint64_t seed = (uint64_t)stage->random[6] << 32 | stage->random[7];
    double drawn = ls_random_normal(seed, stream, (uint64_t)element);
    return (float)(drawn < 0 ? 0 : drawn > 1 ? 1 : drawn);
}

/* Erases with a probability that lies in factor. */
ls_status ls_erase(const struct ls_stage *stage) {
    const ls_map *map = stage->map;
    const uint32_t *random = stage->random;
    const float *scale = map->scale[1] > 0 ? map->scale : usual_scale;
    int64_t width = stage->shape->dims[1], channels = stage->shape->dims[2];
    uint64_t stream = ls_random_stream("data/erase");
    ls_status status = ls_stage_copy(stage);
    if (!(ls_stage_uniform(random[0]) < ls_stage_between(random[1], map->factor))) return status;
    struct stretch x = draw_stretch(width, ls_stage_between(random[2], scale), random[3]);
    struct stretch y = draw_stretch(stage->shape->dims[0], ls_stage_between(random[4], scale), random[5]);
    for (int64_t row = y.first; row < y.end; row++)
        for (int64_t i = (row * width + x.first) * channels; i < (row * width + x.end) * channels; i++)
            stage->output[i] = map->fill_mode == LS_FILL_MODE_CONSTANT ? map->fill_value : noise(stage, stream, i);
    return status;
}

ls_status ls_erase_check(const ls_map *map, const ls_shape *shape) {
    (void)shape;
    ls_status status = ls_stage_check_range("factor", map->factor, 0, 1);
    if (!status) status = ls_stage_check_range("scale", map->scale, 0, 1);
    if (status) return status;
    if (map->fill_mode != LS_FILL_MODE_DEFAULT && map->fill_mode != LS_FILL_MODE_NOISE &&
        map->fill_mode != LS_FILL_MODE_CONSTANT)
        return ls_fail(LS_INVALID_ARGUMENT, "its fill_mode is %d: it must be NOISE or CONSTANT", (int)map->fill_mode);
    if (map->fill_value == 0 || (map->fill_mode == LS_FILL_MODE_CONSTANT && isfinite(map->fill_value))) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "its fill_value is %g: it is a number, of the fill_mode CONSTANT alone",
                   (double)map->fill_value);
}
