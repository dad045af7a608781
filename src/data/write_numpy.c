/* Arrays in memory: x of bytes where the examples are bytes / 255, of int32 or of float32 elsewhere, y of int64, or of
 * float32 where targets are numbers, and sample_weight where there are any; written at the end. */
#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/files.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/pixels.h"
#include "data/sources.h"
#include "data/write.h"
#include "data/zip.h"

struct arrays {
    size_t elements, item; /* of one example; bytes of one element */
    float *features;       /* owns: one example */
    uint8_t *x;            /* owns: LS_NPY_HEADER, then all */
    struct ls_targets all; /* owns */
    int64_t *labels;       /* owns: all.labels as they are written; NULL for numbers */
};

static ls_status begin_arrays(struct ls_write *write) {
    const struct ls_source *source = write->dataset->source;
    struct arrays *arrays = ls_alloc(sizeof(*arrays));
    size_t count = (size_t)write->dataset->count;
    if (!arrays) return ls_fail_memory("a writer", sizeof(*arrays));
    write->state = arrays;
    arrays->elements = (size_t)ls_shape_count(&source->shape);
    arrays->item = source->bytes ? 1 : sizeof(float);
    arrays->features = ls_alloc_array(arrays->elements, sizeof(float));
    arrays->x = ls_alloc_array(count, arrays->elements * arrays->item);
    if (!source->targets.numbers) arrays->labels = ls_alloc_array(count, sizeof(*arrays->labels));
    ls_status status = ls_targets_new(&source->targets, write->dataset->count, &arrays->all);
    if (status) return status;
    if (arrays->features && arrays->x && (arrays->labels || source->targets.numbers)) return LS_OK;
    return ls_fail_memory("the arrays", count * arrays->elements * arrays->item);
}

static ls_status add_to_arrays(struct ls_write *write) {
    const struct ls_source *source = write->dataset->source;
    struct arrays *arrays = write->state;
    uint8_t *to = arrays->x + (size_t)write->done * arrays->elements * arrays->item;
    const struct ls_targets targets = ls_targets_at(&arrays->all, &source->targets, write->done);
    ls_status status = ls_source_read(source, write->next, arrays->features, &targets);
    if (status) return status;
    if (source->bytes)
        ls_pixels_from_unit(arrays->features, arrays->elements, to);
    else
        memcpy(to, arrays->features, arrays->elements * sizeof(float));
    if (arrays->labels) arrays->labels[write->done] = *targets.labels;
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

/* (count, extents of one...) */
static ls_status shape_of_all(int64_t count, const ls_shape *one, ls_shape *shape) {
    *shape = (ls_shape){one->rank + 1, {count}};
    if (shape->rank > LS_MAX_RANK) return ls_fail(LS_UNIMPLEMENTED, "examples of rank %d have no array", one->rank);
    for (int i = 0; i < one->rank; i++) shape->dims[i + 1] = one->dims[i];
    return LS_OK;
}

enum { X, Y, WEIGHTS, MOST_FILES };

/* The files to be written, with an array each. */
struct output {
    char names[MOST_FILES][32], headers[MOST_FILES][LS_NPY_HEADER];
    struct ls_zip_file files[MOST_FILES];
};

static ls_status list_files(const struct ls_write *write, const struct arrays *arrays, struct output *output) {
    static const char *const names[] = {"x", "y", "sample_weight"};
    const struct ls_source *source = write->dataset->source;
    size_t count = (size_t)write->dataset->count, numbers = (size_t)ls_target_width(&source->targets) * sizeof(float);
    const void *targets = arrays->labels ? (const void *)arrays->labels : arrays->all.numbers;
    const void *values[] = {arrays->x, targets, arrays->all.weights};
    const char *types[] = {source->bytes      ? "|u1"
                           : source->integers ? "<i4"
                                              : "<f4",
                           arrays->labels ? "<i8" : "<f4", "<f4"};
    size_t sizes[] = {arrays->elements * arrays->item, arrays->labels ? sizeof(int64_t) : numbers, sizeof(float)};
    const ls_shape none = {0}, *ones[] = {&source->shape, arrays->labels ? &none : &source->targets.shape, &none};
    for (int i = 0; i < MOST_FILES; i++) {
        ls_shape shape;
        ls_status status = shape_of_all(write->dataset->count, ones[i], &shape);
        if (status) return status;
        (void)snprintf(output->names[i], sizeof(output->names[i]), "%s_%s.npy", names[i], write->split);
        ls_npy_header(types[i], &shape, output->headers[i]);
        output->files[i] =
            (struct ls_zip_file){output->names[i], {output->headers[i], values[i]}, {LS_NPY_HEADER, count * sizes[i]}};
    }
    return LS_OK;
}

static ls_status write_arrays(const struct ls_write *write, const struct arrays *arrays) {
    struct output output;
    char path[4096];
    size_t count = arrays->all.weights ? MOST_FILES : WEIGHTS;
    ls_status status = list_files(write, arrays, &output);
    if (status) return status;
    (void)snprintf(path, sizeof(path), "%.4000s/%s.npz", write->folder, write->split);
    if (write->format == LS_FORMAT_NPZ) return ls_zip_write(path, output.files, count);
    for (size_t i = 0; i < count && !status; i++) status = write_file(write, &output.files[i]);
    return status;
}

static ls_status end_arrays(struct ls_write *write, ls_status status) {
    struct arrays *arrays = write->state;
    if (!arrays) return status;
    if (!status) status = write_arrays(write, arrays);
    ls_free(arrays->features);
    ls_free(arrays->x);
    ls_targets_free(&arrays->all);
    ls_free(arrays->labels);
    ls_free(arrays);
    return status;
}

const struct ls_write_ops ls_write_arrays = {begin_arrays, add_to_arrays, end_arrays};
