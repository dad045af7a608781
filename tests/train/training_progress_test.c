/* A training's progress by its table: as the texts of a checkpoint and as the bytes of recovery each field comes back
 * to the bit, and bytes that have changed are refused. */
#include "train/training_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/file.h"
#include "harness.h"

#define ROUNDS 200
#define ALL    (LS_PROGRESS_MODEL | LS_PROGRESS_FIT | LS_PROGRESS_RESULT)

static uint64_t drawn = 88172645463325252U;

static uint64_t draw(void) {
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    return drawn ^= drawn << 17;
}

static void *place_of(const struct ls_manifest *table, size_t row) {
    return (char *)table->record + table->fields[row].offset;
}

static size_t size_of(enum ls_manifest_type type) {
    if (type == LS_MANIFEST_METRICS) return LS_MAX_METRICS * sizeof(double);
    if (type == LS_MANIFEST_FLAG) return sizeof(bool);
    return type == LS_MANIFEST_FLOAT ? sizeof(float) : sizeof(uint64_t);
}

/* A number that is not 0; bits of any kind where they are a double's. */
static void draw_field(const struct ls_manifest *table, size_t row) {
    static const char *const texts[] = {"a=1\n", "", "b=\"c\"\n"};
    enum ls_manifest_type type = table->fields[row].type;
    void *place = place_of(table, row);
    uint64_t words[LS_MAX_METRICS];
    for (int i = 0; i < LS_MAX_METRICS; i++) words[i] = draw() | 1;
    if (type == LS_MANIFEST_INTEGER) words[0] >>= 1;
    if (type == LS_MANIFEST_COUNT) words[0] = (words[0] >> 12) | 1; /* a double counts so far */
    memcpy(place, words, type == LS_MANIFEST_TEXT ? 0 : size_of(type));
    if (type == LS_MANIFEST_FLAG) *(bool *)place = true;
    if (type == LS_MANIFEST_FLOAT) *(float *)place = (float)(words[0] >> 40) / 1024;
    if (type == LS_MANIFEST_TEXT) *(const char **)place = texts[draw() % 3];
}

static void draw_progress(const struct ls_manifest *table) {
    for (size_t i = 0; i < table->count; i++) draw_field(table, i);
}

static void expect_field(const struct ls_manifest *one, const struct ls_manifest *other, size_t row) {
    ck_assert_msg(!memcmp(place_of(one, row), place_of(other, row), size_of(one->fields[row].type)), "%s",
                  one->fields[row].name);
}

TEST(every_row_survives_as_texts) {
    struct ls_training_progress there = {0}, here = {0};
    const struct ls_manifest one = ls_training_progress_manifest(&there), other = ls_training_progress_manifest(&here);
    struct ls_manifest_texts texts;
    for (int round = 0; round < ROUNDS; round++) {
        draw_progress(&one);
        draw_progress(&other);
        struct ls_training_progress before = here;
        ls_manifest_write(&one, &texts);
        ck_assert_uint_le(texts.count, LS_MANIFEST_TEXTS);
        const struct ls_safetensors file = {.texts = texts.texts, .text_count = texts.count};
        assert_ok(ls_manifest_read(&file, &other));
        const struct ls_manifest old = ls_training_progress_manifest(&before);
        for (size_t i = 0; i < one.count; i++)
            expect_field(&other, one.fields[i].use == LS_MANIFEST_NEVER ? &old : &one, i);
    }
}

TEST(every_row_survives_as_bytes) {
    struct ls_training_progress there = {0}, here = {0};
    const struct ls_manifest one = ls_training_progress_manifest(&there), other = ls_training_progress_manifest(&here);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned parts = round % (ALL + 1);
        char *bytes = malloc(ls_training_progress_size(parts));
        ck_assert_ptr_nonnull(bytes);
        draw_progress(&one);
        draw_progress(&other);
        struct ls_training_progress before = here;
        const struct ls_manifest old = ls_training_progress_manifest(&before);
        ls_training_progress_write(&there, parts, bytes);
        assert_ok(ls_training_progress_read(bytes, parts, &here));
        for (size_t i = 0; i < one.count; i++) expect_field(&other, one.fields[i].part & parts ? &one : &old, i);
        free(bytes);
    }
}

/* The rows fill the struct but for its padding: a member without a row fails here. */
TEST(each_member_has_one_row) {
    struct ls_training_progress progress;
    const struct ls_manifest table = ls_training_progress_manifest(&progress);
    size_t size = 0;
    for (size_t i = 0; i < table.count; i++) {
        size += size_of(table.fields[i].type);
        ck_assert_msg(table.fields[i].part || table.fields[i].use != LS_MANIFEST_NEVER, "%s", table.fields[i].name);
        for (size_t j = 0; j < i; j++) {
            ck_assert_str_ne(table.fields[i].name, table.fields[j].name);
            ck_assert_uint_ne(table.fields[i].offset, table.fields[j].offset);
        }
    }
    ck_assert_uint_le(size, sizeof(progress));
    ck_assert_uint_ge(size + 3 * sizeof(uint64_t), sizeof(progress)); /* after four flags and a float */
}

TEST(any_bit_that_has_changed_is_found) {
    struct ls_training_progress there = {0}, here = {.step = 77};
    const struct ls_manifest one = ls_training_progress_manifest(&there);
    size_t size = ls_training_progress_size(ALL);
    char *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    draw_progress(&one);
    ls_training_progress_write(&there, ALL, bytes);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        ck_assert_int_eq(ls_training_progress_read(bytes, ALL, &here), LS_DATA_LOSS);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    ck_assert_int_eq(here.step, 77);
    assert_ok(ls_training_progress_read(bytes, ALL, &here));
    free(bytes);
}

/* Little-endian words on every machine: recovery's bytes go from one to another. */
TEST(the_bytes_are_these) {
    const struct ls_training_progress progress = {.step = 0x0102, .learning_rate = 1};
    unsigned char bytes[512];
    ck_assert_uint_le(ls_training_progress_size(LS_PROGRESS_MODEL), sizeof(bytes));
    ls_training_progress_write(&progress, LS_PROGRESS_MODEL, bytes);
    ck_assert_mem_eq(bytes, "\2\1\0\0\0\0\0\0\0\0\200\77\0\0\0\0", 16);
}

/* An epoch's place, through the form of a checkpoint. */
TEST(epochs_come_back) {
    for (int64_t position = 0; position <= 12; position++) {
        for (int ended = 0; ended < 2; ended++) {
            bool unfinished = position && position % 4 == 0 && draw() % 2;
            struct ls_training_progress progress = {.facts.steps_per_epoch = 4, .step = position};
            struct ls_fit_state *fit = &progress.fit, before;
            fit->position = position;
            fit->epochs = position / 4 - unfinished;
            fit->ended = fit->epochs + ended;
            fit->sums.rows = 3;
            fit->sums.weight = ended ? 3 : 2.5;
            fit->result.steps = position;
            before = *fit;
            ls_training_progress_fold(&progress);
            fit->epochs = fit->ended = -1;
            ls_training_progress_unfold(&progress);
            ck_assert_int_eq(fit->epochs, before.epochs);
            ck_assert_int_eq(fit->ended, before.ended);
            ck_assert(fit->sums.weight == before.sums.weight);
            ck_assert_int_eq(fit->result.steps, position);
        }
    }
}

/* A file from before the fields had one table: all its texts are read, and are written again as they are. */
TEST(a_recorded_checkpoint_reads) {
    uint8_t *bytes = ls_alloc(1 << 16);
    FILE *recorded = fopen(CHECKPOINT_GOLDEN, "rb");
    ck_assert_msg(bytes && recorded, "%s", CHECKPOINT_GOLDEN);
    size_t size = fread(bytes, 1, 1 << 16, recorded);
    (void)fclose(recorded);
    struct ls_loaded loaded = {0};
    struct ls_manifest_texts texts;
    struct ls_training_progress progress = {0};
    const struct ls_manifest manifest = ls_training_progress_manifest(&progress);
    assert_ok(ls_checkpoint_file_load(bytes, size, &loaded));
    assert_ok(ls_manifest_read(&loaded.file, &manifest));
    ls_manifest_write(&manifest, &texts);
    ck_assert_uint_eq(texts.count, loaded.file.text_count);
    for (size_t i = 0; i < texts.count; i++) {
        ck_assert_str_eq(texts.texts[i].name, loaded.file.texts[i].name);
        ck_assert_str_eq(texts.texts[i].value, loaded.file.texts[i].value);
    }
    ls_training_progress_unfold(&progress);
    ck_assert_int_eq(progress.step, 20);
    ck_assert_int_eq(progress.fit.epochs, 3);
    ck_assert_int_eq(progress.fit.sums.rows, 14);
    ck_assert(progress.fit.sums.weight == 14 && progress.fit.result.val_metrics[0] == 0.875);
    ck_assert_float_eq(progress.learning_rate, 0.01F / 8);
    ck_assert_ptr_nonnull(strstr(progress.facts.description, "data batch_size=7\n"));
    ls_checkpoint_file_free_loaded(&loaded);
}

TESTS("training_progress")
