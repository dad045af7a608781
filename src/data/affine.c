/* Each pixel of the output is read where an affine map puts it, between four pixels of the input (bilinear). Pixels
 * outside of the image are those of the fill mode. As TensorFlow's ImageProjectiveTransformV3, but that WRAP reads
 * between the last pixel and the first, where TensorFlow takes the nearer one. */
#include "data/stage.h"

#include <math.h>

#include "base/status.h"

/* Input from output: x = xx x + xy y + x0, y = yx x + yy y + y0, in pixels. */
struct affine {
    double xx, xy, x0, yx, yy, y0;
};

/* The pixel of an axis that stands at i; -1: the fill value does. */
static int64_t pixel_at(int64_t i, int64_t length, ls_fill_mode mode) {
    if (i >= 0 && i < length) return i;
    if (mode == LS_FILL_MODE_CONSTANT) return -1;
    if (mode == LS_FILL_MODE_NEAREST) return i < 0 ? 0 : length - 1;
    int64_t period = mode == LS_FILL_MODE_WRAP ? length : 2 * length, at = i % period;
    if (at < 0) at += period;
    return at < length ? at : period - 1 - at;
}

/* Between the pixels at and at + 1 of an axis. */
struct between {
    int64_t first, second;
    float part; /* of the second */
};

static struct between between(double place, int64_t length, ls_fill_mode mode) {
    double whole = floor(place);
    int64_t at = (int64_t)whole;
    return (struct between){pixel_at(at, length, mode), pixel_at(at + 1, length, mode), (float)(place - whole)};
}

static float value_at(const struct ls_stage *stage, int64_t y, int64_t x, int64_t channel) {
    if (y < 0 || x < 0) return stage->map->fill_value;
    return stage->input[(y * stage->shape->dims[1] + x) * stage->shape->dims[2] + channel];
}

static void read_pixel(const struct ls_stage *stage, const struct between *y, const struct between *x, float *pixel) {
    for (int64_t c = 0; c < stage->shape->dims[2]; c++) {
        float above =
            value_at(stage, y->first, x->first, c) * (1 - x->part) + value_at(stage, y->first, x->second, c) * x->part;
        float below = value_at(stage, y->second, x->first, c) * (1 - x->part) +
                      value_at(stage, y->second, x->second, c) * x->part;
        pixel[c] = above * (1 - y->part) + below * y->part;
    }
}

static ls_status move(const struct ls_stage *stage, const struct affine *from) {
    int64_t height = stage->shape->dims[0], width = stage->shape->dims[1], channels = stage->shape->dims[2];
    ls_fill_mode mode = stage->map->fill_mode;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            double dx = (double)x, dy = (double)y;
            struct between column = between(from->xx * dx + from->xy * dy + from->x0, width, mode);
            struct between row = between(from->yx * dx + from->yy * dy + from->y0, height, mode);
            read_pixel(stage, &row, &column, stage->output + (y * width + x) * channels);
        }
    return LS_OK;
}

/* Around the centre, counter-clockwise where the factor is positive; its unit is a whole turn. */
ls_status ls_affine_rotate(const struct ls_stage *stage) {
    double angle = (double)ls_stage_between(stage->random[0], stage->map->factor) * 6.283185307179586;
    double x = (double)(stage->shape->dims[1] - 1) / 2, y = (double)(stage->shape->dims[0] - 1) / 2;
    double c = cos(angle), s = sin(angle);
    return move(stage, &(struct affine){c, -s, x - c * x + s * y, s, c, y - s * x - c * y});
}

static bool is_set(const float range[2]) {
    return range[0] != 0 || range[1] != 0;
}

/* Around the centre; one draw for both axes where factor is given. A positive factor makes the picture smaller. */
ls_status ls_affine_zoom(const struct ls_stage *stage) {
    const ls_map *map = stage->map;
    bool both = is_set(map->factor);
    double down = 1 + (double)ls_stage_between(stage->random[0], both ? map->factor : map->height_factor);
    double right = both ? down : 1 + (double)ls_stage_between(stage->random[1], map->width_factor);
    double x = (double)(stage->shape->dims[1] - 1) / 2, y = (double)(stage->shape->dims[0] - 1) / 2;
    return move(stage, &(struct affine){right, 0, x * (1 - right), 0, down, y * (1 - down)});
}

/* Down and to the right where factors are positive; their units are height and width. */
ls_status ls_affine_shift(const struct ls_stage *stage) {
    double down = (double)ls_stage_between(stage->random[0], stage->map->height_factor);
    double right = (double)ls_stage_between(stage->random[1], stage->map->width_factor);
    return move(stage, &(struct affine){1, 0, -right * (double)stage->shape->dims[1], 0, 1,
                                        -down * (double)stage->shape->dims[0]});
}

ls_status ls_affine_check(const ls_map *map, const ls_shape *shape) {
    (void)shape;
    ls_status status = ls_stage_check_range("factor", map->factor, -1, 1);
    if (!status) status = ls_stage_check_range("height_factor", map->height_factor, -1, 1);
    if (!status) status = ls_stage_check_range("width_factor", map->width_factor, -1, 1);
    if (status) return status;
    if (map->kind == LS_MAP_ZOOM && is_set(map->factor) && (is_set(map->height_factor) || is_set(map->width_factor)))
        return ls_fail(LS_INVALID_ARGUMENT, "its factor is of both axes: leave height_factor and width_factor out");
    if (map->fill_mode < LS_FILL_MODE_DEFAULT || map->fill_mode > LS_FILL_MODE_WRAP)
        return ls_fail(LS_INVALID_ARGUMENT, "its fill_mode is %d: it must be REFLECT, CONSTANT, NEAREST or WRAP",
                       (int)map->fill_mode);
    if (map->fill_value != 0 && map->fill_mode != LS_FILL_MODE_CONSTANT)
        return ls_fail(LS_INVALID_ARGUMENT, "its fill_value is %g: it is of the fill_mode CONSTANT alone",
                       (double)map->fill_value);
    return isfinite(map->fill_value) ? LS_OK
                                     : ls_fail(LS_INVALID_ARGUMENT, "its fill_value is %g", (double)map->fill_value);
}
