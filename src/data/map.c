/* Stages: each writes its output from its input. A random stage draws eight words, a function of (seed, pass, example,
 * stage). Those that keras.layers alone have stand in files of their own. */
#include "data/map.h"

#include <stdio.h>
#include <string.h>

#include "base/clones.h"
#include "base/new.h"
#include "base/shape.h"
#include "base/random.h"
#include "base/plain.h"
#include "data/stage.h"

#define MAX_STAGES 64

/* tf.image.random_flip_left_right Pixel x of a line comes from width - 1 - x; in numbers over the whole image that is i
 * - 2 (i mod width) + width - 1. */
static ls_status flip(const struct ls_stage *stage) {
    int64_t pixels = stage->shape->dims[0] * stage->shape->dims[1], width = stage->shape->dims[1];
    size_t pixel = (size_t)stage->shape->dims[2] * stage->element;
    const char *input = (const char *)stage->input;
    char *output = (char *)stage->output;
    if (!(stage->random[0] >> 31)) {
        memcpy(output, input, (size_t)pixels * pixel);
        return LS_OK;
    }
    for (int64_t i = 0; i < pixels; i++)
        memcpy(output + (size_t)i * pixel, input + (size_t)(i - 2 * (i % width) + width - 1) * pixel, pixel);
    return LS_OK;
}

/* The part from (top, left) on; outside of the image there are zeros. A negative top or left stands for padding.
 * Columns [first, end) of the result lie in the image; the others keep the zeros of memset, and so do whole lines
 * outside. */
static void cut_window(const struct ls_stage *stage, int64_t top, int64_t left) {
    int64_t height = stage->shape->dims[0], width = stage->shape->dims[1];
    size_t pixel = (size_t)stage->shape->dims[2] * stage->element, length = (size_t)stage->result->dims[1] * pixel;
    int64_t first = left < 0 ? -left : 0,
            end = width - left < stage->result->dims[1] ? width - left : stage->result->dims[1];
    for (int64_t y = 0; y < stage->result->dims[0]; y++) {
        char *row = (char *)stage->output + (size_t)y * length;
        memset(row, 0, length);
        if (y + top < 0 || y + top >= height || end <= first) continue;
        memcpy(row + (size_t)first * pixel,
               (const char *)stage->input + ((size_t)(y + top) * (size_t)width + (size_t)(left + first)) * pixel,
               (size_t)(end - first) * pixel);
    }
}

/* tf.image.random_crop, after tf.image.pad on all four sides where padding is given. */
static ls_status random_crop(const struct ls_stage *stage) {
    int64_t padding = stage->map->padding;
    int64_t tops = stage->shape->dims[0] + 2 * padding - stage->result->dims[0] + 1;
    int64_t lefts = stage->shape->dims[1] + 2 * padding - stage->result->dims[1] + 1;
    cut_window(stage, ls_stage_below(stage->random[0], tops) - padding,
               ls_stage_below(stage->random[1], lefts) - padding);
    return LS_OK;
}

static ls_status central_crop(const struct ls_stage *stage) {
    cut_window(stage, (stage->shape->dims[0] - stage->result->dims[0]) / 2,
               (stage->shape->dims[1] - stage->result->dims[1]) / 2);
    return LS_OK;
}

LS_CLONES static void scale_and_shift(const float *input, float factor, float offset, size_t count, float *output) {
    for (size_t i = 0; i < count; i++) output[i] = input[i] * factor + offset;
}

/* tf.image.random_brightness */
static ls_status brightness(const struct ls_stage *stage) {
    float delta = (2 * ls_stage_uniform(stage->random[0]) - 1) * stage->map->amount;
    scale_and_shift(stage->input, 1, delta, (size_t)ls_shape_count(stage->shape), stage->output);
    return LS_OK;
}

/* tf.image.random_contrast: each channel around its own mean. */
static ls_status contrast(const struct ls_stage *stage) {
    size_t channels = (size_t)stage->shape->dims[2], count = (size_t)ls_shape_count(stage->shape);
    float factor = 1 + (2 * ls_stage_uniform(stage->random[0]) - 1) * stage->map->amount;
    for (size_t c = 0; c < channels; c++) {
        double sum = 0;
        for (size_t i = c; i < count; i += channels) sum += (double)stage->input[i];
        float mean = (float)(sum * (double)channels / (double)count);
        for (size_t i = c; i < count; i += channels) stage->output[i] = (stage->input[i] - mean) * factor + mean;
    }
    return LS_OK;
}

/* tf.keras.layers.Normalization, a mean and a deviation each channel. */
static ls_status normalise(const struct ls_stage *stage) {
    size_t channels = (size_t)stage->shape->dims[stage->shape->rank - 1], count = (size_t)ls_shape_count(stage->shape);
    for (size_t i = 0; i < count; i++)
        stage->output[i] = (stage->input[i] - stage->map->mean[i % channels]) / stage->map->deviation[i % channels];
    return LS_OK;
}

/* tf.keras.layers.Rescaling */
static ls_status rescale(const struct ls_stage *stage) {
    scale_and_shift(stage->input, stage->map->amount, stage->map->offset, (size_t)ls_shape_count(stage->shape),
                    stage->output);
    return LS_OK;
}

static ls_status call_function(const struct ls_stage *stage) {
    ls_map_call given = {.input = stage->input,
                         .shape = *stage->shape,
                         .output = stage->output,
                         .label = stage->example->targets->labels,
                         .target = stage->example->targets->numbers,
                         .weight = stage->example->targets->weights,
                         .example = stage->example->index,
                         .pass = stage->example->pass};
    memcpy(given.random, stage->random, sizeof(given.random));
    ls_status status = stage->map->function(stage->map->context, &given);
    if (!status) return LS_OK;
    return ls_fail(status, "the map function failed at example %lld: %s", (long long)stage->example->index,
                   ls_status_name(status));
}

static ls_status check_amount(const ls_map *map, const ls_shape *shape) {
    (void)shape;
    if (map->amount >= 0 && map->amount <= 1e6F) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "its amount is %g: it must be 0 or more", (double)map->amount);
}

static ls_status check_crop(const ls_map *map, const ls_shape *shape) {
    int64_t height = shape->dims[0] + 2 * (int64_t)map->padding, width = shape->dims[1] + 2 * (int64_t)map->padding;
    if (map->padding >= 0 && map->padding < 1 << 16 && map->height >= 1 && map->width >= 1 && map->height <= height &&
        map->width <= width)
        return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%d x %d cannot be cut out of %lld x %lld with a padding of %d", map->height,
                   map->width, (long long)shape->dims[0], (long long)shape->dims[1], map->padding);
}

static ls_status check_channels(const ls_map *map, const ls_shape *shape) {
    int64_t channels = shape->rank ? shape->dims[shape->rank - 1] : 0;
    if (channels < 1 || channels > 3)
        return ls_fail(LS_INVALID_ARGUMENT, "the last axis has %lld channels: 1 to 3 are normalised",
                       (long long)channels);
    for (int64_t c = 0; c < channels; c++)
        if (!(map->deviation[c] > 0))
            return ls_fail(LS_INVALID_ARGUMENT, "the deviation of channel %lld is %g", (long long)c,
                           (double)map->deviation[c]);
    return LS_OK;
}

static ls_status check_function(const ls_map *map, const ls_shape *shape) {
    (void)shape;
    return map->function ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "the function is NULL");
}

/* Fields that a stage may have; the others must be left 0. */
enum {
    SIZE = 1 << 0, /* the output is height x width */
    PADDING = 1 << 1,
    AMOUNT = 1 << 2,
    OFFSET = 1 << 3,
    CHANNELS = 1 << 4, /* mean and deviation */
    FUNCTION = 1 << 5, /* with its context and shape */
    FACTOR = 1 << 6,
    AXES = 1 << 7, /* height_factor and width_factor */
    SCALE = 1 << 8,
    FILL = 1 << 9, /* fill_mode and fill_value */
    KERAS = FACTOR | AXES | SCALE | FILL
};

/* The fate of an element. */
enum nature {
    MADE,    /* it depends on others, or on what is drawn */
    MOVED,   /* it is one of the input's, or 0 */
    POINTED, /* it depends on its own value, and on its channel */
};

static const struct kind {
    const char *name;
    ls_status (*run)(const struct ls_stage *stage);
    ls_status (*check)(const ls_map *map, const ls_shape *shape); /* NULL: there is nothing to check */
    bool image;                                                   /* needs height x width x channels */
    int fields;
    enum nature nature;
} kinds[] = {
    [LS_MAP_FLIP] = {"flip", flip, NULL, true, 0, MOVED},
    [LS_MAP_RANDOM_CROP] = {"crop", random_crop, check_crop, true, SIZE | PADDING, MOVED},
    [LS_MAP_CENTRAL_CROP] = {"central-crop", central_crop, check_crop, true, SIZE, MOVED},
    [LS_MAP_BRIGHTNESS] = {"brightness", brightness, check_amount, false, AMOUNT},
    [LS_MAP_CONTRAST] = {"contrast", contrast, check_amount, true, AMOUNT},
    [LS_MAP_NORMALISE] = {"normalise", normalise, check_channels, false, CHANNELS, POINTED},
    [LS_MAP_RESCALE] = {"rescale", rescale, NULL, false, AMOUNT | OFFSET, POINTED},
    [LS_MAP_FUNCTION] = {"function", call_function, check_function, false, FUNCTION},
    [LS_MAP_ROTATION] = {"rotation", ls_affine_rotate, ls_affine_check, true, FACTOR | FILL},
    [LS_MAP_ZOOM] = {"zoom", ls_affine_zoom, ls_affine_check, true, FACTOR | AXES | FILL},
    [LS_MAP_TRANSLATION] = {"translation", ls_affine_shift, ls_affine_check, true, AXES | FILL},
    [LS_MAP_HUE] = {"hue", ls_colors_hue, ls_colors_check, true, FACTOR},
    [LS_MAP_SATURATION] = {"saturation", ls_colors_saturation, ls_colors_check, true, FACTOR},
    [LS_MAP_ERASING] = {"erasing", ls_erase, ls_erase_check, true, FACTOR | SCALE | FILL},
    [LS_MAP_MIX_UP] = {"mix-up", NULL, ls_mix_up_check, false, AMOUNT},
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static bool any_set(const float *numbers, int count) {
    for (int i = 0; i < count; i++)
        if (numbers[i] != 0) return true;
    return false;
}

static ls_status check_unused(const ls_map *map) {
    const struct {
        const char *name;
        int bit;
        bool set;
    } fields[] = {
        {"height", SIZE, map->height != 0},
        {"width", SIZE, map->width != 0},
        {"padding", PADDING, map->padding != 0},
        {"amount", AMOUNT, map->amount != 0},
        {"offset", OFFSET, map->offset != 0},
        {"mean", CHANNELS, any_set(map->mean, 3)},
        {"deviation", CHANNELS, any_set(map->deviation, 3)},
        {"function", FUNCTION, map->function != NULL},
        {"context", FUNCTION, map->context != NULL},
        {"shape", FUNCTION, map->shape.rank != 0},
        {"factor", FACTOR, any_set(map->factor, 2)},
        {"height_factor", AXES, any_set(map->height_factor, 2)},
        {"width_factor", AXES, any_set(map->width_factor, 2)},
        {"scale", SCALE, any_set(map->scale, 2)},
        {"fill_mode", FILL, map->fill_mode != LS_FILL_MODE_DEFAULT},
        {"fill_value", FILL, map->fill_value != 0},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].set && !(kinds[map->kind].fields & fields[i].bit))
            return ls_fail(LS_INVALID_ARGUMENT, "it has no %s; leave it out", fields[i].name);
    return LS_OK;
}

static ls_status check_stage(const ls_map *map, const ls_shape *shape, ls_shape *result) {
    const struct kind *kind = &kinds[map->kind];
    char text[128];
    ls_shape_text(shape, text, sizeof(text));
    if (kind->image && shape->rank != 3)
        return ls_fail(LS_INVALID_ARGUMENT, "examples of shape %s are no images", text);
    ls_status status = kind->check ? kind->check(map, shape) : LS_OK;
    if (status) return status;
    *result = *shape;
    if (kind->fields & SIZE) result->dims[0] = map->height, result->dims[1] = map->width;
    if (map->kind == LS_MAP_FUNCTION && map->shape.rank) *result = map->shape;
    if (ls_shape_count(result) >= 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "its output has no elements");
}

static ls_status count_stages(const ls_map *list, int *count) {
    for (*count = 0; list && list[*count].kind; ++*count) {
        if (*count == MAX_STAGES) return ls_fail(LS_INVALID_ARGUMENT, "maps has more than %d stages", MAX_STAGES);
        if (list[*count].kind < LS_MAP_FLIP || (int)list[*count].kind >= KINDS)
            return ls_fail(LS_INVALID_ARGUMENT, "stage %d of maps is of kind %d: there are 1 to %d", *count,
                           (int)list[*count].kind, KINDS - 1);
    }
    return LS_OK;
}

static ls_status set_mix(struct ls_maps *maps, int stage) {
    if (maps->mix < stage) return ls_fail(LS_INVALID_ARGUMENT, "stage %d mixes already: leave one out", maps->mix);
    maps->mix = stage;
    return LS_OK;
}

ls_status ls_maps_copy(const ls_map *list, const ls_shape *input, struct ls_maps *maps) {
    struct ls_maps made = {.most = ls_shape_count(input)};
    ls_status status = count_stages(list, &made.count);
    if (status) return status;
    made.stages = ls_alloc_array((size_t)made.count + 1, sizeof(*made.stages));
    made.shapes = ls_alloc_array((size_t)made.count + 1, sizeof(*made.shapes));
    if (!made.stages || !made.shapes) status = ls_fail_memory("the stages of a dataset", sizeof(*made.stages));
    if (!status) made.shapes[0] = *input;
    made.mix = made.count;
    for (int i = 0; i < made.count && !status; i++) {
        made.stages[i] = list[i];
        if (!list[i].height && made.shapes[i].rank == 3) made.stages[i].height = (int)made.shapes[i].dims[0];
        if (!list[i].width && made.shapes[i].rank == 3) made.stages[i].width = (int)made.shapes[i].dims[1];
        status = check_unused(&list[i]);
        if (!status && list[i].kind == LS_MAP_MIX_UP) status = set_mix(&made, i);
        if (!status) status = check_stage(&made.stages[i], &made.shapes[i], &made.shapes[i + 1]);
        if (status)
            status = ls_fail_context(status, "stage %d of maps (%s)", i, kinds[list[i].kind].name);
        else if (ls_shape_count(&made.shapes[i + 1]) > made.most)
            made.most = ls_shape_count(&made.shapes[i + 1]);
    }
    while (!status && made.moves < made.count && kinds[made.stages[made.moves].kind].nature == MOVED) made.moves++;
    return LS_HAND_OVER(status, maps, made, ls_maps_free(&made));
}

void ls_maps_free(struct ls_maps *maps) {
    ls_free(maps->stages);
    ls_free(maps->shapes);
    *maps = (struct ls_maps){0};
}

static void print_keras(const ls_map *map, FILE *out) {
    const float *ranges[] = {map->factor, map->height_factor, map->width_factor, map->scale};
    for (int i = 0; i < 4; i++)
        if (any_set(ranges[i], 2))
            (void)ls_plain_print(out, "(%d:%.9g,%.9g)", i, (double)ranges[i][0], (double)ranges[i][1]);
    if (map->fill_mode) (void)ls_plain_print(out, "(%d,%.9g)", (int)map->fill_mode, (double)map->fill_value);
}

void ls_maps_print(const struct ls_maps *maps, FILE *out) {
    for (int i = 0; i < maps->count; i++) {
        const ls_map *map = &maps->stages[i];
        int fields = kinds[map->kind].fields;
        (void)fprintf(out, "%s%s", i ? "," : "", kinds[map->kind].name);
        if (fields & SIZE) (void)fprintf(out, "(%dx%d+%d)", map->height, map->width, map->padding);
        if (map->amount != 0 || map->offset != 0)
            (void)ls_plain_print(out, "(%.9g,%.9g)", (double)map->amount, (double)map->offset);
        for (int c = 0; c < 3 && fields & CHANNELS; c++)
            (void)ls_plain_print(out, "(%.9g,%.9g)", (double)map->mean[c], (double)map->deviation[c]);
        if (fields & KERAS) print_keras(map, out);
        if (map->name) (void)fprintf(out, "(%.*s)", (int)strcspn(map->name, "\n"), map->name);
    }
}

/* Each stage has a stream of its own, and each pass MAX_STAGES of them: a stage draws the same words whatever the
 * stages before it drew. */
void ls_maps_draw(int stage, const struct ls_map_example *example, uint32_t random[8]) {
    uint64_t stream = ls_random_stream("data/map") + (uint64_t)example->pass * MAX_STAGES + (uint64_t)stage;
    for (uint64_t half = 0; half < 2; half++)
        ls_philox_words(example->seed, stream, half << 63 | (uint64_t)example->index, random + 4 * half);
}

/* Stages read one buffer and write the other in turns, so none works in place. */
static ls_status run_stage(const struct ls_maps *maps, int index, const struct ls_map_example *example,
                           void *const buffers[2], size_t element) {
    struct ls_stage stage = {.map = &maps->stages[index],
                             .shape = &maps->shapes[index],
                             .result = &maps->shapes[index + 1],
                             .input = buffers[index % 2],
                             .output = buffers[(index + 1) % 2],
                             .element = element,
                             .example = example};
    ls_maps_draw(index, example, stage.random);
    return kinds[stage.map->kind].run(&stage);
}

ls_status ls_maps_run(const struct ls_maps *maps, int first, int end, const struct ls_map_example *example,
                      float *const buffers[2]) {
    void *const both[] = {buffers[0], buffers[1]};
    ls_status status = LS_OK;
    for (int i = first; i < end && !status; i++) status = run_stage(maps, i, example, both, sizeof(float));
    return status;
}

ls_status ls_maps_move(const struct ls_maps *maps, const struct ls_map_example *example, uint8_t *const buffers[2]) {
    void *const both[] = {buffers[0], buffers[1]};
    ls_status status = LS_OK;
    for (int i = 0; i < maps->moves && !status; i++) status = run_stage(maps, i, example, both, 1);
    return status;
}

/* The bytes of one channel are an example whose every pixel has as many: the stages make the table themselves. */
bool ls_maps_tabulate(const struct ls_maps *maps, struct ls_pixel_table *table) {
    const ls_shape *last = &maps->shapes[maps->count];
    int64_t channels = last->rank ? last->dims[last->rank - 1] : 1;
    float values[2][(UINT8_MAX + 1) * LS_MOST_CHANNELS];
    for (int i = maps->moves; i < maps->count; i++)
        if (kinds[maps->stages[i].kind].nature != POINTED) return false;
    *table = (struct ls_pixel_table){.channels = channels > LS_MOST_CHANNELS ? 1 : (int)channels,
                                     .plain = maps->moves == maps->count};
    const ls_shape shape = LS_SHAPE((UINT8_MAX + 1), table->channels);
    int now = 0;
    for (int i = 0; i < (UINT8_MAX + 1) * table->channels; i++)
        ls_pixels_to_unit(&(uint8_t){(uint8_t)(i / table->channels)}, 1, &values[now][i]);
    for (int i = maps->moves; i < maps->count; i++, now = !now)
        (void)kinds[maps->stages[i].kind].run(&(struct ls_stage){
            .map = &maps->stages[i], .shape = &shape, .result = &shape, .input = values[now], .output = values[!now]});
    for (int c = 0; c < table->channels; c++)
        for (int b = 0; b < (UINT8_MAX + 1); b++) table->values[c][b] = values[now][b * table->channels + c];
    return true;
}
