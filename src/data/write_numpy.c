/* Two arrays in memory, x of bytes where the examples are bytes / 255 and of float32 elsewhere, y of int64; written at
 * the end. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/files.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/sources.h"
#include "data/write.h"
#include "data/zip.h"

struct arrays {
    size_t elements, item; /* of one example; bytes of one element */
    float *features;       /* owns: one example */
    uint8_t *x;            /* owns: LS_NPY_HEADER, then all */
    int64_t *labels;       /* owns */
};

static ls_status begin(struct ls_write *write) {
    const struct ls_source *source = write->dataset->source;
    struct arrays *arrays = ls_alloc(sizeof(*arrays));
    size_t count = (size_t)write->dataset->count;
    if (!arrays) return ls_fail_memory("a writer", sizeof(*arrays));
    write->state = arrays;
    arrays->elements = (size_t)ls_shape_count(&source->shape);
    arrays->item = source->bytes ? 1 : sizeof(float);
    arrays->features = ls_alloc_array(arrays->elements, sizeof(float));
    arrays->x = ls_alloc_array(count, arrays->elements * arrays->item);
    arrays->labels = ls_alloc_array(count, sizeof(*arrays->labels));
    if (arrays->features && arrays->x && arrays->labels) return LS_OK;
    return ls_fail_memory("the arrays", count * arrays->elements * arrays->item);
}

static ls_status add(struct ls_write *write) {
    const struct ls_source *source = write->dataset->source;
    struct arrays *arrays = write->state;
    uint8_t *to = arrays->x + (size_t)write->done * arrays->elements * arrays->item;
    int32_t label;
    ls_status status = source->ops->read(source, write->next, arrays->features, &label);
    if (status) return status;
    if (source->bytes)
        ls_unit_to_pixels(arrays->features, arrays->elements, to);
    else
        memcpy(to, arrays->features, arrays->elements * sizeof(float));
    arrays->labels[write->done] = label;
    return LS_OK;
}

static ls_status write_file(const struct ls_write *write, const struct ls_zip_file *file) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%.4000s/%s", write->folder, file->name);
    size_t size = file->sizes[0] + file->sizes[1];
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(size);
    if (!bytes) return ls_fail_memory(file->name, size);
    memcpy(bytes, file->parts[0], file->sizes[0]);
    memcpy(bytes + file->sizes[0], file->parts[1], file->sizes[1]);
    return ls_file_write(path, bytes, size);
}

static ls_status write_arrays(const struct ls_write *write, const struct arrays *arrays) {
    const struct ls_dataset *dataset = write->dataset;
    size_t count = (size_t)dataset->count;
    char x_name[32], y_name[32], x_header[LS_NPY_HEADER], y_header[LS_NPY_HEADER], path[4096];
    ls_shape shape = {dataset->source->shape.rank + 1, {dataset->count}};
    if (shape.rank > LS_MAX_RANK) return ls_fail(LS_UNIMPLEMENTED, "examples of rank %d have no array", shape.rank - 1);
    for (int i = 1; i < shape.rank; i++) shape.dims[i] = dataset->source->shape.dims[i - 1];
    ls_npy_header(dataset->source->bytes ? "|u1" : "<f4", &shape, x_header);
    ls_npy_header("<i8", &LS_SHAPE(dataset->count), y_header);
    (void)snprintf(x_name, sizeof(x_name), "x_%s.npy", write->split);
    (void)snprintf(y_name, sizeof(y_name), "y_%s.npy", write->split);
    const struct ls_zip_file files[] = {
        {x_name, {x_header, arrays->x}, {LS_NPY_HEADER, count * arrays->elements * arrays->item}},
        {y_name, {y_header, arrays->labels}, {LS_NPY_HEADER, count * sizeof(*arrays->labels)}}};
    (void)snprintf(path, sizeof(path), "%.4000s/%s.npz", write->folder, write->split);
    if (write->format == LS_FORMAT_NPZ) return ls_zip_write(path, files, 2);
    ls_status status = write_file(write, &files[0]);
    return status ? status : write_file(write, &files[1]);
}

static ls_status end(struct ls_write *write, ls_status status) {
    struct arrays *arrays = write->state;
    if (!arrays) return status;
    if (!status) status = write_arrays(write, arrays);
    ls_free(arrays->features);
    ls_free(arrays->x);
    ls_free(arrays->labels);
    ls_free(arrays);
    return status;
}

const struct ls_write_ops ls_write_arrays = {begin, add, end};
