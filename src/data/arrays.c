/* Examples in the user's memory, borrowed. Mirrors tf.data.Dataset.from_tensor_slices. Reading copies, so any number of
 * threads may read as long as nobody writes. */
#include <math.h>
#include <string.h>

#include "base/shape.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "data/class_count.h"
#include "data/sources.h"

struct arrays {
    struct ls_source source;
    ls_arrays given;
    size_t elements; /* of one example */
};

static ls_status read_arrays_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    const struct arrays *arrays = (const struct arrays *)source;
    const ls_arrays *given = &arrays->given;
    size_t width = (size_t)ls_target_width(&source->targets);
    const void *from = given->ids ? (const void *)(given->ids + (size_t)index * arrays->elements)
                                  : given->features + (size_t)index * arrays->elements;
    memcpy(features, from, arrays->elements * sizeof(*features));
    if (given->targets)
        memcpy(targets->numbers, given->targets + (size_t)index * width, width * sizeof(*targets->numbers));
    else
        *targets->labels = given->labels ? given->labels[index] : 0;
    if (given->sample_weights) *targets->weights = given->sample_weights[index];
    return LS_OK;
}

static const struct ls_source_ops arrays_ops = {read_arrays_example, ls_source_free};

static ls_status check_labels(const ls_arrays *given) {
    if (!given->labels) return LS_OK;
    if (given->classes < 1) return ls_fail(LS_INVALID_ARGUMENT, "classes %d: 1 or more are needed", given->classes);
    for (int64_t i = 0; i < given->count; i++)
        if (given->labels[i] < 0 || given->labels[i] >= given->classes)
            return ls_fail(LS_INVALID_ARGUMENT, "label %d of example %lld is outside [0, %d)", given->labels[i],
                           (long long)i, given->classes);
    return LS_OK;
}

static ls_status check_weights(const ls_arrays *given) {
    for (int64_t i = 0; given->sample_weights && i < given->count; i++)
        if (!isfinite(given->sample_weights[i]))
            return ls_fail(LS_INVALID_ARGUMENT, "sample weight %g of example %lld is no number",
                           (double)given->sample_weights[i], (long long)i);
    return LS_OK;
}

/* Of one example; what: "an example" or "a target". */
static ls_status check_extents(const char *what, const ls_shape *shape, int64_t count, size_t *elements) {
    char text[128];
    int64_t of_one = ls_shape_count(shape), of_all;
    size_t bytes;
    ls_shape_text(shape, text, sizeof(text));
    if (of_one < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "shape %s of %s: rank 0 to %d and extents of 1 or more are needed", text,
                       what, LS_MAX_RANK);
    if (__builtin_mul_overflow(of_one, count, &of_all) || __builtin_mul_overflow(of_all, sizeof(float), &bytes))
        return ls_fail(LS_INVALID_ARGUMENT, "%lld of shape %s do not fit in memory", (long long)count, text);
    *elements = (size_t)of_one;
    return LS_OK;
}

static ls_status check_given(const ls_arrays *given) {
    if (!given->features && !given->ids) return ls_fail(LS_INVALID_ARGUMENT, "features is NULL, and so is ids");
    if (given->features && given->ids)
        return ls_fail(LS_INVALID_ARGUMENT, "features and ids are given: an example has one or the other");
    if (!given->labels && !given->targets && given->classes)
        return ls_fail(LS_INVALID_ARGUMENT, "labels is NULL, and so is targets, for %d classes", given->classes);
    if (given->labels && given->targets)
        return ls_fail(LS_INVALID_ARGUMENT, "labels and targets are given: an example has one or the other");
    if (given->count >= 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "count %lld: a dataset needs 1 example or more", (long long)given->count);
}

static void count_numbers(struct arrays *arrays) {
    const ls_arrays *given = &arrays->given;
    int64_t width = ls_target_width(&arrays->source.targets);
    bool go_on = true;
    for (int64_t i = 0; i < given->count * width && go_on; i++)
        go_on = ls_class_count_number(&arrays->source.whole, i / width, given->targets[i], width > 1);
}

static ls_status fill_source(struct arrays *arrays) {
    const ls_arrays *given = &arrays->given;
    bool numbers = given->targets != NULL;
    size_t width;
    ls_status status = check_given(given);
    if (!status) status = check_extents("an example", &given->shape, given->count, &arrays->elements);
    if (!status && numbers) status = check_extents("a target", &given->target_shape, given->count, &width);
    if (!status && !numbers) status = check_labels(given);
    if (!status) status = check_weights(given);
    arrays->source = (struct ls_source){
        .ops = &arrays_ops,
        .kind = "arrays",
        .shape = given->shape,
        .classes = given->labels ? given->classes : 0,
        .unlabelled = !given->labels && !numbers,
        .count = given->count,
        .integers = given->ids != NULL,
        .in_memory = true,
        .targets = {numbers, numbers ? given->target_shape : (ls_shape){0}, given->sample_weights != NULL}};
    if (!status && numbers) count_numbers(arrays);
    return status;
}

ls_status ls_dataset_from_arrays(const ls_arrays *arrays, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    struct arrays filled = {0};
    ls_status status = ls_options_copy("ls_arrays", &filled.given, sizeof(filled.given), arrays);
    if (!status) status = fill_source(&filled);
    if (status) return status;
    LS_NEW(struct arrays, made, "a dataset");
    *made = filled;
    if (options) made->source.split = options->split;
    return ls_dataset_from_source(LS_OK, &made->source, options, dataset);
}

ls_status ls_dataset_arrays(const float *features, ls_shape shape, const int32_t *labels, int64_t count, int classes,
                            const ls_dataset_options *options, ls_dataset **dataset) {
    if (!labels) return ls_fail(LS_INVALID_ARGUMENT, "labels is NULL");
    return ls_dataset_from_arrays(
        LS_ARRAYS(.count = count, .features = features, .shape = shape, .labels = labels, .classes = classes), options,
        dataset);
}
