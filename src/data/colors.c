/* Pixels go from red, green and blue to hue, saturation and value, and back: tf.image.rgb_to_hsv and hsv_to_rgb. */
#include "data/stage.h"

#include <math.h>

#include "base/shape.h"
#include "base/status.h"

struct hsv {
    float hue, saturation, value; /* hue in turns: [0, 1) */
};

static struct hsv to_hsv(const float *rgb) {
    float r = rgb[0], g = rgb[1], b = rgb[2], most = fmaxf(r, fmaxf(g, b)), range = most - fminf(r, fminf(g, b));
    struct hsv hsv = {.saturation = most > 0 ? range / most : 0, .value = most};
    if (!(range > 0)) return hsv;
    hsv.hue = most == r   ? (g - b) / (6 * range)
              : most == g ? (b - r) / (6 * range) + 2 / 6.0F
                          : (r - g) / (6 * range) + 4 / 6.0F;
    if (hsv.hue < 0) hsv.hue += 1;
    return hsv;
}

static float clip(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void to_rgb(const struct hsv *hsv, float *rgb) {
    float sixths = hsv->hue * 6;
    const float parts[] = {fabsf(sixths - 3) - 1, 2 - fabsf(sixths - 2), 2 - fabsf(sixths - 4)};
    for (int c = 0; c < 3; c++) rgb[c] = ((clip(parts[c]) - 1) * hsv->saturation + 1) * hsv->value;
}

/* Half a turn at most, in either direction. */
ls_status ls_colors_hue(const struct ls_stage *stage) {
    float turn = ls_stage_between(stage->random[0], stage->map->factor) * (stage->random[1] >> 31 ? -0.5F : 0.5F);
    if (turn == 0) return ls_stage_copy(stage);
    for (int64_t i = 0; i < ls_shape_count(stage->shape); i += 3) {
        struct hsv hsv = to_hsv(stage->input + i);
        hsv.hue += turn;
        hsv.hue += hsv.hue > 1 ? -1.0F : hsv.hue < 0 ? 1.0F : 0;
        to_rgb(&hsv, stage->output + i);
        for (int c = 0; c < 3; c++) stage->output[i + c] = clip(stage->output[i + c]);
    }
    return LS_OK;
}

/* 0 leaves grey, 0.5 leaves the image as it is, and 1 saturates it fully. The summand is Keras' epsilon. */
ls_status ls_colors_saturation(const struct ls_stage *stage) {
    float factor = ls_stage_between(stage->random[0], stage->map->factor), times = factor / (1 - factor + 1e-7F);
    for (int64_t i = 0; i < ls_shape_count(stage->shape); i += 3) {
        struct hsv hsv = to_hsv(stage->input + i);
        hsv.saturation = clip(hsv.saturation * times);
        to_rgb(&hsv, stage->output + i);
    }
    return LS_OK;
}

ls_status ls_colors_check(const ls_map *map, const ls_shape *shape) {
    if (shape->dims[2] == 3) return ls_stage_check_range("factor", map->factor, 0, 1);
    return ls_fail(LS_INVALID_ARGUMENT, "the last axis has %lld channels: colours have 3; read images with 3 channels",
                   (long long)shape->dims[2]);
}
