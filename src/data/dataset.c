/* Datasets: options checked and filled in, a source owned, and what is said about both. A dataset is not changed after
 * it is made, so any number of threads may read it. */
#include "data/dataset.h"

#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "base/need.h"
#include "base/options.h"
#include "base/thread.h"
#include "data/sources.h"
#include "data/stage.h"
#include "data/order.h"

#define DEFAULT_BATCH_SIZE 32
#define DEFAULT_PREFETCH   2
#define MAX_PREFETCH       1024
#define MAX_INTERLEAVE     65536
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

static ls_status check_sharding(const ls_dataset_options *options) {
    ls_status status = check_choice("division", (int)options->division, LS_DIVIDE_TENSORFLOW);
    if (!status) status = check_choice("auto_shard", (int)options->auto_shard, LS_SHARD_HINT);
    if (!status) status = check_choice("shard_hint", (int)options->shard_hint, LS_HINT_BATCHES);
    if (status || (options->auto_shard == LS_SHARD_HINT) == (options->shard_hint != LS_HINT_NONE)) return status;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "auto_shard is %d and shard_hint %d: auto_shard HINT (%d) needs a shard_hint, and "
                   "no other auto_shard has one",
                   (int)options->auto_shard, (int)options->shard_hint, LS_SHARD_HINT);
}

static ls_status check_part(const ls_dataset_options *options) {
    double split = options->validation_split;
    if (!(split >= 0 && split < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "validation_split is %g: it must be above 0 and below 1, or 0 for none",
                       split);
    ls_status status = check_choice("part", (int)options->part, LS_PART_VALIDATION);
    if (status || split > 0 || options->part == LS_PART_TRAINING) return status;
    return ls_fail(LS_INVALID_ARGUMENT, "part is %d, the validation part, and needs a validation_split",
                   (int)options->part);
}

ls_status ls_dataset_options_fill(const ls_dataset_options *options, ls_dataset_options *filled) {
    ls_dataset_options copy;
    ls_status status = ls_options_copy("ls_dataset_options", &copy, sizeof(copy), options);
    if (!status) status = check_number("batch_size", copy.batch_size);
    if (!status) status = check_number("repeat", copy.repeat);
    if (!status) status = check_number("limit", copy.limit);
    if (!status) status = check_choice("split", (int)copy.split, LS_VALIDATION);
    if (!status) status = check_choice("shuffle", (int)copy.shuffle, LS_SHUFFLE_NEVER);
    if (!status) status = check_sharding(&copy);
    if (!status) status = check_number("skip", copy.skip);
    if (!status) status = check_part(&copy);
    if (!status) status = check_choice("target_type", (int)copy.target_type, LS_TARGET_NUMBERS);
    if (!status) status = check_choice("tokens", (int)copy.tokens, LS_TOKENS_LLMC);
    if (!status) status = check_number("shuffle_buffer", copy.shuffle_buffer);
    if (!status) status = check_number("block_length", copy.block_length);
    if (!status && (copy.interleave < 0 || copy.interleave > MAX_INTERLEAVE))
        status = ls_fail(LS_INVALID_ARGUMENT, "interleave is %lld: it must be 1 to %d, or 0 for none",
                         (long long)copy.interleave, MAX_INTERLEAVE);
    if (!status) status = check_choice("prefetch", copy.prefetch, MAX_PREFETCH);
    if (!status && (copy.workers < -1 || copy.workers > LS_DATA_MAX_WORKERS))
        status = ls_fail(LS_INVALID_ARGUMENT, "workers is %d: it must be 1 to %d, 0 for the default or -1 for none",
                         copy.workers, LS_DATA_MAX_WORKERS);
    if (!status) status = check_choice("damage", (int)copy.damage, LS_DAMAGE_SKIPPED);
    if (!status) status = check_choice("image_height", copy.image_height, LS_IMAGE_MAX_SIDE);
    if (!status) status = check_choice("image_width", copy.image_width, LS_IMAGE_MAX_SIDE);
    if (!status && copy.image_channels != 0 && copy.image_channels != 1 && copy.image_channels != 3)
        status = ls_fail(LS_INVALID_ARGUMENT, "image_channels is %d: it must be 1 or 3", copy.image_channels);
    if (status) return status;
    copy.size = sizeof(copy);
    if (!copy.batch_size) copy.batch_size = DEFAULT_BATCH_SIZE;
    if (!copy.repeat) copy.repeat = 1;
    if (!copy.block_length) copy.block_length = 1;
    if (!copy.prefetch) copy.prefetch = DEFAULT_PREFETCH;
    *filled = copy;
    return LS_OK;
}

int ls_dataset_processors(void) {
    int count = ls_thread_processors();
    return count < 1 ? 1 : count > LS_DATA_MAX_WORKERS ? LS_DATA_MAX_WORKERS : count;
}

int ls_dataset_threads(const ls_dataset *dataset) {
    int workers = dataset->options.workers;
    if (workers) return workers < 0 ? 0 : workers;
    return dataset->source->slow || dataset->maps.count ? ls_dataset_processors() : 0;
}

/* Checks that need both the source and the options. */
static ls_status check_sizes(const ls_dataset *dataset) {
    const struct ls_source *source = dataset->source;
    int64_t total;
    if (source->count < 1) return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset holds no examples", source->kind);
    if (dataset->count < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "skip is %lld: the %s dataset has %lld examples",
                       (long long)dataset->options.skip, source->kind, (long long)source->count);
    if (dataset->count > MAX_COUNT)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the %s dataset has %lld examples: up to %lld can be put in order; set limit", source->kind,
                       (long long)dataset->count, (long long)MAX_COUNT);
    if (__builtin_mul_overflow(dataset->count, dataset->options.repeat, &total) || total > MAX_TOTAL)
        return ls_fail(LS_INVALID_ARGUMENT, "repeat is %lld: with %lld examples an epoch has more than %lld",
                       (long long)dataset->options.repeat, (long long)dataset->count, (long long)MAX_TOTAL);
    return LS_OK;
}

static ls_status check_integers(const ls_dataset *dataset) {
    const ls_dataset_options *options = &dataset->options;
    if (options->ids && !dataset->source->integers)
        return ls_fail(LS_INVALID_ARGUMENT, "ids is set, and the %s dataset's examples are floats",
                       dataset->source->kind);
    if (dataset->source->integers && options->maps && options->maps->kind)
        return ls_fail(LS_INVALID_ARGUMENT, "maps are of floats, and the %s dataset's examples are integers",
                       dataset->source->kind);
    return LS_OK;
}

static ls_status check_table(const ls_dataset *dataset) {
    const ls_dataset_options *options = &dataset->options;
    const struct {
        const char *name;
        bool given;
    } fields[] = {{"target", options->target && !options->transform}, /* both are of weights */
                  {"target_type", options->target_type != LS_TARGET_AUTO},
                  {"without", options->without != NULL},
                  {"separator", options->separator != 0}};
    for (size_t i = 0; !dataset->source->transform && i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].given)
            return ls_fail(LS_INVALID_ARGUMENT, "%s is set, and is of CSV files: the %s dataset has no columns",
                           fields[i].name, dataset->source->kind);
    return LS_OK;
}

static ls_status check_tokens(const struct ls_source *source, const ls_dataset_options *options) {
    const struct {
        const char *name;
        bool given;
    } fields[] = {{"tokens", options->tokens != LS_TOKENS_NONE},
                  {"context", options->context != 0},
                  {"stride", options->stride != 0},
                  {"vocabulary", options->vocabulary != 0}};
    for (size_t i = 0; !source->windows && i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].given)
            return ls_fail(LS_INVALID_ARGUMENT, "%s is set, and is of files of tokens: the %s dataset has none",
                           fields[i].name, source->kind);
    return LS_OK;
}

static bool mixes(const ls_dataset *dataset) {
    return dataset->maps.mix < dataset->maps.count;
}

/* Leaves the damaged examples out and keeps what is read, if that is asked for. Each wrapper numbers the examples anew
 * for those around it: damaged ones go first, then those of another part, then the order of files is made, and the
 * cache keeps what they have left. */
static ls_status wrap(struct ls_source **source, ls_dataset_options *options) {
    ls_status status = LS_OK;
    int threads = options->workers > 0 ? options->workers : options->workers < 0 ? 1 : ls_dataset_processors();
    if (options->damage == LS_DAMAGE_SKIPPED) status = ls_source_screen(source, threads);
    if (!status && options->validation_split > 0) status = ls_source_part(source, options);
    if (!status && options->interleave) status = ls_source_interleave(source, options);
    return status || !options->cache ? status : ls_source_cache(source);
}

/* The number of examples that skip and limit leave. */
static int64_t count_examples(const struct ls_source *source, const ls_dataset_options *options) {
    int64_t left = options->skip < source->count ? source->count - options->skip : 0;
    return options->limit && options->limit < left ? options->limit : left;
}

/* A dataset has one where bytes stay what they are up to stages that a table can stand for. */
static ls_status make_table(ls_dataset *dataset) {
    struct ls_pixel_table table;
    if (!dataset->source->bytes || !ls_maps_tabulate(&dataset->maps, &table)) return LS_OK;
    dataset->table = ls_alloc(sizeof(*dataset->table));
    if (!dataset->table) return ls_fail_memory("a dataset", sizeof(*dataset->table));
    *dataset->table = table;
    return LS_OK;
}

/* *source may become another one, whatever is returned. */
static ls_status make_dataset(struct ls_source **source, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_CLEANUP(ls_free_pointer) LS_NEW(ls_dataset, made, "a dataset");
    ls_status status = ls_dataset_options_fill(options, &made->options);
    if (!status) status = wrap(source, &made->options);
    if (status) return status;
    made->source = *source;
    made->count = count_examples(*source, &made->options);
    status = check_sizes(made);
    if (!status) status = check_integers(made);
    if (!status) status = check_table(made);
    if (!status) status = check_tokens(made->source, &made->options);
    if (!status) status = ls_maps_copy(made->options.maps, &made->source->shape, &made->maps);
    made->targets = made->source->targets;
    if (!status && mixes(made)) status = ls_mix_up_kind(&made->source->targets, made->source->classes, &made->targets);
    if (!status) status = make_table(made);
    if (status) ls_maps_free(&made->maps);
    if (status) return status;
    made->options.maps = made->maps.stages;
    made->options.target = made->options.without = made->options.transform = NULL;
    made->shape = made->maps.shapes[made->maps.count];
    *dataset = ls_steal(made);
    return LS_OK;
}

ls_status ls_dataset_from_source(ls_status status, struct ls_source *source, const ls_dataset_options *options,
                                 ls_dataset **dataset) {
    if (!status) status = make_dataset(&source, options, dataset);
    if (status) source->ops->free(source);
    return status;
}

void ls_dataset_read_buffers_free(struct ls_read_buffers *kept) {
    for (int i = 0; i < 4; i++) ls_free(kept->buffers[i]);
    for (int i = 0; i < 2; i++) ls_targets_free(&kept->targets[i]);
}

static ls_status make_buffers(const ls_dataset *dataset, struct ls_read_buffers *kept) {
    size_t bytes = (size_t)dataset->maps.most * sizeof(float);
    for (int i = 0; i < (mixes(dataset) ? 4 : 2); i++) {
        if (!kept->buffers[i]) kept->buffers[i] = ls_alloc_aligned(bytes);
        if (!kept->buffers[i]) return ls_fail_memory("an example", bytes);
    }
    ls_status status = LS_OK;
    for (int i = 0; !status && mixes(dataset) && i < 2; i++)
        if (!kept->targets[i].labels && !kept->targets[i].numbers)
            status = ls_targets_new(&dataset->source->targets, 1, &kept->targets[i]);
    return status;
}

static ls_status tell_damage(const ls_dataset *dataset, ls_status status) {
    bool skips = dataset->options.damage == LS_DAMAGE_SKIPPED || !ls_source_innermost_ops(dataset->source)->check;
    if (status != LS_DATA_LOSS || skips) return status;
    return ls_fail(status, "%s; LS_DAMAGE_SKIPPED (--skip-damaged) leaves such examples out", ls_error());
}

ls_status ls_dataset_read_source(const ls_dataset *dataset, int64_t index, float *features,
                                 const struct ls_targets *targets) {
    return tell_damage(dataset, ls_source_read(dataset->source, index, features, targets));
}

/* Reads an example and takes it through the stages before the one that mixes, or through all. */
static ls_status read_alone(const ls_dataset *dataset, const struct ls_map_example *example, float *const buffers[2]) {
    ls_status status = ls_dataset_read_source(dataset, example->index, buffers[0], example->targets);
    return status ? status : ls_maps_run(&dataset->maps, 0, dataset->maps.mix, example, buffers);
}

/* The same with a partner that has gone through the same stages, by its own draws. */
static ls_status read_mixed(const ls_dataset *dataset, const struct ls_map_example *example,
                            struct ls_read_buffers *kept) {
    const struct ls_maps *maps = &dataset->maps;
    uint32_t random[8];
    int at = maps->mix % 2;
    ls_maps_draw(maps->mix, example, random);
    struct ls_mix_up drawn = ls_mix_up_draw(&maps->stages[maps->mix], random, dataset->count);
    struct ls_map_example first = *example, other = *example;
    first.targets = &kept->targets[0];
    other.targets = &kept->targets[1];
    other.index = dataset->options.skip + drawn.partner;
    ls_status status = read_alone(dataset, &first, kept->buffers);
    if (!status) status = read_alone(dataset, &other, kept->buffers + 2);
    if (!status)
        status = ls_mix_up_targets(drawn.weight, &dataset->targets, first.targets, other.targets, example->targets);
    if (status) return status;
    ls_mix_up_numbers(drawn.weight, kept->buffers[at], kept->buffers[2 + at], ls_shape_count(&maps->shapes[maps->mix]),
                      kept->buffers[!at]);
    return ls_maps_run(maps, maps->mix + 1, maps->count, example, kept->buffers);
}

ls_status ls_dataset_read(const ls_dataset *dataset, const struct ls_row *row, struct ls_read_buffers *kept,
                          float *features, const struct ls_targets *targets) {
    int64_t index = dataset->options.skip + row->example;
    if (!dataset->maps.count) return ls_dataset_read_source(dataset, index, features, targets);
    ls_status status = make_buffers(dataset, kept);
    const struct ls_map_example example = {dataset->options.seed, index, row->pass, targets};
    if (!status && mixes(dataset))
        status = read_mixed(dataset, &example, kept);
    else if (!status)
        status = read_alone(dataset, &example, kept->buffers);
    const float *result = kept->buffers[dataset->maps.count % 2];
    if (!status) memcpy(features, result, (size_t)ls_shape_count(&dataset->shape) * sizeof(*features));
    return status;
}

ls_status ls_dataset_read_bytes(const ls_dataset *dataset, const struct ls_row *row, struct ls_read_buffers *kept,
                                uint8_t *features, const struct ls_targets *targets) {
    int64_t index = dataset->options.skip + row->example;
    const struct ls_map_example example = {dataset->options.seed, index, row->pass, targets};
    uint8_t *first = features;
    ls_status status = dataset->maps.moves ? make_buffers(dataset, kept) : LS_OK;
    if (!status && dataset->maps.moves) first = (uint8_t *)kept->buffers[0];
    if (!status) status = tell_damage(dataset, ls_source_bytes(dataset->source, index, first, targets));
    if (status || !dataset->maps.moves) return status;
    uint8_t *const buffers[] = {first, (uint8_t *)kept->buffers[1]};
    status = ls_maps_move(&dataset->maps, &example, buffers);
    if (!status) memcpy(features, buffers[dataset->maps.moves % 2], (size_t)ls_shape_count(&dataset->shape));
    return status;
}

int64_t ls_dataset_count(const ls_dataset *dataset) {
    LS_NEED_OR(0, dataset);
    return dataset->count;
}

ls_shape ls_dataset_shape(const ls_dataset *dataset) {
    LS_NEED_OR((ls_shape){0}, dataset);
    return dataset->shape;
}

int ls_dataset_num_classes(const ls_dataset *dataset) {
    LS_NEED_OR(0, dataset);
    return dataset->source->classes;
}

bool ls_dataset_targets(const ls_dataset *dataset, ls_shape *shape) {
    LS_NEED_OR(false, dataset, shape);
    if (dataset->targets.numbers) *shape = dataset->targets.shape;
    return dataset->targets.numbers;
}

const char *ls_dataset_class_name(const ls_dataset *dataset, int label) {
    LS_NEED_OR(NULL, dataset);
    return ls_source_class_name(dataset->source, label);
}

ls_status ls_dataset_label(const ls_dataset *dataset, int64_t example, int32_t *label) {
    LS_NEED(dataset, label);
    const struct ls_source *source = dataset->source;
    if (source->targets.numbers || source->unlabelled)
        return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset's examples have no classes", source->kind);
    if (source->targets.shape.rank)
        return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset's examples have a class for each position", source->kind);
    if (example < 0 || example >= dataset->count)
        return ls_fail(LS_INVALID_ARGUMENT, "example %lld is outside [0, %lld)", (long long)example,
                       (long long)dataset->count);
    float weight;
    return ls_source_targets(source, dataset->options.skip + example,
                             &(struct ls_targets){.labels = label, .weights = &weight});
}

const char *ls_dataset_example_path(const ls_dataset *dataset, int64_t example) {
    LS_NEED_OR(NULL, dataset);
    if (example < 0 || example >= dataset->count) return NULL;
    return ls_source_path(dataset->source, dataset->options.skip + example);
}

const char *ls_dataset_transform(const ls_dataset *dataset) {
    LS_NEED_OR(NULL, dataset);
    return dataset->source->transform;
}

int ls_dataset_whole_classes(const ls_dataset *dataset) {
    LS_NEED_OR(0, dataset);
    return mixes(dataset) ? 0 : dataset->source->whole.classes;
}

ls_split ls_dataset_split(const ls_dataset *dataset) {
    LS_NEED_OR(LS_TRAIN, dataset);
    return dataset->source->split;
}

int64_t ls_dataset_num_damaged(const ls_dataset *dataset) {
    LS_NEED_OR(0, dataset);
    return dataset->source->damaged;
}

void ls_dataset_hold(const ls_dataset *dataset) {
    (void)atomic_fetch_add(&((ls_dataset *)dataset)->held, 1);
}

void ls_dataset_free(ls_dataset *dataset) {
    if (!dataset || atomic_fetch_sub(&dataset->held, 1) > 0) return;
    dataset->source->ops->free(dataset->source);
    ls_maps_free(&dataset->maps);
    ls_free(dataset->table);
    ls_free(dataset);
}
