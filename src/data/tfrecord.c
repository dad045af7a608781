/* TFRecord files of tf.train.Example, as tensorflow_datasets writes them: images with labels, or numbers with labels.
 * Where records lie is found when the files are opened, so that examples can be read in any order, by any number of
 * threads. Mirrors tf.data.TFRecordDataset with x / 255 for images. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/example.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/record.h"
#include "data/sources.h"

#define MAX_CLASSES (1 << 24)

struct records {
    struct ls_source source;
    struct shard {
        struct ls_record_file *file; /* owns */
        int64_t first;               /* the number of its first example */
    } * shards;                      /* own */
    int64_t shard_count;
    struct ls_names classes; /* empty: they have no names */
    bool images;
    struct ls_image_wish wish;
};

/* The shard that holds an example. */
static const struct shard *find_shard(const struct records *records, int64_t index) {
    int64_t low = 0, high = records->shard_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (records->shards[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &records->shards[low];
}

/* A record's bytes, what it is called, and the example in it. */
struct entry {
    uint8_t *bytes; /* owns */
    size_t size;
    struct ls_example example; /* owns */
    char name[512];
};

static void close_entry(struct entry *entry) {
    ls_example_free(&entry->example);
    ls_free(entry->bytes);
}

static ls_status open_entry(const struct records *records, int64_t index, struct entry *entry) {
    const struct shard *shard = find_shard(records, index);
    ls_record_file_name(shard->file, index - shard->first, entry->name, sizeof(entry->name));
    ls_status status = ls_record_file_read(shard->file, index - shard->first, &entry->bytes, &entry->size);
    if (!status) status = ls_example_parse(entry->name, entry->bytes, entry->size, &entry->example);
    if (status) return status;
    if (entry->example.label < 0 || entry->example.label >= records->source.classes)
        return ls_fail(LS_DATA_LOSS, "%s has label %lld: it must be 0 to %d", entry->name,
                       (long long)entry->example.label, records->source.classes - 1);
    return LS_OK;
}

static ls_status copy_features(const struct records *records, const struct entry *entry, float *features) {
    int64_t wanted = ls_shape_count(&records->source.shape);
    if (!entry->example.features || entry->example.feature_count != wanted)
        return ls_fail(LS_DATA_LOSS, "%s has %lld features where the first record has %lld", entry->name,
                       (long long)entry->example.feature_count, (long long)wanted);
    memcpy(features, entry->example.features, (size_t)wanted * sizeof(*features));
    return LS_OK;
}

static ls_status check_image(const struct entry *entry) {
    return entry->example.image ? LS_OK
                                : ls_fail(LS_DATA_LOSS, "%s has no image, where the first record has one", entry->name);
}

static ls_status read_example(const struct ls_source *source, int64_t index, float *features, int32_t *label) {
    const struct records *records = (const struct records *)source;
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_entry(records, index, &entry);
    if (status) return status;
    *label = (int32_t)entry.example.label;
    if (!records->images) return copy_features(records, &entry, features);
    status = check_image(&entry);
    if (status) return status;
    return ls_image_read(entry.name, entry.example.image, entry.example.image_size, &records->wish,
                         &(struct ls_image_place){&source->shape, features});
}

static ls_status check_example(const struct ls_source *source, int64_t index) {
    const struct records *records = (const struct records *)source;
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_entry(records, index, &entry);
    if (!status && records->images) status = check_image(&entry);
    if (!status && records->images) status = ls_image_check(entry.name, entry.example.image, entry.example.image_size);
    return status;
}

static ls_status read_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                              int32_t *label) {
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_entry((const struct records *)source, index, &entry);
    if (!status) status = check_image(&entry);
    if (status) return status;
    uint8_t *copy = ls_alloc(entry.example.image_size);
    if (!copy) return ls_fail_memory("an image", entry.example.image_size);
    memcpy(copy, entry.example.image, entry.example.image_size);
    *bytes = copy;
    *size = entry.example.image_size;
    *label = (int32_t)entry.example.label;
    return LS_OK;
}

static const char *class_name(const struct ls_source *source, int label) {
    const struct records *records = (const struct records *)source;
    return label < records->classes.count ? records->classes.names[label] : NULL;
}

static int64_t file_of(const struct ls_source *source, int64_t index) {
    const struct records *records = (const struct records *)source;
    return find_shard(records, index) - records->shards;
}

static void free_records(struct ls_source *source) {
    struct records *records = (struct records *)source;
    for (int64_t i = 0; i < records->shard_count; i++) ls_record_file_free(records->shards[i].file);
    ls_free(records->shards);
    ls_names_free(&records->classes);
    ls_free(records);
}

static const struct ls_source_ops image_ops = {.read = read_example,
                                               .free = free_records,
                                               .encoded = read_encoded,
                                               .check = check_example,
                                               .class_name = class_name,
                                               .file = file_of};
static const struct ls_source_ops number_ops = {
    .read = read_example, .free = free_records, .check = check_example, .class_name = class_name, .file = file_of};

static ls_status open_shard(struct records *records, const char *path, bool tolerant) {
    char *broken;
    struct shard *shard = &records->shards[records->shard_count];
    ls_status status = ls_record_file_open(path, tolerant, &shard->file, &broken);
    if (status) return status;
    if (broken) records->source.damaged++;
    ls_free(broken);
    shard->first = records->source.count;
    records->source.count += ls_record_file_count(shard->file);
    records->shard_count++;
    return LS_OK;
}

static bool names_a_split(const char *name, ls_split split) {
    if (split == LS_TRAIN) return strstr(name, "train") != NULL;
    return strstr(name, "test") || strstr(name, "validation");
}

/* Which names are of the split; where none names a split, all are of the training split. */
static bool is_chosen(const struct ls_names *names, int64_t i, ls_split split) {
    bool any = false;
    if (!strstr(names->names[i], ".tfrecord")) return false;
    for (int64_t j = 0; j < names->count; j++)
        any = any || (strstr(names->names[j], ".tfrecord") &&
                      (names_a_split(names->names[j], LS_TRAIN) || names_a_split(names->names[j], LS_TEST)));
    return any ? names_a_split(names->names[i], split) : split == LS_TRAIN;
}

static ls_status open_shards(struct records *records, const char *folder, const ls_dataset_options *options) {
    LS_CLEANUP(ls_names_free) struct ls_names names = {0};
    ls_status status = ls_names_list(folder, LS_NAMES_FILES, &names);
    if (status) return status;
    records->shards = ls_alloc_array((size_t)names.count + 1, sizeof(*records->shards));
    if (!records->shards) return ls_fail_memory("a list of files", (size_t)names.count * sizeof(struct shard));
    for (int64_t i = 0; i < names.count && !status; i++) {
        if (!is_chosen(&names, i, options->split)) continue;
        LS_CLEANUP(ls_free_pointer) char *path = ls_path_join(folder, names.names[i]);
        if (!path) return ls_fail_memory("a file name", 0);
        status = open_shard(records, path, options->damage == LS_DAMAGE_SKIPPED);
    }
    if (status || records->source.count) return status;
    return ls_fail(LS_NOT_FOUND, "folder '%s' has no records in files NAME.tfrecord of the %s split", folder,
                   options->split == LS_TEST ? "test (or validation)" : "train");
}

ls_status ls_tfrecord_present(const char *folder, bool *present) {
    LS_CLEANUP(ls_names_free) struct ls_names names = {0};
    ls_status status = ls_names_list(folder, LS_NAMES_FILES, &names);
    if (status) return status;
    *present = false;
    for (int64_t i = 0; i < names.count; i++) *present = *present || strstr(names.names[i], ".tfrecord");
    return LS_OK;
}

/* tensorflow_datasets' label.labels.txt: a line a class. */
static ls_status read_class_names(struct records *records, const char *folder) {
    LS_CLEANUP(ls_free_pointer) char *path = ls_path_join(folder, "label.labels.txt");
    if (!path) return ls_fail_memory("a file name", 0);
    return ls_file_exists(path) ? ls_names_read(path, &records->classes) : LS_OK;
}

/* Without names: as many as the greatest label asks for. All records are read. */
static ls_status count_classes(struct records *records) {
    int64_t greatest = 0;
    records->source.classes = MAX_CLASSES;
    for (int64_t i = 0; i < records->source.count; i++) {
        LS_CLEANUP(close_entry) struct entry entry = {0};
        ls_status status = open_entry(records, i, &entry);
        if (status && status != LS_DATA_LOSS) return status;
        if (!status && entry.example.label > greatest) greatest = entry.example.label;
    }
    records->source.classes = (int)greatest + 1;
    return LS_OK;
}

static ls_status number_shape(const struct entry *entry, ls_shape *shape) {
    const struct ls_example *example = &entry->example;
    ls_shape read = LS_SHAPE(example->feature_count);
    if (example->dims) {
        read.rank = (int)(example->rank <= LS_MAX_RANK ? example->rank : -1);
        for (int i = 0; i < read.rank; i++) read.dims[i] = example->dims[i];
    }
    if (ls_shape_count(&read) < 1 || ls_shape_count(&read) != example->feature_count)
        return ls_fail(LS_DATA_LOSS, "%s has %lld features, which are not of its shape", entry->name,
                       (long long)example->feature_count);
    *shape = read;
    return LS_OK;
}

static ls_status settle(struct records *records, int64_t index, const ls_dataset_options *options) {
    LS_CLEANUP(close_entry) struct entry entry = {0};
    struct ls_source *source = &records->source;
    ls_status status = open_entry(records, index, &entry);
    if (status) return status;
    records->images = entry.example.image != NULL;
    source->ops = records->images ? &image_ops : &number_ops;
    source->slow = records->images;
    if (!records->images) return number_shape(&entry, &source->shape);
    return ls_image_settle(entry.name, entry.example.image, entry.example.image_size, options, &records->wish,
                           &source->shape);
}

/* What kind of examples there are and how large: the first one's, of those that will be left. */
static ls_status find_shape(struct records *records, const ls_dataset_options *options) {
    ls_status status = LS_DATA_LOSS;
    for (int64_t i = 0; i < records->source.count && status == LS_DATA_LOSS; i++) {
        status = settle(records, i, options);
        if (options->damage == LS_DAMAGE_FAILS) break;
    }
    return status;
}

static ls_status open_all(struct records *records, const char *folder, const ls_dataset_options *options) {
    ls_status status = open_shards(records, folder, options);
    if (!status) status = read_class_names(records, folder);
    if (status) return status;
    records->source.classes = (int)records->classes.count;
    records->source.files = records->shard_count;
    if (!records->classes.count) status = count_classes(records);
    return status ? status : find_shape(records, options);
}

ls_status ls_dataset_tfrecord(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (!status) status = ls_folder_check(folder);
    if (status) return status;
    struct records *records = ls_alloc(sizeof(*records));
    if (!records) return ls_fail_memory("a dataset", sizeof(*records));
    records->source = (struct ls_source){.ops = &image_ops, .kind = "tfrecord"};
    status = open_all(records, folder, &filled);
    if (!status) return ls_dataset_from_source(&records->source, &filled, dataset);
    free_records(&records->source);
    return status;
}
