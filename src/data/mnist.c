/* MNIST and its kin (Fashion-MNIST, EMNIST, KMNIST): two IDX files a split, images (count, rows, columns) and labels
 * (count), kept as bytes and converted when read. Classes: ten, or more where a label asks for it. Mirrors
 * tf.keras.datasets.mnist with x / 255. Reading changes nothing, so any number of threads may. */
#include "data/sources.h"

#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "data/files.h"
#include "data/pixels.h"
#include "data/reader.h"
#include "data/dataset.h"
#include "data/role.h"

#define LEAST_CLASSES 10

struct mnist {
    struct ls_source source;
    uint8_t *image_file, *label_file; /* own */
    struct ls_idx images, labels;     /* borrow from them */
    size_t pixels;                    /* of one image */
};

static ls_status read_mnist_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    const struct mnist *mnist = (const struct mnist *)source;
    ls_pixels_to_unit(mnist->images.values + (size_t)index * mnist->pixels, mnist->pixels, features);
    *targets->labels = mnist->labels.values[index];
    return LS_OK;
}

static ls_status bytes_of_mnist(const struct ls_source *source, int64_t index, uint8_t *features,
                                const struct ls_targets *targets) {
    const struct mnist *mnist = (const struct mnist *)source;
    memcpy(features, mnist->images.values + (size_t)index * mnist->pixels, mnist->pixels);
    *targets->labels = mnist->labels.values[index];
    return LS_OK;
}

static void free_mnist(struct ls_source *source) {
    struct mnist *mnist = (struct mnist *)source;
    ls_free(mnist->image_file);
    ls_free(mnist->label_file);
    ls_free(mnist);
}

static const struct ls_source_ops mnist_ops = {.read = read_mnist_example, .free = free_mnist, .bytes = bytes_of_mnist};

/* A file of a split, and the rank of its array. */
static const struct part {
    const char *name;
    int rank;
} images_part = {"images", 3}, labels_part = {"labels", 1};

/* The file's name as on the original site, as some archives have it, and both gzipped. */
static const char *const file_formats[] = {"%s-%s-idx%d-ubyte", "%s-%s.idx%d-ubyte", "%s-%s-idx%d-ubyte.gz",
                                           "%s-%s.idx%d-ubyte.gz"};
#define FILE_FORMATS (sizeof(file_formats) / sizeof(file_formats[0]))

static const char *const *split_names(ls_split split) {
    static const char *const train[] = {"train", NULL}, *const test[] = {"t10k", "test", NULL};
    return split == LS_TEST ? test : train;
}

/* name, or a word and "-" before it: EMNIST's "emnist-letters-train-images-idx3-ubyte". */
static bool is_named(const char *entry, const char *name) {
    size_t length = strlen(entry), wanted = strlen(name);
    if (length == wanted) return !strcmp(entry, name);
    return length > wanted + 1 && entry[length - wanted - 1] == '-' && !strcmp(entry + length - wanted, name);
}

/* *found is the entry of that name, or with that ending; there may be but one. */
static ls_status find_entry(const char *folder, const struct ls_names *entries, const char *name, const char **found) {
    for (int64_t i = 0; i < entries->count; i++) {
        if (!is_named(entries->names[i], name)) continue;
        if (!strcmp(entries->names[i], name)) {
            *found = entries->names[i];
            return LS_OK;
        }
        if (*found && strcmp(*found, name) != 0)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "folder '%s' has both '%s' and '%s': keep each set in a folder of its own", folder, *found,
                           entries->names[i]);
        *found = entries->names[i];
    }
    return LS_OK;
}

/* The path of the first file that is there, NULL with LS_OK when none is. */
static ls_status find_file(const char *folder, ls_split split, struct part part, char **path) {
    LS_CLEANUP(ls_files_names_free) struct ls_names entries = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &entries);
    *path = NULL;
    for (const char *const *word = split_names(split); !status && !*path && *word; word++)
        for (size_t i = 0; !status && !*path && i < FILE_FORMATS; i++) {
            char name[64];
            const char *found = NULL;
            (void)snprintf(name, sizeof(name), file_formats[i], *word, part.name, part.rank);
            status = find_entry(folder, &entries, name, &found);
            if (status || !found) continue;
            *path = ls_reader_path_join(folder, found);
            if (!*path) status = ls_fail_memory("a file name", sizeof(name));
        }
    return status;
}

ls_status ls_mnist_present(const char *folder, ls_split split, bool *present) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    ls_status status = find_file(folder, split, images_part, &path);
    if (!status) *present = path != NULL;
    return status;
}

static ls_status read_part(const char *folder, ls_split split, struct part part, uint8_t **bytes, struct ls_idx *idx) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    ls_status status = find_file(folder, split, part, &path);
    if (status) return status;
    if (!path)
        return ls_fail(LS_NOT_FOUND, "no file %s-%s-idx%d-ubyte in folder '%s' (nor with .idx%d-ubyte, nor with .gz)",
                       *split_names(split), part.name, part.rank, folder, part.rank);
    status = ls_idx_read(path, bytes, idx);
    if (!status && idx->rank != part.rank)
        return ls_fail(LS_DATA_LOSS, "'%s' has rank %d at offset 3; %s have rank %d", path, idx->rank, part.name,
                       part.rank);
    return status;
}

static int count_labels(const struct ls_idx *labels) {
    int classes = LEAST_CLASSES;
    for (int64_t i = 0; i < labels->count; i++)
        if (labels->values[i] >= classes) classes = labels->values[i] + 1;
    return classes;
}

static ls_status open_mnist(struct ls_source **source, const char *folder, const ls_dataset_options *options) {
    struct mnist *mnist = (struct mnist *)*source;
    ls_split split = (*source)->split = ls_role_of_two(options->split);
    ls_status status = read_part(folder, split, images_part, &mnist->image_file, &mnist->images);
    if (!status) status = read_part(folder, split, labels_part, &mnist->label_file, &mnist->labels);
    if (status) return status;
    int64_t images = mnist->images.dims[0], labels = mnist->labels.dims[0];
    if (images != labels)
        return ls_fail(LS_DATA_LOSS, "folder '%s' has %lld %s images but %lld labels", folder, (long long)images,
                       *split_names(split), (long long)labels);
    mnist->source.shape = LS_SHAPE(mnist->images.dims[1], mnist->images.dims[2], 1);
    mnist->pixels = (size_t)(mnist->source.shape.dims[0] * mnist->source.shape.dims[1]);
    mnist->source.classes = count_labels(&mnist->labels);
    mnist->source.count = images;
    return LS_OK;
}

ls_status ls_dataset_mnist(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {
        .source = {.ops = &mnist_ops, .kind = "mnist", .bytes = true, .in_memory = true},
        .size = sizeof(struct mnist),
        .folder = true,
        .open = open_mnist};
    return ls_source_open(&start, folder, options, dataset);
}
