/* The manifest: to texts and back to the bit, what is refused, and which line differs. */
#include "checkpoint/manifest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "train/training_progress.h"

static const struct ls_training_progress sample = {
    .step = INT64_MAX,
    .learning_rate = 0.25F,
    .fit = {.position = INT64_MAX - 1,
            .generations = 2,
            .sums = {.loss = 0.1, .correct = 5, .rows = 6, .metrics = {[7] = -1.5}},
            .result = {.loss = -0.0,
                       .accuracy = 4.9e-324,
                       .val_loss = NAN,
                       .val_accuracy = INFINITY,
                       .metrics = {0.1, 4.9e-324},
                       .val_metrics = {NAN, -0.0}}},
    .facts = {.steps_per_epoch = 3, .seed = UINT64_MAX, .description = "a=1\n", .bits = ""},
};

static void write_texts(struct ls_training_progress progress, struct ls_manifest_texts *texts) {
    const struct ls_manifest manifest = ls_training_progress_manifest(&progress);
    ls_manifest_write(&manifest, texts);
}

static ls_status read_texts(struct ls_manifest_texts *texts, struct ls_training_progress *progress) {
    const struct ls_safetensors file = {.texts = texts->texts, .text_count = texts->count};
    const struct ls_manifest manifest = ls_training_progress_manifest(progress);
    return ls_manifest_read(&file, &manifest);
}

/* Reads the texts, writes them again, and compares. */
static void expect_back(struct ls_manifest_texts *texts) {
    struct ls_training_progress back = {0};
    struct ls_manifest_texts again;
    assert_ok(read_texts(texts, &back));
    write_texts(back, &again);
    ck_assert_uint_eq(again.count, texts->count);
    for (size_t i = 0; i < texts->count; i++) {
        ck_assert_str_eq(again.texts[i].name, texts->texts[i].name);
        ck_assert_str_eq(again.texts[i].value, texts->texts[i].value);
    }
}

TEST(it_comes_back_to_the_bit) {
    struct ls_manifest_texts texts;
    write_texts(sample, &texts);
    expect_back(&texts);
}

static const struct {
    const char *name, *value;
} refusals[] = {
    {"format", "pt"},      {"version", "2"},
    {"random", "mt19937"}, {"step", ""},
    {"step", "x"},         {"step", "-1"},
    {"step", "1x"},        {"step", "9223372036854775808"},
    {"seed", "-1"},        {"seed", "18446744073709551616"},
    {"loss", "0.5"},       {"loss", "0x"},
    {"loss", "zz"},        {"loss", "0x11111111111111111"},
    {"position", "-1"},
};

TEST_EACH(what_it_should_not_be_is_refused, COUNT_OF(refusals)) {
    struct ls_manifest_texts texts;
    struct ls_training_progress back = {.step = 77};
    struct ls_training_progress smaller = sample;
    smaller.step = 5, smaller.fit.position = 5;
    write_texts(smaller, &texts);
    for (size_t i = 0; i < texts.count; i++)
        if (!strcmp(texts.texts[i].name, refusals[_i].name)) texts.texts[i].value = refusals[_i].value;
    ck_assert_msg(read_texts(&texts, &back) == LS_INVALID_ARGUMENT, "%s=%s", refusals[_i].name, refusals[_i].value);
    ck_assert_msg(strstr(ls_error(), refusals[_i].name), "%s", ls_error());
    ck_assert_int_eq(back.step, 77);
}

TEST(every_field_must_be_there) {
    struct ls_manifest_texts texts;
    struct ls_training_progress back = {0};
    write_texts(sample, &texts);
    ck_assert_uint_le(texts.count, LS_MANIFEST_TEXTS);
    for (size_t i = 0; i < texts.count; i++) {
        const char *name = texts.texts[i].name;
        if (!strcmp(name, "learning_rate") || strstr(name, "metrics")) continue;
        texts.texts[i].name = "another";
        assert_refused(read_texts(&texts, &back), name);
        texts.texts[i].name = name;
    }
}

/* Files from before there were these fields have none, and such are written where they say nothing. */
TEST(some_fields_may_be_there) {
    struct ls_manifest_texts with, texts;
    struct ls_training_progress back = {0}, plain = sample;
    plain.learning_rate = 0;
    memset(plain.fit.sums.metrics, 0, sizeof(plain.fit.sums.metrics));
    memset(plain.fit.result.metrics, 0, 2 * sizeof(plain.fit.result.metrics)); /* and val_metrics */
    write_texts(sample, &with);
    write_texts(plain, &texts);
    ck_assert_uint_eq(texts.count + 4, with.count);
    expect_back(&texts);
    static const char *const bad[] = {"", "x", "0x1", "0x1 0x1 0x1 0x1 0x1 0x1 0x1 0x1 0x1", "1 1 1 1 1 1 1 y"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        with.texts[with.count - 2].value = bad[i];
        assert_refused(read_texts(&with, &back), "val_metrics");
    }
    with.texts[with.count - 2].value = "0 0 0 0 0 0 0 0";
    with.texts[with.count - 1].value = "x";
    assert_refused(read_texts(&with, &back), "learning_rate");
}

TEST(a_loss_scale_is_kept) {
    struct ls_manifest_texts texts;
    struct ls_training_progress scaled = sample;
    write_texts(sample, &texts);
    size_t without = texts.count;
    scaled.scaler = (struct ls_loss_scaler){0x1p-3F, 1999, 18};
    write_texts(scaled, &texts);
    ck_assert_uint_eq(texts.count, without + 3);
    expect_back(&texts);
}

static void expect_difference(const char *there, const char *here, const char *message) {
    assert_fails(ls_manifest_compare(there, here), LS_FAILED_PRECONDITION, message);
}

TEST(the_difference_is_named) {
    assert_ok(ls_manifest_compare("", ""));
    assert_ok(ls_manifest_compare("a=1\nb=2\n", "a=1\nb=2\n"));
    expect_difference("a=1\nb=2\n", "a=1\nb=3\n", "b differs: '2' there, '3' here");
    expect_difference("a=1\n", "a=12\n", "a differs: '1' there, '12' here");
    expect_difference("a=1\n", "ab=1\n", "'a=1' there, 'ab=1' here");
    expect_difference("a=1\n", "a=1\nb=2\n", "b=2");
    expect_difference("a=1\nb=2\n", "a=1\n", "b=2");
}

TESTS("manifest")
