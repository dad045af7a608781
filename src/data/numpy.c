/* NumPy's arrays as examples: x and y of a split, from .npy files, from an .npz a split, or from one .npz with both
 * splits (Keras' mnist.npz). Kept as they are in the file, converted when read. Reading changes nothing, so any number
 * of threads may. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/files.h"
#include "data/npy.h"
#include "data/reader.h"
#include "data/sources.h"
#include "data/zip.h"

#define MAX_CLASSES (1 << 24)

struct arrays {
    struct ls_source source;
    uint8_t *x_bytes, *y_bytes; /* own */
    struct ls_npy x, y;         /* borrow from them */
    int64_t elements;           /* of one example */
};

static ls_status read_example(const struct ls_source *source, int64_t index, float *features, int32_t *label) {
    const struct arrays *arrays = (const struct arrays *)source;
    ls_npy_floats(&arrays->x, index * arrays->elements, arrays->elements, true, features);
    *label = (int32_t)ls_npy_integer(&arrays->y, index);
    return LS_OK;
}

static void free_arrays(struct ls_source *source) {
    struct arrays *arrays = (struct arrays *)source;
    ls_free(arrays->x_bytes);
    ls_free(arrays->y_bytes);
    ls_free(arrays);
}

static const struct ls_source_ops numpy_ops = {.read = read_example, .free = free_arrays};

static const char *split_name(ls_split split) {
    return split == LS_TEST ? "test" : "train";
}

/* One array, x or y, of an archive. */
static ls_status read_member(const char *path, char letter, ls_split split, uint8_t **bytes, struct ls_npy *npy) {
    LS_CLEANUP(ls_free_pointer) uint8_t *archive = NULL;
    size_t size, length = 0;
    char name[32], label[512];
    (void)snprintf(name, sizeof(name), "%c_%s.npy", letter, split_name(split));
    (void)snprintf(label, sizeof(label), "%.450s:%s", path, name);
    ls_status status = ls_file_read(path, &archive, &size);
    if (!status) status = ls_zip_read(path, archive, size, name, bytes, &length);
    return status ? status : ls_npy_parse(label, *bytes, length, npy);
}

/* One array from wherever path has it: an .npz file, or a folder of SPLIT.npz or .npy files. */
static ls_status read_array(const char *path, char letter, ls_split split, uint8_t **bytes, struct ls_npy *npy) {
    char name[32];
    size_t length = 0;
    if (!ls_folder_exists(path)) return read_member(path, letter, split, bytes, npy);
    (void)snprintf(name, sizeof(name), "%s.npz", split_name(split));
    LS_CLEANUP(ls_free_pointer) char *archive = ls_path_join(path, name);
    (void)snprintf(name, sizeof(name), "%c_%s.npy", letter, split_name(split));
    LS_CLEANUP(ls_free_pointer) char *file = ls_path_join(path, name);
    if (!archive || !file) return ls_fail_memory("a file name", 0);
    if (ls_file_exists(archive)) return read_member(archive, letter, split, bytes, npy);
    ls_status status = ls_file_read(file, bytes, &length);
    return status ? status : ls_npy_parse(file, *bytes, length, npy);
}

ls_status ls_numpy_present(const char *folder, ls_split split, bool *present) {
    char archive[32], array[32];
    (void)snprintf(archive, sizeof(archive), "%s.npz", split_name(split));
    (void)snprintf(array, sizeof(array), "x_%s.npy", split_name(split));
    LS_CLEANUP(ls_free_pointer) char *one = ls_path_join(folder, archive);
    LS_CLEANUP(ls_free_pointer) char *other = ls_path_join(folder, array);
    if (!one || !other) return ls_fail_memory("a file name", 0);
    *present = ls_file_exists(one) || ls_file_exists(other);
    return LS_OK;
}

/* Labels are integers, one an example: (count) or (count, 1). */
static ls_status check_labels(const char *path, struct arrays *arrays) {
    const struct ls_npy *y = &arrays->y;
    int64_t greatest = 0, count = arrays->x.shape.rank ? arrays->x.shape.dims[0] : 0;
    if (y->kind == 'f' || y->count != count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "'%s': y has %lld elements of type '%c': x has %lld examples, and y must be integers", path,
                       (long long)y->count, y->kind, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int64_t label = ls_npy_integer(y, i);
        if (label < 0 || label >= MAX_CLASSES)
            return ls_fail(LS_DATA_LOSS, "'%s': label %lld of example %lld is outside [0, %d)", path, (long long)label,
                           (long long)i, MAX_CLASSES);
        if (label > greatest) greatest = label;
    }
    arrays->source.classes = (int)greatest + 1;
    arrays->source.count = count;
    return LS_OK;
}

/* The first axis counts the examples. Bytes of two axes are grey images. */
static void find_shape(struct arrays *arrays) {
    ls_shape shape = {arrays->x.shape.rank - 1, {0}};
    for (int i = 0; i < shape.rank; i++) shape.dims[i] = arrays->x.shape.dims[i + 1];
    arrays->source.bytes = arrays->x.kind == 'u' && arrays->x.item == 1;
    if (arrays->source.bytes && shape.rank == 2) shape.dims[shape.rank++] = 1;
    arrays->source.shape = shape;
    arrays->elements = arrays->source.count ? arrays->x.count / arrays->source.count : 0;
}

static ls_status read_arrays(struct arrays *arrays, const char *path, ls_split split) {
    ls_status status = read_array(path, 'x', split, &arrays->x_bytes, &arrays->x);
    if (!status) status = read_array(path, 'y', split, &arrays->y_bytes, &arrays->y);
    if (!status) status = check_labels(path, arrays);
    if (status) return status;
    find_shape(arrays);
    if (arrays->elements > 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': x holds no examples", path);
}

ls_status ls_dataset_numpy(const char *path, const ls_dataset_options *options, ls_dataset **dataset) {
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (!path || !*path) return ls_fail(LS_INVALID_ARGUMENT, "no file or folder given for the dataset");
    struct arrays *arrays = ls_alloc(sizeof(*arrays));
    if (!arrays) return ls_fail_memory("a dataset", sizeof(*arrays));
    arrays->source = (struct ls_source){.ops = &numpy_ops, .kind = "numpy"};
    status = read_arrays(arrays, path, filled.split);
    if (!status) return ls_dataset_from_source(&arrays->source, &filled, dataset);
    free_arrays(&arrays->source);
    return status;
}
