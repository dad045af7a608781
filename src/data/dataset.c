/* Datasets: options checked and filled in, a source owned, and what is said about both. A dataset is not changed after
 * it is made, so any number of threads may read it. */
#include "data/dataset.h"

#include <unistd.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "data/sources.h"

#define DEFAULT_BATCH_SIZE 32
#define MAX_COUNT          (INT64_C(1) << 31) /* the shuffled order is kept in memory */
#define MAX_TOTAL          (INT64_C(1) << 48) /* examples in an epoch, and in a batch: arithmetic on them cannot overflow */

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
    if (!status) status = check_choice("damage", (int)copy.damage, LS_DAMAGE_SKIPPED);
    if (!status) status = check_choice("image_height", copy.image_height, LS_IMAGE_MAX_SIDE);
    if (!status) status = check_choice("image_width", copy.image_width, LS_IMAGE_MAX_SIDE);
    if (!status && copy.image_channels != 0 && copy.image_channels != 1 && copy.image_channels != 3)
        status = ls_fail(LS_INVALID_ARGUMENT, "image_channels is %d: it must be 1 or 3", copy.image_channels);
    if (status) return status;
    copy.size = sizeof(copy);
    if (!copy.batch_size) copy.batch_size = DEFAULT_BATCH_SIZE;
    if (!copy.repeat) copy.repeat = 1;
    *filled = copy;
    return LS_OK;
}

/* As many threads as processors. */
int ls_data_workers(const ls_dataset_options *options) {
    (void)options;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > LS_DATA_MAX_WORKERS ? LS_DATA_MAX_WORKERS : (int)processors;
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

/* Leaves the damaged examples out, if that is asked for. */
static ls_status screen(struct ls_source **source, const ls_dataset_options *options) {
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status || filled.damage == LS_DAMAGE_FAILS) return status;
    return ls_source_screen(source, ls_data_workers(&filled));
}

ls_status ls_dataset_from_source(struct ls_source *source, const ls_dataset_options *options, ls_dataset **dataset) {
    ls_status status = screen(&source, options);
    if (!status) status = make(source, options, dataset);
    if (status) source->ops->free(source);
    return status;
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

const char *ls_source_class_name(const struct ls_source *source, int label) {
    bool named = source->ops->class_name && label >= 0 && label < source->classes;
    return named ? source->ops->class_name(source, label) : NULL;
}

const char *ls_dataset_class_name(const ls_dataset *dataset, int label) {
    return ls_source_class_name(dataset->source, label);
}

int64_t ls_dataset_num_damaged(const ls_dataset *dataset) {
    return dataset->source->damaged;
}

void ls_dataset_free(ls_dataset *dataset) {
    if (!dataset) return;
    dataset->source->ops->free(dataset->source);
    ls_free(dataset);
}
