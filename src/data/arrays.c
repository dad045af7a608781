/* Examples in the user's memory, borrowed. Mirrors tf.data.Dataset.from_tensor_slices. Reading copies, so any number of
 * threads may read as long as nobody writes. */
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/sources.h"

struct arrays {
    struct ls_source source;
    const float *features; /* borrows: (count, shape...) */
    const int32_t *labels; /* borrows: (count) */
    size_t elements;       /* of one example */
};

static ls_status read_example(const struct ls_source *source, int64_t index, float *features, int32_t *label) {
    const struct arrays *arrays = (const struct arrays *)source;
    memcpy(features, arrays->features + (size_t)index * arrays->elements, arrays->elements * sizeof(*features));
    *label = arrays->labels[index];
    return LS_OK;
}

static void free_arrays(struct ls_source *source) {
    ls_free(source);
}

static const struct ls_source_ops arrays_ops = {read_example, free_arrays};

static ls_status check_labels(const int32_t *labels, int64_t count, int classes) {
    for (int64_t i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return ls_fail(LS_INVALID_ARGUMENT, "label %d of example %lld is outside [0, %d)", labels[i], (long long)i,
                           classes);
    return LS_OK;
}

static ls_status check_extents(const struct ls_source *source, size_t *elements) {
    char text[128];
    int64_t of_one = ls_shape_count(&source->shape), of_all;
    size_t bytes;
    ls_shape_text(&source->shape, text, sizeof(text));
    if (of_one < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "shape %s of an example: rank 0 to %d and extents of 1 or more are needed",
                       text, LS_MAX_RANK);
    if (source->count < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "count %lld: a dataset needs 1 example or more", (long long)source->count);
    if (__builtin_mul_overflow(of_one, source->count, &of_all) || __builtin_mul_overflow(of_all, sizeof(float), &bytes))
        return ls_fail(LS_INVALID_ARGUMENT, "%lld examples of shape %s do not fit in memory", (long long)source->count,
                       text);
    *elements = (size_t)of_one;
    return LS_OK;
}

ls_status ls_dataset_arrays(const float *features, ls_shape shape, const int32_t *labels, int64_t count, int classes,
                            const ls_dataset_options *options, ls_dataset **dataset) {
    struct arrays arrays = {
        .source = {&arrays_ops, "arrays", shape, classes, count}, .features = features, .labels = labels};
    if (!features || !labels) return ls_fail(LS_INVALID_ARGUMENT, "%s is NULL", features ? "labels" : "features");
    if (classes < 1) return ls_fail(LS_INVALID_ARGUMENT, "classes %d: 1 or more are needed", classes);
    ls_status status = check_extents(&arrays.source, &arrays.elements);
    if (!status) status = check_labels(labels, count, classes);
    if (status) return status;
    struct arrays *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a dataset", sizeof(*made));
    *made = arrays;
    return ls_dataset_from_source(&made->source, options, dataset);
}
