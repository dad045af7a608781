/* The k-th allocation fails, for every k: a named error, nothing leaked, nothing half made. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/fixture.h"
#include "data/pipeline.h"
#include "data/text/gpt2.h"
#include "harness.h"
#include "vocabulary.h"

static atomic_long countdown; /* allocations that still work; 0: none limited */

static bool denied(void) {
    return countdown > 0 && --countdown == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return denied() ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return denied() ? NULL : __real_aligned_alloc(alignment, size);
}

/* Makes the dataset, describes it and reads a step. */
static ls_status use(ls_dataset *dataset) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    struct ls_pipeline *pipeline = NULL;
    const struct ls_pipeline_config config = {dataset, 2, 0, 2, 0, 1};
    float features[3072];
    int32_t labels[16];
    ls_status status = ls_dataset_describe(dataset, &lines);
    if (!status) status = ls_pipeline_new(&config, &pipeline);
    if (!status) status = ls_pipeline_read(pipeline, 0, features, LS_LABELS(labels));
    ls_pipeline_free(pipeline);
    return status;
}

static ls_status open_numbers(ls_dataset **dataset) {
    static const float features[4] = {1, 2, 3, 4};
    static const int32_t labels[4] = {0, 1, 0, 1};
    return ls_dataset_arrays(features, LS_SHAPE(1), labels, 4, 2, LS_DATASET(.batch_size = 2, .repeat = 4), dataset);
}

static ls_status open_digits(ls_dataset **dataset) {
    return ls_dataset_digits(LS_DATASET(.limit = 20, .batch_size = 2), dataset);
}

static ls_status open_folder(ls_dataset **dataset) {
    return ls_dataset_open(folder_path(), LS_DATASET(.batch_size = 2), dataset);
}

static ls_status open_images(ls_dataset **dataset) {
    return ls_dataset_open(folder_path(),
                           LS_DATASET(.batch_size = 2, .damage = LS_DAMAGE_SKIPPED, .workers = -1, .cache = true,
                                      .maps = LS_MAPS(ls_random_flip(), ls_random_crop(12, 12))),
                           dataset);
}

static ls_status open_table(ls_dataset **dataset) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/table.csv", folder_path());
    return ls_dataset_csv(path, LS_DATASET(.batch_size = 2, .target = "kind", .validation_split = 0.5), dataset);
}

static ls_status open_trained_table(ls_dataset **dataset) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/table.csv", folder_path());
    return ls_dataset_csv(path,
                          LS_DATASET(.batch_size = 2, .transform = "{\"columns\": [{\"name\": \"size\", \"mean\": 1, "
                                                                   "\"deviation\": 2}], \"target\": {\"name\": "
                                                                   "\"kind\", \"categories\": [\"a\", \"b\"]}}"),
                          dataset);
}

static ls_status open_text(ls_dataset **dataset) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/text", folder_path());
    return ls_dataset_open(
        path, LS_DATASET(.batch_size = 2, .tokens = LS_TOKENS_CHARS, .context = 4, .validation_split = 0.5), dataset);
}

static ls_status (*const openers[])(ls_dataset **) = {open_numbers,       open_digits, open_folder, open_folder,
                                                      open_folder,        open_images, open_images, open_table,
                                                      open_trained_table, open_text};

static void write_table(void) {
    static const char text[] = "size,colour,kind\n1,red,a\n2,blue,b\n3,red,a\n4,red,b\n";
    folder_write("table.csv", text, sizeof(text) - 1, false);
}

/* Shapes as arrays, images, records. */
static void write_shapes(ls_file_format format) {
    ls_dataset *shapes;
    assert_ok(ls_dataset_shapes(LS_DATASET(.limit = 5, .image_height = 16, .image_width = 16), &shapes));
    assert_ok(ls_dataset_write(shapes, format, folder_path(), NULL));
    ls_dataset_free(shapes);
}

TEST_EACH(every_failing_allocation_is_survived, 10) {
    folder_clear();
    if (_i == 2) idx_write_split("train", 3000, 5, 5, true);
    for (int i = 1; i <= 5 && _i == 3; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        cifar10_write(name, 30, 0, false);
    }
    if (_i == 4) write_shapes(LS_FORMAT_NPZ);
    if (_i == 5) write_shapes(LS_FORMAT_JPEG);
    if (_i == 6) write_shapes(LS_FORMAT_TFRECORD);
    if (_i == 7 || _i == 8) write_table();
    if (_i == 9) folder_write("text", "to be, or not to be", 19, false);
    long failures = 0;
    for (long k = 1;; k++) {
        ls_dataset *dataset = NULL;
        countdown = k;
        ls_status status = openers[_i](&dataset);
        if (!status) status = use(dataset);
        bool reached = countdown == 0;
        countdown = 0;
        ls_dataset_free(dataset);
        if (!reached) {
            assert_ok(status);
            break;
        }
        ck_assert_msg(status == LS_RESOURCE_EXHAUSTED, "allocation %ld: %s: %s", k, ls_status_name(status), ls_error());
        failures++;
    }
    ck_assert_int_ge(failures, 5);
}

/* The files of a vocabulary in memory: merges, then ids. */
static void put_files(struct ls_gpt2_file files[2], char *texts[2]) {
    struct vocabulary made;
    vocabulary_begin(&made);
    ck_assert(vocabulary_add(&made, 'a', 'b') && vocabulary_add(&made, 256, 'c'));
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&texts[i], &files[i].size);
        (i ? vocabulary_put_ids : vocabulary_put_merges)(out, &made);
        (void)fclose(out);
        files[i].text = texts[i];
        files[i].path = i ? "encoder.json" : "vocab.bpe";
    }
}

static ls_status turn_text(const ls_tokenizer *tokenizer) {
    static const char text[] = "abc ab \xFF";
    int32_t *ids = NULL;
    char *back = NULL;
    size_t count, size;
    ls_status status = ls_tokenizer_encode(tokenizer, text, sizeof(text), &ids, &count);
    if (!status) status = ls_tokenizer_decode(tokenizer, ids, count, &back, &size);
    ls_memory_free(ids);
    ls_memory_free(back);
    return status;
}

TEST_EACH(every_failing_allocation_of_a_tokenizer_is_survived, 3) {
    struct ls_gpt2_file files[2];
    char *texts[2] = {NULL, NULL};
    long failures = 0;
    ls_status status = LS_RESOURCE_EXHAUSTED;
    put_files(files, texts);
    for (long k = 1; status; k++) {
        ls_tokenizer *tokenizer = NULL;
        countdown = k;
        if (_i == 0) status = ls_tokenizer_new_bytes(&tokenizer);
        if (_i == 1) status = ls_tokenizer_new_chars("abc \0", 5, &tokenizer);
        if (_i == 2) status = ls_gpt2_make(&files[0], &files[1], true, &tokenizer);
        if (!status && _i != 1) status = turn_text(tokenizer);
        countdown = 0;
        ls_tokenizer_free(tokenizer);
        ck_assert_msg(!status || status == LS_RESOURCE_EXHAUSTED, "allocation %ld: %s", k, ls_error());
        failures += status != LS_OK;
    }
    ck_assert_int_ge(failures, 3);
    free(texts[0]);
    free(texts[1]);
}

TESTS("allocation", .begin = folder_make, .end = folder_remove)
