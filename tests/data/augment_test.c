/* Keras' augmentation layers: what each makes of an image, against Keras' own numbers; what is drawn; and mistakes. */
#include <math.h>
#include <string.h>

#include "../golden/golden.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "data/order.h"
#include "harness.h"

#define TOLERANCE 3e-5F /* Keras' matrices are float32 */

static const char *const fills[] = {"reflect", "constant", "nearest", "wrap"};

/* A number of equal images. */
static ls_dataset *open_stage(const float *image, const ls_shape *shape, int count, ls_map map) {
    static float images[256 * 128];
    static int32_t labels[256];
    ls_dataset *dataset = NULL;
    size_t size = (size_t)(shape->dims[0] * shape->dims[1] * shape->dims[2]);
    ck_assert(count <= 256 && size <= 128);
    for (int i = 0; i < count; i++) memcpy(images + (size_t)i * size, image, size * sizeof(*image));
    assert_ok(
        ls_dataset_arrays(images, *shape, labels, count, 1, LS_DATASET(.maps = LS_MAPS(map), .seed = 5), &dataset));
    return dataset;
}

static void read_pass(const ls_dataset *dataset, int64_t example, int64_t pass, float *features) {
    struct ls_read_buffers kept = {0};
    int32_t label;
    assert_ok(ls_dataset_read(dataset, &(struct ls_row){example, pass}, &kept, features, LS_LABELS(&label)));
    ls_dataset_read_buffers_free(&kept);
}

static void stage_once(const struct golden_tensor *image, ls_map map, float *features) {
    ls_dataset *dataset = open_stage(image->values, &image->shape, 1, map);
    read_pass(dataset, 0, 0, features);
    ls_dataset_free(dataset);
}

static void compare(const float *features, const struct golden_tensor *wanted) {
    for (int64_t i = 0; i < wanted->count; i++)
        ck_assert_msg(fabsf(features[i] - wanted->values[i]) <= TOLERANCE, "%s, element %d: %g instead of %g",
                      wanted->name, (int)i, (double)features[i], (double)wanted->values[i]);
}

static const char *const sizes[] = {"5x7x3", "4x4x1", "1x1x1", "1x6x2"};

TEST_EACH(pixels_move_as_keras_moves_them, COUNT_OF(sizes)) {
    static const float turns[] = {0, 0.25F, 0.07F, -0.4F};
    static const float zooms[][2] = {{0, 0}, {0.3F, -0.5F}, {-0.4F, 0.8F}},
                       shifts[][2] = {{0, 0}, {0.2F, -0.35F}, {-0.9F, 0.6F}};
    struct golden *golden = golden_open("augmentation.txt");
    const struct golden_tensor *image = golden_find(golden, "image/%s", sizes[_i]);
    float features[128];
    for (int f = 0; f < 4; f++) {
        ls_map map = {.fill_mode = (ls_fill_mode)(LS_FILL_MODE_REFLECT + f), .fill_value = f == 1 ? 0.25F : 0};
        for (int i = 0; i < 4; i++) {
            map.kind = LS_MAP_ROTATION;
            map.factor[0] = map.factor[1] = turns[i];
            stage_once(image, map, features);
            compare(features, golden_find(golden, "rotation/%d/%s/%s", i, fills[f], sizes[_i]));
        }
        map.factor[0] = map.factor[1] = 0;
        for (int i = 0; i < 6; i++) {
            const float *factors = i < 3 ? zooms[i] : shifts[i - 3];
            map.kind = i < 3 ? LS_MAP_ZOOM : LS_MAP_TRANSLATION;
            map.height_factor[0] = map.height_factor[1] = factors[0];
            map.width_factor[0] = map.width_factor[1] = factors[1];
            stage_once(image, map, features);
            compare(features,
                    golden_find(golden, "%s/%d/%s/%s", i < 3 ? "zoom" : "translation", i % 3, fills[f], sizes[_i]));
        }
    }
    golden_close(golden);
}

/* The sign of a hue is drawn: each of 16 examples is one of the two, and both occur. */
TEST(colours_change_as_keras_changes_them) {
    static const float hues[] = {0, 0.3F, 1}, saturations[] = {0, 0.2F, 0.5F, 0.8F, 1};
    struct golden *golden = golden_open("augmentation.txt");
    const struct golden_tensor *image = golden_find(golden, "image/5x7x3");
    float features[128];
    for (int i = 0; i < 3; i++) {
        bool seen[2] = {false};
        ls_dataset *dataset = open_stage(image->values, &image->shape, 16, ls_random_hue(.factor = {hues[i], hues[i]}));
        for (int e = 0; e < 16; e++) {
            read_pass(dataset, e, 0, features);
            const struct golden_tensor *up = golden_find(golden, "hue/%d/5x7x3", i),
                                       *down = golden_find(golden, "hue/-%d/5x7x3", i);
            bool less = fabsf(features[3] - up->values[3]) > fabsf(features[3] - down->values[3]);
            seen[less] = true;
            compare(features, less ? down : up);
        }
        ck_assert(seen[0] && (i != 1 || seen[1]));
        ls_dataset_free(dataset);
    }
    for (int i = 0; i < 5; i++) {
        stage_once(image, ls_random_saturation(.factor = {saturations[i], saturations[i]}), features);
        compare(features, golden_find(golden, "saturation/%d/5x7x3", i));
    }
    golden_close(golden);
}

/* ---- what is drawn ---- */

static const ls_shape square = {3, {10, 10, 1}};

static void ramp(float *image) {
    for (int i = 0; i < 100; i++) image[i] = (float)(i % 10) / 9;
}

TEST(a_factor_of_nothing_changes_no_bit) {
    float image[128], features[128];
    const ls_shape shape = {3, {3, 5, 3}};
    for (int i = 0; i < 45; i++) image[i] = (float)(i * 37 % 45) / 44;
    const ls_map maps[] = {ls_random_rotation(.factor = {0, 0}), ls_random_zoom(.factor = {0, 0}),
                           ls_random_translation(.height_factor = {0, 0}), ls_random_hue(.factor = {0, 0}),
                           ls_random_erasing(.factor = {0, 0})};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        ls_dataset *dataset = open_stage(image, &shape, 8, maps[i]);
        for (int e = 0; e < 8; e++) {
            read_pass(dataset, e, e, features);
            ck_assert_mem_eq(features, image, 45 * sizeof(float));
        }
        ls_dataset_free(dataset);
    }
}

/* Draws of a shift along a line where a pixel's value is its place: down to the lower number and up to the upper one,
 * and another one in each pass. */
TEST(draws_fill_the_range) {
    float image[128], features[128], least = 9, most = -9, sum = 0;
    ramp(image);
    ls_dataset *dataset = open_stage(
        image, &square, 256, ls_random_translation(.width_factor = {-0.3F, 0.1F}, .fill_mode = LS_FILL_MODE_NEAREST));
    for (int e = 0; e < 256; e++) {
        read_pass(dataset, e, 0, features);
        float shift = image[5] * 9 - features[5] * 9;
        least = fminf(least, shift);
        most = fmaxf(most, shift);
        sum += shift;
    }
    ck_assert(least > -3.001F && least < -2.9F && most < 1.001F && most > 0.9F);
    ck_assert(fabsf(sum / 256 + 1) < 0.25F);
    float other[128];
    read_pass(dataset, 255, 1, other);
    ck_assert(memcmp(features, other, 100 * sizeof(float)) != 0);
    read_pass(dataset, 255, 0, other);
    ck_assert_mem_eq(features, other, 100 * sizeof(float));
    ls_dataset_free(dataset);
}

/* With factor one draw is of both axes; without it each axis has its own. */
TEST(a_zoom_of_one_factor_keeps_proportions) {
    float across[100], down[100];
    for (int i = 0; i < 100; i++) across[i] = (float)(i % 10) / 9, down[i] = (float)(i / 10) / 9;
    const ls_map zooms[] = {ls_random_zoom(.factor = {-0.5F, -0.1F}),
                            ls_random_zoom(.height_factor = {-0.5F, -0.1F}, .width_factor = {-0.5F, -0.1F})};
    for (int k = 0; k < 2; k++) {
        int equal = 0;
        ls_dataset *one = open_stage(across, &square, 16, zooms[k]), *two;
        float x[16], features[100];
        for (int e = 0; e < 16; e++) read_pass(one, e, 0, features), x[e] = features[9] - features[0];
        two = open_stage(down, &square, 16, zooms[k]);
        for (int e = 0; e < 16; e++)
            read_pass(two, e, 0, features), equal += fabsf(features[90] - features[0] - x[e]) < 1e-5F;
        ck_assert_int_eq(equal, k ? 0 : 16);
        ls_dataset_free(one);
        ls_dataset_free(two);
    }
}

/* The erased pixels are the smallest rectangle around them. */
static int erased_box(const float *features, float value, int box[4]) {
    int count = 0;
    box[0] = box[1] = 10, box[2] = box[3] = 0;
    for (int i = 0; i < 100; i++) {
        if (features[i] != value) continue;
        count++;
        if (i / 10 < box[0]) box[0] = i / 10;
        if (i % 10 < box[1]) box[1] = i % 10;
        if (i / 10 >= box[2]) box[2] = i / 10 + 1;
        if (i % 10 >= box[3]) box[3] = i % 10 + 1;
    }
    return count;
}

TEST(a_rectangle_is_erased_as_often_as_asked) {
    float image[128], features[128];
    for (int i = 0; i < 100; i++) image[i] = 0.5F;
    ls_dataset *dataset = open_stage(image, &square, 256,
                                     ls_random_erasing(.factor = {0.5F, 0.5F}, .scale = {0.16F, 0.25F},
                                                       .fill_mode = LS_FILL_MODE_CONSTANT, .fill_value = 2));
    int erased = 0, box[4], last[2] = {0};
    for (int e = 0; e < 256; e++) {
        read_pass(dataset, e, 0, features);
        int count = erased_box(features, 2, box), height = box[2] - box[0], width = box[3] - box[1];
        for (int i = 0; i < 100; i++) require(features[i] == 0.5F || features[i] == 2);
        if (!count) continue;
        ck_assert_int_eq(count, height * width);
        ck_assert(height >= 4 && height <= 5 && width >= 4 && width <= 5);
        last[0] += box[2] == 10, last[1] += box[3] == 10;
        erased++;
    }
    ck_assert(erased > 96 && erased < 160 && last[0] && last[1]);
    ls_dataset_free(dataset);
    dataset = open_stage(image, &square, 256, ls_random_erasing(.factor = {1, 1}));
    double sum = 0, count = 0;
    for (int e = 0; e < 256; e++) {
        read_pass(dataset, e, 0, features);
        for (int i = 0; i < 100; i++) {
            require(features[i] >= 0 && features[i] <= 1);
            if (features[i] != 0.5F) sum += (double)features[i], count++;
        }
    }
    ck_assert(count / 25600 > 0.02 && count / 25600 < 0.33);
    /* Of a normal number cut to [0, 1] the mean is 1/sqrt(2 pi) (1 - exp(-1/2)) + P(it is above 1). */
    ck_assert(fabs(sum / count - 0.3156) < 0.03);
    ls_dataset_free(dataset);
}

TEST(mistakes_are_named) {
    static const struct {
        ls_map map;
        const char *says;
    } bad[] = {
        {ls_random_rotation(.factor = {-2, 0}),
         "stage 0 of maps (rotation): its factor is {-2, 0}: give a lower and an upper number in [-1, 1]"},
        {ls_random_rotation(.factor = {0.2F, 0.1F}), "its factor is {0.2, 0.1}"},
        {ls_random_rotation(.factor = {NAN, 0}), "its factor is {"},
        {ls_random_rotation(.height_factor = {0, 0.1F}), "it has no height_factor"},
        {ls_random_rotation(.fill_mode = (ls_fill_mode)9), "its fill_mode is 9"},
        {ls_random_rotation(.fill_mode = LS_FILL_MODE_NOISE), "it must be REFLECT, CONSTANT, NEAREST or WRAP"},
        {ls_random_rotation(.fill_value = 1), "its fill_value is 1: it is of the fill_mode CONSTANT alone"},
        {ls_random_rotation(.fill_mode = LS_FILL_MODE_CONSTANT, .fill_value = INFINITY), "its fill_value is inf"},
        {ls_random_zoom(.factor = {0, 0.1F}, .width_factor = {0, 0.1F}), "its factor is of both axes"},
        {ls_random_zoom(.height_factor = {0, 1.5F}), "its height_factor is {0, 1.5}"},
        {ls_random_translation(.width_factor = {-1.5F, 0}), "its width_factor is {-1.5, 0}"},
        {ls_random_translation(.factor = {0, 0.1F}), "it has no factor"},
        {ls_random_hue(.factor = {0, 0.1F}), "the last axis has 1 channels: colours have 3"},
        {ls_random_saturation(.factor = {0, 0.1F}), "the last axis has 1 channels: colours have 3"},
        {ls_random_erasing(.factor = {0, 1.1F}), "its factor is {0, 1.1}: give a lower and an upper number in [0, 1]"},
        {ls_random_erasing(.scale = {-0.1F, 1}), "its scale is {-0.1, 1}"},
        {ls_random_erasing(.fill_mode = LS_FILL_MODE_WRAP), "it must be NOISE or CONSTANT"},
        {ls_random_erasing(.fill_value = 1), "its fill_value is 1"},
    };
    static const float pixels[100];
    static const int32_t label;
    ls_dataset *dataset = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(
            ls_dataset_arrays(pixels, square, &label, 1, 1, LS_DATASET(.maps = LS_MAPS(bad[i].map)), &dataset),
            bad[i].says);
    assert_refused(ls_dataset_arrays(pixels, LS_SHAPE(1, 1, 3), &label, 1, 1,
                                     LS_DATASET(.maps = LS_MAPS(ls_random_hue(.factor = {0, 2}))), &dataset),
                   "its factor is {0, 2}: give a lower and an upper number in [0, 1]");
    assert_refused(ls_dataset_arrays(pixels, LS_SHAPE(100), &label, 1, 1,
                                     LS_DATASET(.maps = LS_MAPS(ls_random_rotation(.factor = {0, 1}))), &dataset),
                   "are no images");
}

TESTS("augment")
