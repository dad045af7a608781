/* Mixed examples: features and targets of two, the distribution of weights, the stages around it, and mistakes. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "data/stage.h"
#include "data/order.h"
#include "harness.h"

#define COUNT 64

static float values[COUNT], twice[2 * COUNT], weights[COUNT];
static int32_t classes[COUNT];

/* Example i is the number i, and of class i. */
static ls_status open_classes(const ls_map *maps, ls_dataset **dataset) {
    for (int i = 0; i < COUNT; i++) values[i] = (float)i, classes[i] = i;
    return ls_dataset_arrays(values, LS_SHAPE(1), classes, COUNT, COUNT, LS_DATASET(.maps = maps, .seed = 3), dataset);
}

static float read_value(const ls_dataset *dataset, int64_t example, int64_t pass, const struct ls_targets *targets) {
    struct ls_read_buffers kept = {0};
    float feature;
    assert_ok(ls_dataset_read(dataset, &(struct ls_row){example, pass}, &kept, &feature, targets));
    ls_dataset_read_buffers_free(&kept);
    return feature;
}

/* The other class that has a share; own where there is none. */
static int other_class(const float *shares, int own) {
    for (int i = 0; i < COUNT; i++)
        if (i != own && shares[i] > 0) return i;
    return own;
}

/* The partner has gone through the stages before by its own draws, in the same pass. */
TEST(features_and_classes_have_the_same_weights) {
    float shares[COUNT];
    int seen[COUNT] = {0};
    int32_t label;
    ls_dataset *alone = NULL, *mixed = NULL;
    assert_ok(open_classes(LS_MAPS(ls_random_brightness(4)), &alone));
    assert_ok(open_classes(LS_MAPS(ls_random_brightness(4), ls_mix_up(1), ls_rescale(2, 5)), &mixed));
    for (int i = 0; i < COUNT * 16; i++) {
        int own = i % COUNT, pass = i / COUNT;
        float feature = read_value(mixed, own, pass, &(struct ls_targets){.numbers = shares}), sum = 0;
        int other = other_class(shares, own);
        for (int k = 0; k < COUNT; k++) sum += shares[k];
        ck_assert(fabsf(sum - 1) < 1e-6F);
        float wanted = read_value(alone, own, pass, LS_LABELS(&label));
        if (other != own)
            wanted = shares[own] * wanted + shares[other] * read_value(alone, other, pass, LS_LABELS(&label));
        ck_assert_msg(fabsf(feature - (2 * wanted + 5)) < 1e-3F, "example %d: %g instead of %g", own, (double)feature,
                      (double)(2 * wanted + 5));
        seen[other]++;
    }
    for (int k = 0; k < COUNT; k++) ck_assert(seen[k] > 2 && seen[k] < 40);
    ls_dataset_free(alone);
    ls_dataset_free(mixed);
}

TEST(a_mixed_dataset_has_numbers_of_its_classes) {
    ls_dataset *dataset = NULL;
    ls_shape shape = {0};
    int32_t label = 0;
    assert_ok(open_classes(LS_MAPS(ls_mix_up(0.2F)), &dataset));
    ck_assert(ls_dataset_targets(dataset, &shape) && shape.rank == 1 && shape.dims[0] == COUNT);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), COUNT);
    assert_ok(ls_dataset_label(dataset, 7, &label));
    ck_assert_int_eq(label, 7);
    ls_dataset_free(dataset);
}

/* Of numbers (i, 2 i) the mixture is on the same line; the weight of an example stays its own. */
TEST(numbers_are_mixed_and_weights_kept) {
    ls_dataset *dataset = NULL;
    for (int i = 0; i < COUNT; i++)
        values[i] = twice[2 * i] = (float)i, twice[2 * i + 1] = (float)(2 * i), weights[i] = (float)(i + 1);
    assert_ok(
        ls_dataset_from_arrays(LS_ARRAYS(.count = COUNT, .features = values, .shape = LS_SHAPE(1), .targets = twice,
                                         .target_shape = LS_SHAPE(2), .sample_weights = weights),
                               LS_DATASET(.maps = LS_MAPS(ls_mix_up(1))), &dataset));
    int moved = 0;
    for (int i = 0; i < COUNT; i++) {
        float numbers[2], weight;
        float feature = read_value(dataset, i, 0, &(struct ls_targets){.numbers = numbers, .weights = &weight});
        ck_assert(fabsf(numbers[0] - feature) < 1e-4F && fabsf(numbers[1] - 2 * feature) < 1e-4F);
        ck_assert(weight == (float)(i + 1));
        moved += feature != (float)i;
    }
    ck_assert(moved > COUNT / 2);
    ck_assert_int_eq(ls_dataset_whole_classes(dataset), 0);
    ls_dataset_free(dataset);
}

/* Of Beta(a, a) the second central moment is 1 / (4 (2a + 1)), the fourth 3 / (16 (2a + 1) (2a + 3)). */
TEST_EACH(weights_are_those_of_a_beta_distribution, 5) {
    static const double alphas[] = {0.02, 0.2, 0.5, 1, 4};
    double alpha = alphas[_i], first = 0, second = 0, fourth = 0, draws = 100000;
    const ls_map map = ls_mix_up((float)alpha);
    for (int i = 0; (double)i < draws; i++) {
        uint32_t random[8];
        ls_philox_words(1, 2, (uint64_t)i, random);
        ls_philox_words(1, 3, (uint64_t)i, random + 4);
        struct ls_mix_up drawn = ls_mix_up_draw(&map, random, COUNT);
        require(drawn.partner >= 0 && drawn.partner < COUNT && drawn.weight >= 0 && drawn.weight <= 1);
        double side = (double)drawn.weight - 0.5;
        first += side, second += side * side, fourth += side * side * side * side;
    }
    ck_assert(fabs(first / draws) < 0.006);
    ck_assert(fabs(second / draws * 4 * (2 * alpha + 1) - 1) < 0.02);
    ck_assert(fabs(fourth / draws * 16 / 3 * (2 * alpha + 1) * (2 * alpha + 3) - 1) < 0.04);
}

static ls_status relabel(void *context, const ls_map_call *call) {
    *call->output = *call->input;
    *call->label = *(int32_t *)context;
    return LS_OK;
}

TEST(mistakes_are_named) {
    static const struct {
        ls_map maps[3];
        const char *says;
    } bad[] = {{{ls_mix_up(0)}, "stage 0 of maps (mix-up): its alpha is 0: it must be above 0"},
               {{ls_mix_up(-1)}, "its alpha is -1"},
               {{ls_mix_up(NAN)}, "its alpha is nan"},
               {{ls_mix_up(1), ls_mix_up(1)}, "stage 1 of maps (mix-up): stage 0 mixes already: leave one out"},
               {{{.kind = LS_MAP_MIX_UP, .amount = 1, .offset = 1}}, "it has no offset"}};
    ls_dataset *dataset = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(open_classes(bad[i].maps, &dataset), bad[i].says);
    assert_refused(ls_dataset_from_arrays(LS_ARRAYS(.count = 2, .features = values, .shape = LS_SHAPE(1)),
                                          LS_DATASET(.maps = LS_MAPS(ls_mix_up(1))), &dataset),
                   "mix-up: the examples have no targets that could be mixed");
    struct ls_read_buffers kept = {0};
    int32_t label = COUNT;
    float feature, shares[COUNT];
    assert_ok(open_classes(LS_MAPS(ls_map_function(relabel, &label), ls_mix_up(1)), &dataset));
    assert_refused(
        ls_dataset_read(dataset, &(struct ls_row){0, 0}, &kept, &feature, &(struct ls_targets){.numbers = shares}),
        "mix-up: label 64 is none of 64 classes");
    label = 5;
    assert_ok(
        ls_dataset_read(dataset, &(struct ls_row){0, 0}, &kept, &feature, &(struct ls_targets){.numbers = shares}));
    ck_assert(fabsf(shares[5] - 1) < 1e-6F);
    ls_dataset_read_buffers_free(&kept);
    ls_dataset_free(dataset);
}

TESTS("mix_up")
