/* TFRecord files of tf.train.Example, as tensorflow_datasets writes them: images with labels, or numbers with labels.
 * Opening the files finds the places of the records, so that examples can be read in any order, by any number of
 * threads. Mirrors tf.data.TFRecordDataset with x / 255 for images. */
#include "data/sources.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/new.h"
#include "base/shape.h"
#include "base/need.h"
#include "data/class_count.h"
#include "data/example.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/record.h"
#include "data/dataset.h"
#include "base/plain.h"
#include "data/role.h"

enum { KEPT_OPEN = 64 }; /* shards of a dataset; the others are opened when they are read */

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

/* The shard that holds an example. By halving: shards lie in the order of their first example. Of shards without
 * records, which begin where the next one begins, the search takes the last one that begins at or before index. */
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
    return status ? status : ls_example_parse(entry->name, entry->bytes, entry->size, &entry->example);
}

static ls_status check_label(const struct records *records, const struct entry *entry) {
    if (entry->example.label >= 0 && entry->example.label < records->source.classes) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "%s has label %lld: it must be 0 to %d", entry->name, (long long)entry->example.label,
                   records->source.classes - 1);
}

/* Alike in all records. */
static ls_status check_targets(const struct records *records, const struct entry *entry) {
    const struct ls_target_kind *kind = &records->source.targets;
    bool numbers = entry->example.targets != NULL, weighted = entry->example.weight != NULL;
    if (numbers != kind->numbers)
        return ls_fail(LS_DATA_LOSS, "%s has %s, where the first record has %s", entry->name,
                       numbers ? "floats 'label'" : "a class", numbers ? "a class" : "floats 'label'");
    if (numbers && entry->example.target_count != ls_target_width(kind))
        return ls_fail(LS_DATA_LOSS, "%s has %lld floats 'label' where the first record has %lld", entry->name,
                       (long long)entry->example.target_count, (long long)ls_target_width(kind));
    if (weighted != kind->weighted)
        return ls_fail(LS_DATA_LOSS, "%s has %s, where the first record has %s", entry->name,
                       weighted ? "a sample_weight" : "no sample_weight", weighted ? "none" : "one");
    return numbers ? LS_OK : check_label(records, entry);
}

static ls_status open_checked(const struct records *records, int64_t index, struct entry *entry) {
    ls_status status = open_entry(records, index, entry);
    return status ? status : check_targets(records, entry);
}

static void copy_targets(const struct records *records, const struct entry *entry, const struct ls_targets *targets) {
    const struct ls_example *example = &entry->example;
    if (example->targets)
        memcpy(targets->numbers, example->targets, (size_t)example->target_count * sizeof(*targets->numbers));
    else
        *targets->labels = (int32_t)example->label;
    if (records->source.targets.weighted) *targets->weights = *example->weight;
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

static ls_status read_tfrecord_example(const struct ls_source *source, int64_t index, float *features,
                                       const struct ls_targets *targets) {
    const struct records *records = (const struct records *)source;
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_checked(records, index, &entry);
    if (status) return status;
    copy_targets(records, &entry, targets);
    if (!records->images) return copy_features(records, &entry, features);
    status = check_image(&entry);
    if (status) return status;
    return ls_picture_read(entry.name, entry.example.image, entry.example.image_size, &records->wish,
                           &(struct ls_image_place){&source->shape, features});
}

static ls_status check_example(const struct ls_source *source, int64_t index) {
    const struct records *records = (const struct records *)source;
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_checked(records, index, &entry);
    if (!status && records->images) status = check_image(&entry);
    if (!status && records->images)
        status = ls_picture_check(entry.name, entry.example.image, entry.example.image_size);
    return status;
}

static ls_status read_tfrecord_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                       const struct ls_targets *targets) {
    const struct records *records = (const struct records *)source;
    LS_CLEANUP(close_entry) struct entry entry = {0};
    ls_status status = open_checked(records, index, &entry);
    if (!status) status = check_image(&entry);
    if (status) return status;
    uint8_t *copy = ls_alloc(entry.example.image_size);
    if (!copy) return ls_fail_memory("an image", entry.example.image_size);
    memcpy(copy, entry.example.image, entry.example.image_size);
    *bytes = copy;
    *size = entry.example.image_size;
    copy_targets(records, &entry, targets);
    return LS_OK;
}

static const char *class_tfrecord_name(const struct ls_source *source, int label) {
    const struct records *records = (const struct records *)source;
    return label < records->classes.count ? records->classes.names[label] : NULL;
}

static int64_t file_of_tfrecord(const struct ls_source *source, int64_t index) {
    const struct records *records = (const struct records *)source;
    return find_shard(records, index) - records->shards;
}

static void free_records(struct ls_source *source) {
    struct records *records = (struct records *)source;
    for (int64_t i = 0; i < records->shard_count; i++) ls_record_file_free(records->shards[i].file);
    ls_free(records->shards);
    ls_files_names_free(&records->classes);
    ls_free(records);
}

static const struct ls_source_ops image_ops = {.read = read_tfrecord_example,
                                               .free = free_records,
                                               .encoded = read_tfrecord_encoded,
                                               .check = check_example,
                                               .class_name = class_tfrecord_name,
                                               .file = file_of_tfrecord};
static const struct ls_source_ops number_ops = {.read = read_tfrecord_example,
                                                .free = free_records,
                                                .check = check_example,
                                                .class_name = class_tfrecord_name,
                                                .file = file_of_tfrecord};

static ls_status open_shard(struct records *records, const char *path, bool tolerant) {
    char *broken;
    struct shard *shard = &records->shards[records->shard_count];
    ls_status status = ls_record_file_open(path, tolerant, &shard->file, &broken);
    if (status) return status;
    if (records->shard_count >= KEPT_OPEN) ls_record_file_close(shard->file);
    if (broken) records->source.damaged++;
    ls_free(broken);
    shard->first = records->source.count;
    records->source.count += ls_record_file_count(shard->file);
    records->shard_count++;
    return LS_OK;
}

/* "a.tfrecord", "a.tfrecord-00000-of-00001", Kaggle's "a.tfrec", and ImageNet's "train-00000-of-00002". */
static bool is_record_name(const char *name) {
    const char *of = strstr(name, "-of-");
    if (strstr(name, ".tfrec")) return true;
    for (int i = 1; of && i <= 5; i++)
        if (of - name < 6 || !isdigit((unsigned char)of[-i])) return false;
    return of && of[-6] == '-' && strlen(of) == 9 && strspn(of + 4, "0123456789") == 5;
}

/* The roles that the names of records mean; where none means one, all are of the training split. */
static void find_roles(const struct ls_names *names, const char *there[LS_ROLES]) {
    for (int64_t i = 0; i < names->count; i++) {
        int role = is_record_name(names->names[i]) ? ls_role_of_name(names->names[i]) : LS_ROLE_NONE;
        if (role != LS_ROLE_NONE) there[role] = names->names[i];
    }
}

static bool is_chosen(const char *name, const char *const there[LS_ROLES], ls_split split) {
    bool any = there[LS_TRAIN] || there[LS_TEST] || there[LS_VALIDATION];
    if (!is_record_name(name)) return false;
    return any ? ls_role_of_name(name) == (int)split : split == LS_TRAIN;
}

/* Of a file: its name, and how many records it has. */
static void digest_shard(struct ls_digest *digest, const char *name, const struct shard *shard) {
    int64_t count = ls_record_file_count(shard->file);
    ls_digest_add(digest, name, strlen(name) + 1);
    ls_digest_add(digest, &count, sizeof(count));
}

LS_CLEANER(free_digest, struct ls_digest *, ls_digest_free);

static ls_status open_shards(struct records *records, const char *folder, const ls_dataset_options *options) {
    const char *there[LS_ROLES] = {NULL};
    LS_CLEANUP(ls_files_names_free) struct ls_names names = {0};
    LS_CLEANUP(free_digest) struct ls_digest *digest = NULL;
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &names);
    if (!status) status = ls_digest_new(&digest);
    if (status) return status;
    find_roles(&names, there);
    records->source.split = ls_role_choose(options->split, there);
    records->shards = ls_alloc_array((size_t)names.count + 1, sizeof(*records->shards));
    if (!records->shards) return ls_fail_memory("a list of files", (size_t)names.count * sizeof(struct shard));
    for (int64_t i = 0; i < names.count && !status; i++) {
        bool other = is_record_name(names.names[i]) && ls_role_of_name(names.names[i]) == LS_ROLE_NONE;
        if (!is_chosen(names.names[i], there, records->source.split)) {
            records->source.others += other;
            continue;
        }
        LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(folder, names.names[i]);
        if (!path) return ls_fail_memory("a file name", 0);
        status = open_shard(records, path, options->damage == LS_DAMAGE_SKIPPED);
        if (!status) digest_shard(digest, names.names[i], &records->shards[records->shard_count - 1]);
    }
    if (status || records->source.count) return status ? status : ls_digest_hex(digest, records->source.names_sha256);
    return ls_fail(LS_NOT_FOUND, "folder '%s' has no records in files NAME.tfrecord of the %s split", folder,
                   options->split == LS_TRAIN ? "train" : "test (or validation)");
}

ls_status ls_tfrecord_present(const char *folder, bool *present) {
    LS_CLEANUP(ls_files_names_free) struct ls_names names = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &names);
    if (status) return status;
    *present = false;
    for (int64_t i = 0; i < names.count; i++) *present = *present || is_record_name(names.names[i]);
    return LS_OK;
}

/* tensorflow_datasets' label.labels.txt: a line a class. */
static ls_status read_class_names(struct records *records, const char *folder) {
    LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(folder, "label.labels.txt");
    if (!path) return ls_fail_memory("a file name", 0);
    bool there = false;
    ls_status status = ls_file_is(path, LS_NAMES_FILES, &there);
    return there ? ls_files_names_read(path, &records->classes) : status;
}

/* Without names: as many as the greatest label asks for. All records are read. */
static ls_status count_classes(struct records *records, const char *folder) {
    struct ls_class_count count;
    ls_status status = ls_class_count_new(&count);
    for (int64_t i = 0; !status && i < records->source.count; i++) {
        LS_CLEANUP(close_entry) struct entry entry = {0};
        status = open_checked(records, i, &entry);
        if (!status) ls_class_count_add(&count, entry.example.label, i);
        if (status == LS_DATA_LOSS) status = LS_OK; /* said when it is read */
    }
    return ls_class_count_end(&count, status, folder, &records->source);
}

/* Floats of an example and the extents that it gives them; NULL dims mean one axis. */
struct extents {
    const char *what;
    int64_t count;
    const int64_t *dims;
    int64_t rank;
};

static ls_status read_shape(const struct entry *entry, const struct extents *extents, ls_shape *shape) {
    ls_shape read = LS_SHAPE(extents->count);
    if (extents->dims) {
        read.rank = (int)(extents->rank <= LS_MAX_RANK ? extents->rank : -1);
        for (int i = 0; i < read.rank; i++) read.dims[i] = extents->dims[i];
    }
    if (ls_shape_count(&read) < 1 || ls_shape_count(&read) != extents->count)
        return ls_fail(LS_DATA_LOSS, "%s has %lld %s, which are not of its shape", entry->name,
                       (long long)extents->count, extents->what);
    *shape = read;
    return LS_OK;
}

/* Decides the kind of the examples' targets. */
static ls_status settle_targets(const struct entry *entry, struct ls_target_kind *kind) {
    const struct ls_example *example = &entry->example;
    const struct extents extents = {"floats 'label'", example->target_count, example->target_dims,
                                    example->target_rank};
    *kind = (struct ls_target_kind){.numbers = example->targets != NULL, .weighted = example->weight != NULL};
    return kind->numbers ? read_shape(entry, &extents, &kind->shape) : LS_OK;
}

static ls_status settle_record(struct records *records, int64_t index, const ls_dataset_options *options) {
    LS_CLEANUP(close_entry) struct entry entry = {0};
    struct ls_source *source = &records->source;
    ls_status status = open_entry(records, index, &entry);
    if (!status) status = settle_targets(&entry, &source->targets);
    if (!status && !source->targets.numbers) status = check_label(records, &entry);
    if (status) return status;
    records->images = entry.example.image != NULL;
    source->ops = records->images ? &image_ops : &number_ops;
    source->slow = records->images;
    const struct extents extents = {"features", entry.example.feature_count, entry.example.dims, entry.example.rank};
    if (!records->images) return read_shape(&entry, &extents, &source->shape);
    return ls_picture_settle(entry.name, entry.example.image, entry.example.image_size, options, &records->wish,
                             &source->shape);
}

/* Finds kind and size of the examples. They are those of the first example that will be left. */
static ls_status find_record_shape(struct records *records, const ls_dataset_options *options) {
    ls_status status = LS_DATA_LOSS;
    for (int64_t i = 0; i < records->source.count && status == LS_DATA_LOSS; i++) {
        status = settle_record(records, i, options);
        if (options->damage == LS_DAMAGE_FAILS) break;
    }
    return status;
}

static ls_status open_tfrecord(struct ls_source **source, const char *folder, const ls_dataset_options *options) {
    struct records *records = (struct records *)*source;
    ls_status status = open_shards(records, folder, options);
    if (!status) status = read_class_names(records, folder);
    if (status) return status;
    records->source.files = records->shard_count;
    records->source.classes = records->classes.count ? (int)records->classes.count : LS_MAX_CLASSES;
    status = find_record_shape(records, options);
    if (!status && records->source.targets.numbers) records->source.classes = 0;
    return status || records->classes.count || !records->source.classes ? status : count_classes(records, folder);
}

ls_status ls_dataset_tfrecord(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {.source = {.ops = &image_ops, .kind = "tfrecord"},
                                                 .size = sizeof(struct records),
                                                 .folder = true,
                                                 .open = open_tfrecord};
    return ls_source_open(&start, folder, options, dataset);
}
