/* Stages: what each does, what it draws, and mistakes. */
#include <math.h>
#include <string.h>

#include "data/dataset.h"
#include "data/fixture.h"
#include "data/order.h"
#include "harness.h"

#define HEIGHT 3
#define WIDTH  4
#define COUNT  (HEIGHT * WIDTH * 2)

static float pixels[64 * COUNT];
static int32_t labels[64];

/* Images of 3 x 4 x 2, all pixels different. */
static ls_dataset *make(const ls_map *maps) {
    ls_dataset *dataset;
    for (int i = 0; i < 64 * COUNT; i++) pixels[i] = (float)i + 1;
    assert_ok(ls_dataset_arrays(pixels, LS_SHAPE(HEIGHT, WIDTH, 2), labels, 64, 1, LS_DATASET(.maps = maps, .seed = 5),
                                &dataset));
    return dataset;
}

static void read_one(const ls_dataset *dataset, int64_t example, int64_t pass, float *features) {
    struct ls_read_buffers kept = {0};
    int32_t label;
    assert_ok(ls_dataset_read(dataset, &(struct ls_row){example, pass}, &kept, features, LS_LABELS(&label)));
    ls_dataset_read_buffers_free(&kept);
}

static float at(int64_t example, int y, int x, int c) {
    bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
    return inside ? (float)(example * COUNT + (y * WIDTH + x) * 2 + c + 1) : 0;
}

TEST(flips_mirror_whole_images) {
    ls_dataset *dataset = make(LS_MAPS(ls_random_flip()));
    int flipped = 0;
    for (int64_t i = 0; i < 64; i++) {
        float features[COUNT];
        read_one(dataset, i, 0, features);
        bool turned = features[0] != at(i, 0, 0, 0);
        for (int p = 0; p < COUNT; p++) {
            int x = p / 2 % WIDTH;
            require(features[p] == at(i, p / 2 / WIDTH, turned ? WIDTH - 1 - x : x, p % 2));
        }
        flipped += turned;
    }
    ck_assert(flipped > 16 && flipped < 48);
    ls_dataset_free(dataset);
}

TEST(crops_lie_inside) {
    ls_dataset *dataset = make(LS_MAPS(ls_random_crop(2, 0, 1)));
    ls_shape shape = ls_dataset_shape(dataset);
    bool seen[4][3] = {{false}};
    ck_assert(shape.dims[0] == 2 && shape.dims[1] == WIDTH && shape.dims[2] == 2);
    for (int64_t i = 0; i < 64; i++) {
        float features[COUNT];
        int matches = 0;
        read_one(dataset, i, 0, features);
        for (int top = -1; top <= 2; top++)
            for (int left = -1; left <= 1; left++) {
                bool equal = true;
                for (int p = 0; p < 2 * WIDTH * 2; p++)
                    equal = equal && features[p] == at(i, top + p / 2 / WIDTH, left + p / 2 % WIDTH, p % 2);
                seen[top + 1][left + 1] = seen[top + 1][left + 1] || equal;
                matches += equal;
            }
        ck_assert_int_eq(matches, 1);
    }
    for (int i = 0; i < 12; i++) ck_assert(seen[i / 3][i % 3]);
    ls_dataset_free(dataset);
    float features[COUNT];
    dataset = make(LS_MAPS(ls_central_crop(1, 2)));
    read_one(dataset, 3, 0, features);
    for (int p = 0; p < 4; p++) ck_assert(features[p] == at(3, 1, 1 + p / 2, p % 2));
    ls_dataset_free(dataset);
}

TEST(rescaling_and_brightness_are_exact) {
    float features[COUNT];
    ls_dataset *dataset = make(LS_MAPS(ls_rescale(2, -1), ls_normalise(.mean = {1, 2}, .deviation = {4, 8})));
    read_one(dataset, 0, 0, features);
    for (int p = 0; p < COUNT; p++)
        ck_assert(features[p] == (2 * pixels[p] - 1 - (float)(p % 2 + 1)) / (p % 2 ? 8.0F : 4.0F));
    ls_dataset_free(dataset);
    dataset = make(LS_MAPS(ls_random_brightness(0.25F)));
    float least = 1, most = -1;
    for (int64_t i = 0; i < 64; i++) {
        read_one(dataset, i, 0, features);
        float delta = features[0] - at(i, 0, 0, 0);
        for (int p = 0; p < COUNT; p++) require(fabsf(features[p] - pixels[i * COUNT + p] - delta) < 1e-3F);
        least = fminf(least, delta);
        most = fmaxf(most, delta);
    }
    ck_assert(least >= -0.2501F && least < -0.15F && most <= 0.2501F && most > 0.15F);
    ls_dataset_free(dataset);
    dataset = make(LS_MAPS(ls_random_contrast(0.5F)));
    read_one(dataset, 0, 0, features);
    float factor = (features[2] - features[0]) / 2;
    ck_assert(factor >= 0.5F && factor <= 1.5F && factor != 1);
    for (int p = 0; p < COUNT; p++)
        require(fabsf(features[p] - ((pixels[p] - 12 - (float)(p % 2)) * factor + 12 + (float)(p % 2))) < 1e-3F);
    ls_dataset_free(dataset);
}

/* Draws depend on example, pass and stage, and on nothing else. */
TEST(draws_depend_on_example_pass_and_stage) {
    ls_dataset *dataset = make(LS_MAPS(ls_random_brightness(1), ls_random_brightness(1)));
    float first[COUNT], again[COUNT], pass[COUNT], other[COUNT];
    read_one(dataset, 7, 2, first);
    read_one(dataset, 8, 2, other);
    read_one(dataset, 7, 3, pass);
    read_one(dataset, 7, 2, again);
    ck_assert_mem_eq(first, again, sizeof(first));
    ck_assert(first[0] != pass[0]);
    ck_assert(fabsf(first[0] - at(7, 0, 0, 0) - (other[0] - at(8, 0, 0, 0))) > 1e-4F);
    ls_dataset_free(dataset);
}

/* Sums each image; its label becomes the number of the pass. */
static ls_status sum(void *context, const ls_map_call *call) {
    if (*(bool *)context) return LS_OUT_OF_RANGE;
    *call->output = 0;
    for (int64_t i = 0; i < call->shape.dims[0] * call->shape.dims[1] * call->shape.dims[2]; i++)
        *call->output += call->input[i];
    *call->label = (int32_t)call->pass;
    return LS_OK;
}

TEST(a_function_maps_an_example) {
    bool fails = false;
    struct ls_read_buffers kept = {0};
    float output = 0;
    int32_t label = 0;
    ls_dataset *dataset = make(LS_MAPS(ls_map_function(sum, &fails, .shape = LS_SHAPE(1))));
    ls_shape shape = ls_dataset_shape(dataset);
    ck_assert(shape.rank == 1 && shape.dims[0] == 1);
    assert_ok(ls_dataset_read(dataset, &(struct ls_row){0, 4}, &kept, &output, LS_LABELS(&label)));
    ck_assert(output == COUNT * (COUNT + 1) / 2 && label == 4);
    fails = true;
    assert_fails(ls_dataset_read(dataset, &(struct ls_row){9, 0}, &kept, &output, LS_LABELS(&label)), LS_OUT_OF_RANGE,
                 "failed at example 9");
    ls_dataset_read_buffers_free(&kept);
    ls_dataset_free(dataset);
}

TEST(bad_stages_are_refused) {
    static const struct {
        ls_map map;
        const char *says;
    } bad[] = {{ls_random_crop(9, 2), "stage 0 of maps (crop): 9 x 2 cannot be cut out of 3 x 4 with a padding of 0"},
               {ls_random_crop(2, 2, -1), "padding of -1"},
               {ls_central_crop(2, 2, 1), "no padding"},
               {ls_random_brightness(-1), "amount is -1"},
               {ls_normalise(.mean = {1}), "deviation of channel 0 is 0"},
               {{.kind = LS_MAP_FUNCTION}, "function is NULL"},
               {{.kind = (ls_map_kind)99}, "of kind 99"}};
    ls_dataset *dataset = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(ls_dataset_arrays(pixels, LS_SHAPE(HEIGHT, WIDTH, 2), labels, 64, 1,
                                         LS_DATASET(.maps = LS_MAPS(bad[i].map)), &dataset),
                       bad[i].says);
    assert_refused(
        ls_dataset_arrays(pixels, LS_SHAPE(4), labels, 64, 1, LS_DATASET(.maps = LS_MAPS(ls_random_flip())), &dataset),
        "shape (4) are no images");
    ck_assert_ptr_null(dataset);
}

TESTS("map")
