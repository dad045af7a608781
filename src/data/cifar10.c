/* CIFAR-10: five training files and one test file, kept as bytes; planes become (32, 32, 3) when read. Mirrors
 * tf.keras.datasets.cifar10 with x / 255. Reading changes nothing, so any number of threads may. */
#include "data/sources.h"

#include <stdio.h>

#include "base/need.h"
#include "base/new.h"
#include "data/files.h"
#include "data/pixels.h"
#include "data/reader.h"
#include "data/dataset.h"
#include "data/role.h"

#define CLASSES   10
#define MAX_FILES 5

struct cifar10 {
    struct ls_source source;
    uint8_t *files[MAX_FILES];  /* own */
    int64_t records[MAX_FILES]; /* in each file; the rest 0 */
};

static const uint8_t *record_at(const struct cifar10 *cifar10, int64_t index) {
    int file = 0;
    while (index >= cifar10->records[file]) index -= cifar10->records[file++];
    return cifar10->files[file] + (size_t)index * LS_CIFAR10_RECORD;
}

static ls_status bytes_of_cifar10(const struct ls_source *source, int64_t index, uint8_t *features,
                                  const struct ls_targets *targets) {
    const uint8_t *record = record_at((const struct cifar10 *)source, index);
    *targets->labels = record[0];
    for (int channel = 0; channel < 3; channel++) {
        const uint8_t *plane = record + 1 + channel * LS_CIFAR10_PIXELS;
        for (int i = 0; i < LS_CIFAR10_PIXELS; i++) features[3 * i + channel] = plane[i];
    }
    return LS_OK;
}

static void free_cifar10(struct ls_source *source) {
    struct cifar10 *cifar10 = (struct cifar10 *)source;
    for (int i = 0; i < MAX_FILES; i++) ls_free(cifar10->files[i]);
    ls_free(cifar10);
}

static ls_status read_cifar10_example(const struct ls_source *source, int64_t index, float *features,
                                      const struct ls_targets *targets) {
    uint8_t pixels[3 * LS_CIFAR10_PIXELS];
    ls_status status = bytes_of_cifar10(source, index, pixels, targets);
    ls_pixels_to_unit(pixels, sizeof(pixels), features);
    return status;
}

static const struct ls_source_ops cifar10_ops = {
    .read = read_cifar10_example, .free = free_cifar10, .bytes = bytes_of_cifar10};

ls_status ls_cifar10_parse(const char *name, const uint8_t *bytes, size_t size, int64_t *records) {
    if (size == 0) return ls_fail(LS_DATA_LOSS, "'%s' is empty", name);
    if (size % LS_CIFAR10_RECORD)
        return ls_fail(LS_DATA_LOSS, "'%s' is truncated: the record at offset %zu has %zu bytes, not %d", name,
                       size - size % LS_CIFAR10_RECORD, size % LS_CIFAR10_RECORD, LS_CIFAR10_RECORD);
    for (size_t at = 0; at < size; at += LS_CIFAR10_RECORD)
        if (bytes[at] >= CLASSES)
            return ls_fail(LS_DATA_LOSS, "'%s' has label %d at offset %zu; CIFAR-10's labels are 0 to 9", name,
                           bytes[at], at);
    *records = (int64_t)(size / LS_CIFAR10_RECORD);
    return LS_OK;
}

/* The path of a split's i-th file; NULL when there is no memory. */
static char *file_path(const char *folder, ls_split split, int i) {
    char name[32];
    if (split == LS_TEST)
        (void)snprintf(name, sizeof(name), "test_batch.bin");
    else
        (void)snprintf(name, sizeof(name), "data_batch_%d.bin", i + 1);
    return ls_reader_path_join(folder, name);
}

ls_status ls_cifar10_present(const char *folder, ls_split split, bool *present) {
    LS_CLEANUP(ls_free_pointer) char *path = file_path(folder, split, 0);
    if (!path) return ls_fail_memory("a file name", 0);
    return ls_file_is(path, LS_NAMES_FILES, present);
}

static ls_status open_cifar10(struct ls_source **source, const char *folder, const ls_dataset_options *options) {
    struct cifar10 *cifar10 = (struct cifar10 *)*source;
    ls_split split = (*source)->split = ls_role_of_two(options->split);
    for (int i = 0; i < (split == LS_TEST ? 1 : MAX_FILES); i++) {
        LS_CLEANUP(ls_free_pointer) char *path = file_path(folder, split, i);
        if (!path) return ls_fail_memory("a file name", 0);
        size_t size = 0;
        ls_status status = ls_reader_all(path, &cifar10->files[i], &size);
        if (!status) status = ls_cifar10_parse(path, cifar10->files[i], size, &cifar10->records[i]);
        if (status) return status;
        cifar10->source.count += cifar10->records[i];
    }
    return LS_OK;
}

ls_status ls_dataset_cifar10(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {.source = {.ops = &cifar10_ops,
                                                            .kind = "cifar10",
                                                            .shape = {3, {32, 32, 3}},
                                                            .classes = CLASSES,
                                                            .bytes = true,
                                                            .in_memory = true},
                                                 .size = sizeof(struct cifar10),
                                                 .folder = true,
                                                 .open = open_cifar10};
    return ls_source_open(&start, folder, options, dataset);
}
