/* Datasets: options checked and filled in, a source owned, and what is said about both. A dataset is not changed after
 * it is made, so any number of threads may read it. */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "data/reader.h"
#include "data/sources.h"

#define DEFAULT_BATCH_SIZE 32
#define MAX_COUNT          (INT64_C(1) << 31) /* the shuffled order is kept in memory */
#define MAX_TOTAL          (INT64_C(1) << 48) /* examples in an epoch, and in a batch: arithmetic on them cannot overflow */
#define SAMPLES            16                 /* examples that ls_dataset_describe looks into */

static ls_status check_number(const char *field, int64_t value) {
    if (value >= 0 && value <= MAX_TOTAL) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s is %lld: it must be 1 to %lld, or 0 for the default", field,
                   (long long)value, (long long)MAX_TOTAL);
}

static ls_status check_choice(const char *field, int value, int last) {
    if (value >= 0 && value <= last) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s is %d: it must be 0 to %d", field, value, last);
}

ls_status ls_dataset_options_fill(const ls_dataset_options *options, ls_dataset_options *filled) {
    ls_dataset_options copy;
    ls_status status = ls_options_copy("ls_dataset_options", &copy, sizeof(copy), options);
    if (!status) status = check_number("batch_size", copy.batch_size);
    if (!status) status = check_number("repeat", copy.repeat);
    if (!status) status = check_number("limit", copy.limit);
    if (!status) status = check_choice("split", (int)copy.split, LS_TEST);
    if (!status) status = check_choice("shuffle", (int)copy.shuffle, LS_SHUFFLE_NEVER);
    if (!status) status = check_choice("division", (int)copy.division, LS_DIVIDE_TENSORFLOW);
    if (!status) status = check_choice("auto_shard", (int)copy.auto_shard, LS_SHARD_OFF);
    if (status) return status;
    copy.size = sizeof(copy);
    if (!copy.batch_size) copy.batch_size = DEFAULT_BATCH_SIZE;
    if (!copy.repeat) copy.repeat = 1;
    *filled = copy;
    return LS_OK;
}

/* What needs both the source and the options. */
static ls_status check_dataset(const ls_dataset *dataset) {
    const struct ls_source *source = dataset->source;
    int64_t total;
    if (source->count < 1) return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset holds no examples", source->kind);
    if (dataset->count > MAX_COUNT)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the %s dataset has %lld examples: up to %lld can be put in order; set limit", source->kind,
                       (long long)dataset->count, (long long)MAX_COUNT);
    if (__builtin_mul_overflow(dataset->count, dataset->options.repeat, &total) || total > MAX_TOTAL)
        return ls_fail(LS_INVALID_ARGUMENT, "repeat is %lld: with %lld examples an epoch has more than %lld",
                       (long long)dataset->options.repeat, (long long)dataset->count, (long long)MAX_TOTAL);
    return LS_OK;
}

static ls_status make(struct ls_source *source, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_CLEANUP(ls_free_pointer) ls_dataset *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a dataset", sizeof(*made));
    ls_status status = ls_dataset_options_fill(options, &made->options);
    if (status) return status;
    int64_t limit = made->options.limit;
    made->source = source;
    made->count = limit && limit < source->count ? limit : source->count;
    status = check_dataset(made);
    if (!status) *dataset = ls_steal(made);
    return status;
}

ls_status ls_dataset_from_source(struct ls_source *source, const ls_dataset_options *options, ls_dataset **dataset) {
    ls_status status = make(source, options, dataset);
    if (status) source->ops->free(source);
    return status;
}

/* Adds example index to a digest. */
static ls_status digest_example(const ls_dataset *dataset, int64_t index, float *features, struct ls_digest *digest) {
    int32_t label;
    ls_status status = dataset->source->ops->read(dataset->source, index, features, &label);
    if (status) return status;
    ls_digest_add(digest, features, (size_t)ls_shape_count(&dataset->source->shape) * sizeof(*features));
    ls_digest_add(digest, &label, sizeof(label));
    return LS_OK;
}

static void free_digest(struct ls_digest **digest) {
    ls_digest_free(*digest);
}

/* A digest of a few examples spread over the dataset: finds workers that read different files. */
static ls_status digest_samples(const ls_dataset *dataset, char hex[65]) {
    size_t bytes = (size_t)ls_shape_count(&dataset->source->shape) * sizeof(float);
    LS_CLEANUP(ls_free_pointer) float *features = ls_alloc(bytes);
    LS_CLEANUP(free_digest) struct ls_digest *digest = NULL;
    if (!features) return ls_fail_memory("an example", bytes);
    ls_status status = ls_digest_new(&digest);
    for (int64_t i = 0; i < SAMPLES && !status; i++)
        status = digest_example(dataset, (dataset->count - 1) * i / (SAMPLES - 1), features, digest);
    return status ? status : ls_digest_hex(digest, hex);
}

ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines) {
    const ls_dataset_options *options = &dataset->options;
    /* Without sharding each worker may bring its own examples, but as many as the others. */
    char digest[65] = "any", shape[128], text[1024];
    bool own_data = options->division == LS_DIVIDE_TENSORFLOW && options->auto_shard == LS_SHARD_OFF;
    ls_status status = own_data ? LS_OK : digest_samples(dataset, digest);
    if (status) return status;
    ls_shape_text(&dataset->source->shape, shape, sizeof(shape));
    (void)snprintf(text, sizeof(text),
                   "dataset=%s\nexamples=%lld\nshape=%s\nclasses=%d\nsample_sha256=%s\nbatch_size=%lld\nsplit=%d\n"
                   "shuffle=%d\nseed=%llu\nrepeat=%lld\ndrop_remainder=%d\ndivision=%d\nauto_shard=%d\n",
                   dataset->source->kind, (long long)dataset->count, shape, dataset->source->classes, digest,
                   (long long)options->batch_size, (int)options->split, (int)options->shuffle,
                   (unsigned long long)options->seed, (long long)options->repeat, options->drop_remainder,
                   (int)options->division, (int)options->auto_shard);
    char *copy = ls_strdup(text);
    if (!copy) return ls_fail_memory("the description of a dataset", strlen(text));
    *lines = copy;
    return LS_OK;
}

static ls_status open_folder(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    bool mnist = false, cifar10 = false, test = options->split == LS_TEST;
    ls_status status = ls_mnist_present(folder, options->split, &mnist);
    if (!status) status = ls_cifar10_present(folder, options->split, &cifar10);
    if (status) return status;
    if (mnist) return ls_dataset_mnist(folder, options, dataset);
    if (cifar10) return ls_dataset_cifar10(folder, options, dataset);
    return ls_fail(LS_NOT_FOUND, "folder '%s' holds neither %s-images-idx3-ubyte (or .gz) nor %s", folder,
                   test ? "t10k" : "train", test ? "test_batch.bin" : "data_batch_1.bin");
}

ls_status ls_dataset_open(const char *name, const ls_dataset_options *options, ls_dataset **dataset) {
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (name && !strcmp(name, "digits")) return ls_dataset_digits(&filled, dataset);
    status = ls_folder_check(name);
    if (status == LS_NOT_FOUND) return ls_fail_context(status, "no dataset '%s' is built in (only digits is)", name);
    return status ? status : open_folder(name, &filled, dataset);
}

int64_t ls_dataset_count(const ls_dataset *dataset) {
    return dataset->count;
}

ls_shape ls_dataset_shape(const ls_dataset *dataset) {
    return dataset->source->shape;
}

int ls_dataset_num_classes(const ls_dataset *dataset) {
    return dataset->source->classes;
}

void ls_dataset_free(ls_dataset *dataset) {
    if (!dataset) return;
    dataset->source->ops->free(dataset->source);
    ls_free(dataset);
}
