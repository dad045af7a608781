/* NumPy's arrays as examples: x, y and maybe sample_weight of a split, from .npy files, from an .npz a split, or from
 * one .npz with all splits (Keras' mnist.npz). Kept as they are in the file, converted when read. Reading changes
 * nothing, so any number of threads may. */
#include "data/sources.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "base/need.h"
#include "data/class_count.h"
#include "data/files.h"
#include "data/npy.h"
#include "data/reader.h"
#include "data/role.h"
#include "data/dataset.h"
#include "data/zip.h"

struct arrays {
    struct ls_source source;
    uint8_t *x_bytes, *y_bytes, *weight_bytes; /* own */
    struct ls_npy x, y, weights;               /* borrow from them */
    int64_t elements;                          /* of one example */
};

static void read_ids(const struct arrays *arrays, int64_t index, int32_t *ids) {
    for (int64_t i = 0; i < arrays->elements; i++)
        ids[i] = (int32_t)ls_npy_integer(&arrays->x, index * arrays->elements + i);
}

static void read_targets(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    const struct arrays *arrays = (const struct arrays *)source;
    int64_t width = ls_target_width(&source->targets);
    if (source->unlabelled)
        *targets->labels = 0;
    else if (source->targets.numbers)
        ls_npy_floats(&arrays->y, index * width, width, false, targets->numbers);
    else
        *targets->labels = (int32_t)ls_npy_integer(&arrays->y, index);
    if (source->targets.weighted) ls_npy_floats(&arrays->weights, index, 1, false, targets->weights);
}

static ls_status read_numpy_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    const struct arrays *arrays = (const struct arrays *)source;
    if (source->integers)
        read_ids(arrays, index, (int32_t *)(void *)features);
    else
        ls_npy_floats(&arrays->x, index * arrays->elements, arrays->elements, true, features);
    read_targets(source, index, targets);
    return LS_OK;
}

static ls_status bytes_of_numpy(const struct ls_source *source, int64_t index, uint8_t *features,
                                const struct ls_targets *targets) {
    const struct arrays *arrays = (const struct arrays *)source;
    ls_npy_bytes(&arrays->x, index * arrays->elements, arrays->elements, features);
    read_targets(source, index, targets);
    return LS_OK;
}

static void free_numpy(struct ls_source *source) {
    struct arrays *arrays = (struct arrays *)source;
    ls_free(arrays->x_bytes);
    ls_free(arrays->y_bytes);
    ls_free(arrays->weight_bytes);
    ls_free(arrays);
}

static const struct ls_source_ops numpy_ops = {.read = read_numpy_example, .free = free_numpy, .bytes = bytes_of_numpy};

/* The place of a split's arrays: members of an archive, or files of a folder. */
struct place {
    char path[4096];  /* of the archive, or of the folder */
    uint8_t *archive; /* owns; NULL for files */
    size_t size;
    const char *split;
};

static void close_place(struct place *place) {
    ls_free(place->archive);
}

static bool has_name(const struct ls_names *names, const char *format, const char *word) {
    char name[32];
    (void)snprintf(name, sizeof(name), format, word);
    return ls_files_names_find(names, name) >= 0;
}

/* Of each role the word that WORD.npz, in a folder, or x_WORD.npy has; NULL without one. */
static ls_status find_words(const char *path, const struct ls_names *names, bool folder, const char *words[LS_ROLES]) {
    for (int role = 0; role < LS_ROLES; role++) {
        const char *word;
        words[role] = NULL;
        for (size_t i = 0; (word = ls_role_word((ls_split)role, i)); i++) {
            if (!(folder && has_name(names, "%s.npz", word)) && !has_name(names, "x_%s.npy", word)) continue;
            if (words[role])
                return ls_fail(LS_INVALID_ARGUMENT, "'%s' has both x_%s and x_%s: leave one %s split in it", path,
                               words[role], word, ls_role_name((ls_split)role));
            words[role] = word;
        }
    }
    return LS_OK;
}

/* *split becomes the one that is there. *word says it; a name of the split where none is there. */
static ls_status choose_word(const char *path, const struct ls_names *names, bool folder, ls_split *split,
                             const char **word) {
    const char *words[LS_ROLES];
    ls_status status = find_words(path, names, folder, words);
    if (status) return status;
    *split = ls_role_choose(*split, words);
    *word = words[*split] ? words[*split] : ls_role_name(ls_role_of_two(*split));
    return LS_OK;
}

static ls_status read_archive(struct place *place, ls_split *split) {
    LS_CLEANUP(ls_files_names_free) struct ls_names members = {0};
    ls_status status = ls_file_read(place->path, &place->archive, &place->size);
    if (!status) status = ls_zip_list(&(struct ls_zip){place->path, place->archive, place->size}, &members);
    return status ? status : choose_word(place->path, &members, false, split, &place->split);
}

/* An .npz file, or a folder of SPLIT.npz or of .npy files. */
static ls_status open_place(const char *path, ls_split *split, struct place *place) {
    LS_CLEANUP(ls_files_names_free) struct ls_names files = {0};
    bool folder = false;
    ls_status status = ls_file_is(path, LS_NAMES_FOLDERS, &folder);
    if (!status && folder) status = ls_files_names_list(path, LS_NAMES_FILES, &files);
    if (!status && folder) status = choose_word(path, &files, true, split, &place->split);
    if (status) return status;
    bool archive = folder && has_name(&files, "%s.npz", place->split);
    int length = archive ? snprintf(place->path, sizeof(place->path), "%s/%s.npz", path, place->split)
                         : snprintf(place->path, sizeof(place->path), "%s", path);
    if (length >= (int)sizeof(place->path))
        return ls_fail(LS_INVALID_ARGUMENT, "the path '%.80s...' is too long", path);
    return folder && !archive ? LS_OK : read_archive(place, split);
}

/* The array NAME_SPLIT. */
static ls_status read_array(const struct place *place, const char *name, uint8_t **bytes, struct ls_npy *npy) {
    char member[64], label[512];
    size_t length = 0;
    (void)snprintf(member, sizeof(member), "%s_%s.npy", name, place->split);
    (void)snprintf(label, sizeof(label), "%.400s%c%s", place->path, place->archive ? ':' : '/', member);
    if (place->archive) {
        ls_status status =
            ls_zip_read(&(struct ls_zip){place->path, place->archive, place->size}, member, bytes, &length);
        return status ? status : ls_npy_parse(label, *bytes, length, npy);
    }
    LS_CLEANUP(ls_free_pointer) char *file = ls_reader_path_join(place->path, member);
    if (!file) return ls_fail_memory("a file name", 0);
    ls_status status = ls_file_read(file, bytes, &length);
    return status ? status : ls_npy_parse(file, *bytes, length, npy);
}

ls_status ls_numpy_present(const char *folder, ls_split split, bool *present) {
    LS_CLEANUP(ls_files_names_free) struct ls_names files = {0};
    const char *word = NULL;
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &files);
    if (!status) status = choose_word(folder, &files, true, &split, &word);
    if (!status) *present = has_name(&files, "%s.npz", word) || has_name(&files, "x_%s.npy", word);
    return status;
}

/* The number of examples, which each array has as its first axis. */
static ls_status check_count(const struct place *place, const char *name, const struct ls_npy *npy, int64_t count) {
    if (npy->shape.rank > 0 && npy->shape.dims[0] == count) return LS_OK;
    char shape[128];
    ls_shape_text(&npy->shape, shape, sizeof(shape));
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': %s_%s has shape %s, x_%s has %lld examples: there must be as many",
                   place->path, name, place->split, shape, place->split, (long long)count);
}

/* Whole numbers, one an example, (count) or (count, 1), are classes. */
static ls_status take_labels(const struct place *place, struct arrays *arrays) {
    const struct ls_npy *y = &arrays->y;
    struct ls_class_count count;
    ls_status status = ls_class_count_new(&count);
    for (int64_t i = 0; !status && i < y->count; i++) {
        int64_t label = ls_npy_integer(y, i);
        if (label < 0 || label >= LS_MAX_CLASSES)
            status = ls_fail(LS_INVALID_ARGUMENT,
                             "'%s': label %lld of example %lld is outside [0, %d): integers in y_%s are class numbers; "
                             "for a regression save it as float32%s",
                             place->path, (long long)label, (long long)i, LS_MAX_CLASSES, place->split,
                             label < 0 ? ", classes -1 and 1 as 0 and 1" : "");
        else
            ls_class_count_add(&count, label, i);
    }
    return ls_class_count_end(&count, status, place->path, &arrays->source);
}

static void count_file_numbers(struct arrays *arrays) {
    int64_t width = ls_target_width(&arrays->source.targets);
    bool go_on = true;
    for (int64_t i = 0; i < arrays->y.count && go_on; i++) {
        float value;
        ls_npy_floats(&arrays->y, i, 1, false, &value);
        go_on = ls_class_count_number(&arrays->source.whole, i / width, value, width > 1);
    }
}

/* All else are numbers: of a regression, or one-hot rows. */
static ls_status take_targets(const struct place *place, struct arrays *arrays) {
    const struct ls_npy *y = &arrays->y;
    struct ls_target_kind *kind = &arrays->source.targets;
    if (y->kind != 'f' && y->count == arrays->source.count) return take_labels(place, arrays);
    kind->numbers = true;
    kind->shape = (ls_shape){y->shape.rank - 1, {0}};
    for (int i = 0; i < kind->shape.rank; i++) kind->shape.dims[i] = y->shape.dims[i + 1];
    count_file_numbers(arrays);
    if (y->count > 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': y_%s holds no numbers", place->path, place->split);
}

static ls_status read_weights(const struct place *place, struct arrays *arrays) {
    ls_status status = read_array(place, "sample_weight", &arrays->weight_bytes, &arrays->weights);
    if (status == LS_NOT_FOUND) return LS_OK; /* there are none */
    if (!status) status = check_count(place, "sample_weight", &arrays->weights, arrays->source.count);
    if (!status && arrays->weights.count != arrays->source.count)
        status = ls_fail(LS_INVALID_ARGUMENT, "'%s': sample_weight_%s has %lld numbers for %lld examples: one each",
                         place->path, place->split, (long long)arrays->weights.count, (long long)arrays->source.count);
    arrays->source.targets.weighted = true;
    return status;
}

/* The first axis counts the examples. Bytes of two axes are grey images. */
static ls_status take_features(const struct place *place, struct arrays *arrays) {
    const struct ls_npy *x = &arrays->x;
    ls_shape shape = {x->shape.rank - 1, {0}};
    if (!x->count || !x->shape.rank)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': x_%s holds no examples", place->path, place->split);
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = x->shape.dims[i + 1];
    arrays->source.bytes = x->kind == 'u' && x->item == 1;
    if (arrays->source.bytes && shape.rank == 2) shape.dims[shape.rank++] = 1;
    arrays->source.shape = shape;
    arrays->source.count = x->shape.dims[0];
    arrays->elements = x->count / arrays->source.count;
    return LS_OK;
}

static ls_status take_ids(const struct place *place, struct arrays *arrays) {
    const struct ls_npy *x = &arrays->x;
    arrays->source.integers = true;
    arrays->source.bytes = false;
    if (x->kind == 'f')
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': x_%s holds floats, and ids are integers: save them as int32",
                       place->path, place->split);
    for (int64_t i = 0; i < x->count; i++)
        if (ls_npy_integer(x, i) != (int32_t)ls_npy_integer(x, i))
            return ls_fail(LS_DATA_LOSS, "'%s': id %lld of example %lld in x_%s is no int32", place->path,
                           (long long)ls_npy_integer(x, i), (long long)(i / arrays->elements), place->split);
    return LS_OK;
}

static ls_status read_arrays(struct arrays *arrays, const char *path, const ls_dataset_options *options) {
    LS_CLEANUP(close_place) struct place place = {.archive = NULL};
    ls_status status = open_place(path, &arrays->source.split, &place);
    if (!status) status = read_array(&place, "x", &arrays->x_bytes, &arrays->x);
    if (!status) status = take_features(&place, arrays);
    if (!status && options->ids) status = take_ids(&place, arrays);
    if (!status) status = read_array(&place, "y", &arrays->y_bytes, &arrays->y);
    if (!status) status = check_count(&place, "y", &arrays->y, arrays->source.count);
    if (!status) status = take_targets(&place, arrays);
    return status ? status : read_weights(&place, arrays);
}

/* The member of an archive that holds x; NULL where it is not plain which does. */
static const char *find_x(const struct ls_names *members, const char *split) {
    char wanted[32];
    (void)snprintf(wanted, sizeof(wanted), "x_%s.npy", split);
    for (int64_t i = 0; i < members->count; i++)
        if (members->count == 1 || !strcmp(members->names[i], "x.npy") || !strcmp(members->names[i], wanted))
            return members->names[i];
    return NULL;
}

static ls_status read_x_of_archive(const struct place *place, uint8_t **bytes, size_t *length) {
    LS_CLEANUP(ls_files_names_free) struct ls_names members = {0};
    const struct ls_zip archive = {place->path, place->archive, place->size};
    ls_status status = ls_zip_list(&archive, &members);
    const char *x = find_x(&members, place->split);
    if (x) return ls_zip_read(&archive, x, bytes, length);
    return status ? status
                  : ls_fail(LS_INVALID_ARGUMENT, "'%s' has %lld arrays, and none of the name x or x_%s", place->path,
                            (long long)members.count, place->split);
}

static ls_status read_unlabelled(struct arrays *arrays, const char *path, const ls_dataset_options *options) {
    LS_CLEANUP(close_place) struct place place = {.split = ls_role_name(options->split)};
    size_t length = 0;
    (void)snprintf(place.path, sizeof(place.path), "%s", path);
    ls_status status = ls_file_read(path, &place.archive, &place.size);
    if (!status && ls_files_has_ending(path, ".npz")) {
        status = read_x_of_archive(&place, &arrays->x_bytes, &length);
    } else if (!status) {
        arrays->x_bytes = ls_steal(place.archive);
        length = place.size;
    }
    if (!status) status = ls_npy_parse(path, arrays->x_bytes, length, &arrays->x);
    if (!status) status = take_features(&place, arrays);
    return status || !options->ids ? status : take_ids(&place, arrays);
}

static ls_status open_numpy(struct ls_source **source, const char *path, const ls_dataset_options *options) {
    struct arrays *arrays = (struct arrays *)*source;
    if (!path || !*path) return ls_fail(LS_INVALID_ARGUMENT, "no file or folder given for the dataset");
    return ((*source)->unlabelled ? read_unlabelled : read_arrays)(arrays, path, options);
}

ls_status ls_numpy_unlabelled(const char *path, const ls_dataset_options *options, ls_dataset **dataset) {
    static const struct ls_source_start start = {
        .source = {.ops = &numpy_ops, .kind = "numpy", .in_memory = true, .unlabelled = true},
        .size = sizeof(struct arrays),
        .open = open_numpy};
    return ls_source_open(&start, path, options, dataset);
}

ls_status ls_dataset_numpy(const char *path, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {.source = {.ops = &numpy_ops, .kind = "numpy", .in_memory = true},
                                                 .size = sizeof(struct arrays),
                                                 .open = open_numpy};
    return ls_source_open(&start, path, options, dataset);
}
