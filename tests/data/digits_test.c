/* The built-in digits: the same everywhere, balanced, different in each split, and too hard for a linear classifier. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/image.h"
#include "data/fixture.h"
#include "harness.h"

#define PIXELS (28 * 28)

static ls_dataset *make(const ls_dataset_options *options) {
    ls_dataset *dataset;
    assert_ok(ls_dataset_digits(options, &dataset));
    return dataset;
}

static int read_one(const ls_dataset *dataset, int64_t index, float *features) {
    int32_t label = -1;
    require(ls_source_read(dataset->source, index, features, LS_LABELS(&label)) == LS_OK);
    require(label >= 0 && label < 10);
    return label;
}

/* The first 100 examples as bytes, label first. */
static void digest_first(const ls_dataset *dataset, char hex[65]) {
    static uint8_t bytes[100][1 + PIXELS];
    for (int i = 0; i < 100; i++) {
        float features[PIXELS];
        bytes[i][0] = (uint8_t)read_one(dataset, i, features);
        for (int p = 0; p < PIXELS; p++) bytes[i][1 + p] = (uint8_t)lrintf(features[p] * 255);
    }
    assert_ok(ls_digest_sha256(bytes, sizeof(bytes), hex));
}

/* Recorded digests: a change of the drawing changes every recorded training result. */
TEST(digits_have_their_recorded_digests) {
    static const struct {
        ls_split split;
        uint64_t seed;
        const char *digest;
    } rows[] = {
        {LS_TRAIN, 0, "7f119f6aa1bc8b662bb6d52c0e8804f71f60aff0124b2987e2970eb19c8d954d"},
        {LS_TEST, 0, "bd22032b41c11e161515431a87c1dbc7b08f3cf9c813c6d00a4a1d09b8cb3587"},
        {LS_TRAIN, 1, "4471dd1b490bc91e23fef09c737e046aaa045cfc70cd0f28af128fab3cb54836"},
    };
    for (int i = 0; i < 3; i++) {
        char hex[65], again[65];
        ls_dataset *dataset = make(LS_DATASET(.split = rows[i].split, .seed = rows[i].seed, .limit = 100 + i));
        digest_first(dataset, hex);
        digest_first(dataset, again); /* from the cache */
        ck_assert_str_eq(hex, rows[i].digest);
        ck_assert_str_eq(again, hex);
        ls_dataset_free(dataset);
    }
}

TEST(digits_have_the_shape_of_mnist) {
    ls_dataset *train = make(NULL), *test = make(LS_DATASET(.split = LS_TEST));
    ls_shape shape = ls_dataset_shape(train);
    ck_assert(shape.rank == 3 && shape.dims[0] == 28 && shape.dims[1] == 28 && shape.dims[2] == 1);
    ck_assert_int_eq(ls_dataset_num_classes(train), 10);
    ck_assert_int_eq(ls_dataset_count(train), 60000);
    ck_assert_int_eq(ls_dataset_count(test), 10000);
    ls_dataset_free(train);
    ls_dataset_free(test);
    ls_dataset *dataset = NULL;
    assert_refused(ls_dataset_digits(LS_DATASET(.limit = INT64_C(1) << 40), &dataset), "limit is");
}

/* Each class once in every ten, in changing orders; values in [0, 1]; something is drawn near the middle. */
TEST(classes_are_balanced) {
    ls_dataset *dataset = make(LS_DATASET(.limit = 2000));
    int at_front[10] = {0};
    for (int64_t ten = 0; ten < 200; ten++) {
        int seen = 0;
        for (int i = 0; i < 10; i++) {
            float features[PIXELS], sum = 0;
            int label = read_one(dataset, 10 * ten + i, features);
            seen |= 1 << label;
            at_front[label] += i == 0;
            for (int p = 0; p < PIXELS; p++) {
                require(features[p] >= 0 && features[p] <= 1);
                sum += features[p];
            }
            ck_assert(sum > 10 && sum < PIXELS / 2);
        }
        ck_assert_int_eq(seen, 0x3FF);
    }
    for (int i = 0; i < 10; i++) ck_assert_int_ge(at_front[i], 5);
    ls_dataset_free(dataset);
}

/* No example of one split is in the other, nor twice in one. */
TEST(splits_differ) {
    static float train[300][PIXELS], test[300][PIXELS];
    ls_dataset *one = make(LS_DATASET(.limit = 300)), *other = make(LS_DATASET(.limit = 300, .split = LS_TEST));
    for (int i = 0; i < 300; i++) {
        (void)read_one(one, i, train[i]);
        (void)read_one(other, i, test[i]);
    }
    for (int i = 0; i < 300; i++)
        for (int j = 0; j < 300; j++) {
            require(memcmp(train[i], test[j], sizeof(train[i])));
            require(i == j || memcmp(train[i], train[j], sizeof(train[i])));
        }
    ls_dataset_free(one);
    ls_dataset_free(other);
}

#define CLASSES  10
#define EXAMPLES 15000
#define TESTED   5000
struct linear {
    float weights[PIXELS + 1][CLASSES]; /* the last row is the bias */
};

static void scores_of(const struct linear *linear, const float *features, float *scores) {
    memcpy(scores, linear->weights[PIXELS], CLASSES * sizeof(float));
    for (int p = 0; p < PIXELS; p++)
        for (int c = 0; c < CLASSES; c++) scores[c] += features[p] * linear->weights[p][c];
}

static int largest(const float *scores) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
        if (scores[c] > scores[best]) best = c;
    return best;
}

/* One step of stochastic gradient descent on softmax cross-entropy. */
static void learn(struct linear *linear, const float *features, int label, float rate) {
    float scores[CLASSES], sum = 0;
    scores_of(linear, features, scores);
    float top = scores[largest(scores)];
    for (int c = 0; c < CLASSES; c++) sum += scores[c] = expf(scores[c] - top);
    for (int c = 0; c < CLASSES; c++) scores[c] = rate * ((float)(c == label) - scores[c] / sum);
    for (int p = 0; p < PIXELS; p++)
        for (int c = 0; c < CLASSES; c++) linear->weights[p][c] += features[p] * scores[c];
    for (int c = 0; c < CLASSES; c++) linear->weights[PIXELS][c] += scores[c];
}

/* Softmax regression learns much of it and stays below 0.93. */
TEST(a_linear_classifier_stays_below_93_percent) {
    static struct linear linear;
    float features[PIXELS], scores[CLASSES];
    ls_dataset *train = make(LS_DATASET(.limit = EXAMPLES)),
               *test = make(LS_DATASET(.limit = TESTED, .split = LS_TEST));
    int64_t right = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        for (int64_t i = 0; i < EXAMPLES; i++) {
            int label = read_one(train, i, features);
            learn(&linear, features, label, 0.01F / (float)(1 << epoch));
        }
    for (int64_t i = 0; i < TESTED; i++) {
        int label = read_one(test, i, features);
        scores_of(&linear, features, scores);
        right += largest(scores) == label;
    }
    ck_assert_int_ge(right, TESTED * 80 / 100);
    ck_assert_int_lt(right, TESTED * 93 / 100);
    ls_dataset_free(train);
    ls_dataset_free(test);
}

TESTS("digits", .seconds = 100)
