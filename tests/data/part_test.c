/* The parts of validation_split: of random labels, shares, skips and limits both together are all, each class has its
 * share, and nothing but the seed and the labels decides. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "data/sources.h"
#include "harness.h"
#include "property/draw.h"

enum { MOST = 400, CLASSES = 6, TRIALS = SANITIZED ? 60 : 400 };

static float numbers[MOST]; /* each example is its own number */

struct trial {
    int64_t count, classes, skip, limit;
    int32_t labels[MOST];
    double split;
    uint64_t seed;
};

static void draw_trial(struct draw *draw, struct trial *trial) {
    static const double splits[] = {0.1, 0.2, 0.25, 0.5, 0.9, 1.0 / 3};
    *trial = (struct trial){.count = 40 + (int64_t)draw_below(draw, MOST - 39),
                            .classes = 1 + (int64_t)draw_below(draw, CLASSES),
                            .split = splits[draw_below(draw, 6)],
                            .seed = draw_below(draw, 1000)};
    if (draw_once_in(draw, 2)) trial->skip = (int64_t)draw_below(draw, 10);
    if (draw_once_in(draw, 2)) trial->limit = 20 + (int64_t)draw_below(draw, 400);
    for (int64_t i = 0; i < trial->count; i++) {
        size_t label = draw_below(draw, (size_t)trial->classes);
        trial->labels[i] = (int32_t)(draw_once_in(draw, 2) ? 0 : label); /* the first one is frequent */
    }
}

static ls_status open_part(const struct trial *trial, ls_part part, ls_dataset **dataset) {
    return ls_dataset_arrays(numbers, LS_SHAPE(1), trial->labels, trial->count, (int)trial->classes,
                             LS_DATASET(.validation_split = trial->split, .part = part, .seed = trial->seed,
                                        .skip = trial->skip, .limit = trial->limit),
                             dataset);
}

/* The examples of a part are added to seen, and counted by class. */
static void read_part(const struct trial *trial, ls_part part, int seen[MOST], int64_t classes[CLASSES]) {
    ls_dataset *dataset;
    float before = -1;
    assert_ok(open_part(trial, part, &dataset));
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        float number;
        int32_t label;
        assert_ok(ls_dataset_read_source(dataset, i, &number, LS_LABELS(&label)));
        ck_assert_int_eq(label, trial->labels[(int)number]);
        ck_assert(number > before); /* in the order of the source */
        before = number;
        seen[(int)number]++;
        classes[label]++;
    }
    ls_dataset_free(dataset);
}

TEST(both_parts_are_all_and_each_class_has_its_share) {
    struct draw draw = draw_from(17, 0);
    for (int i = 0; i < TRIALS; i++) {
        struct trial trial;
        int seen[MOST] = {0};
        int64_t trained[CLASSES] = {0}, validated[CLASSES] = {0}, all = 0, kept = 0;
        draw_trial(&draw, &trial);
        read_part(&trial, LS_PART_TRAINING, seen, trained);
        read_part(&trial, LS_PART_VALIDATION, seen, validated);
        int64_t end = trial.limit ? trial.skip + trial.limit : trial.count;
        for (int64_t e = 0; e < trial.count; e++) ck_assert_int_eq(seen[e], e >= trial.skip && e < end);
        for (int c = 0; c < CLASSES; c++) {
            double own = (double)(trained[c] + validated[c]) * trial.split;
            ck_assert_double_le(fabs((double)validated[c] - own), 1);
            all += trained[c] + validated[c];
            kept += validated[c];
        }
        ck_assert_int_eq(kept, (int64_t)floor((double)all * trial.split + 0.5));
    }
}

TEST(the_seed_decides) {
    struct trial trial = {.count = MOST, .classes = 2, .split = 0.25};
    int64_t classes[CLASSES] = {0};
    int first[MOST] = {0}, again[MOST] = {0}, other[MOST] = {0};
    for (int i = 0; i < MOST; i++) trial.labels[i] = i % 2;
    read_part(&trial, LS_PART_VALIDATION, first, classes);
    read_part(&trial, LS_PART_VALIDATION, again, classes);
    trial.seed = 1;
    read_part(&trial, LS_PART_VALIDATION, other, classes);
    ck_assert_mem_eq(first, again, sizeof(first));
    ck_assert(memcmp(first, other, sizeof(first)) != 0);
}

/* Labels come from folders' names, without a file being read: the images here are none. */
TEST(images_are_not_read_for_it) {
    ls_dataset *dataset;
    char path[64];
    folder_clear();
    folder_make_inside("cats");
    folder_make_inside("dogs");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(path, sizeof(path), "%s/%d.png", i % 4 ? "cats" : "dogs", i);
        folder_write(path, "no image", 8, false);
    }
    assert_ok(ls_dataset_images(folder_path(),
                                LS_DATASET(.validation_split = 0.2, .part = LS_PART_VALIDATION, .image_height = 8,
                                           .image_width = 8, .image_channels = 3),
                                &dataset));
    int64_t cats = 0;
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        int32_t label;
        assert_ok(ls_source_targets(dataset->source, i, LS_LABELS(&label)));
        cats += label == 0;
    }
    ck_assert_int_eq(ls_dataset_count(dataset), 8);
    ck_assert_int_eq(cats, 6);
    ls_dataset_free(dataset);
}

TEST(what_cannot_be_is_refused) {
    ls_dataset *dataset = NULL;
    struct trial trial = {.count = 4, .classes = 1};
    for (int i = 0; i < 4; i++) {
        const double splits[] = {-0.1, 1, 1.5, NAN};
        trial.split = splits[i];
        assert_refused(open_part(&trial, LS_PART_TRAINING, &dataset), "validation_split is ");
    }
    trial.split = 0.1;
    assert_refused(open_part(&trial, LS_PART_VALIDATION, &dataset), "of 4 examples it leaves none for validation");
    assert_refused(open_part(&trial, LS_PART_TRAINING, &dataset), "of 4 examples it leaves none for validation");
    trial.split = 0.9;
    assert_refused(open_part(&trial, LS_PART_TRAINING, &dataset), "it leaves none for training");
    trial.split = 0;
    assert_refused(open_part(&trial, LS_PART_VALIDATION, &dataset), "needs a validation_split");
    assert_refused(ls_dataset_arrays(numbers, LS_SHAPE(1), trial.labels, MOST, 1,
                                     LS_DATASET(.validation_split = 0.5, .interleave = 2), &dataset),
                   "has no files to read in turn");
    assert_refused(open_part(&trial, (ls_part)2, &dataset), "part is 2");
}

int main(void) {
    for (int i = 0; i < MOST; i++) numbers[i] = (float)i;
    return RUN_TESTS("part", .begin = folder_make, .end = folder_remove);
}
