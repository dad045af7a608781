/* A list ends with a negative class. */
#include "data/dataset.h"

#include <math.h>

#include "base/status.h"

/* The weight of class, or NULL if the list has none. */
static const ls_class_weight *find_weight(const ls_class_weight *list, int64_t class) {
    for (; list->label >= 0; list++)
        if (list->label == class) return list;
    return NULL;
}

ls_status ls_class_weight_check(const ls_class_weight *list, const ls_dataset *dataset) {
    const struct ls_target_kind *kind = &dataset->targets;
    int64_t width = ls_target_width(kind), classes = dataset->source->classes;
    if (kind->numbers) classes = width > 1 ? width : INT32_MAX;
    if (kind->weighted)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "class_weight: the dataset has sample weights, and there is one or the other");
    for (const ls_class_weight *at = list; at->label >= 0; at++) {
        if (at->label >= classes)
            return ls_fail(LS_INVALID_ARGUMENT, "class_weight: class %d is none of the dataset's %lld", at->label,
                           (long long)classes);
        if (!(at->weight >= 0 && isfinite(at->weight)))
            return ls_fail(LS_INVALID_ARGUMENT, "class_weight: the weight %g of class %d must be 0 or more",
                           (double)at->weight, at->label);
        if (find_weight(list, at->label) != at)
            return ls_fail(LS_INVALID_ARGUMENT, "class_weight: class %d is there twice", at->label);
    }
    return LS_OK;
}

static int64_t class_of(const struct ls_target_kind *kind, const struct ls_targets *targets, int64_t row) {
    if (!kind->numbers) return targets->labels[row];
    int64_t width = ls_target_width(kind), best = 0;
    const float *numbers = targets->numbers + row * width;
    if (width == 1) return isfinite(*numbers) && fabsf(*numbers) < 1e9F ? (int64_t)rintf(*numbers) : -1;
    for (int64_t i = 1; i < width; i++)
        if (numbers[i] > numbers[best]) best = i;
    return best;
}

void ls_class_weight_apply(const ls_class_weight *list, const struct ls_target_kind *kind, int64_t rows,
                           const struct ls_targets *targets) {
    for (int64_t r = 0; r < rows; r++) {
        const ls_class_weight *found = find_weight(list, class_of(kind, targets, r));
        targets->weights[r] = found ? found->weight : 1;
    }
}
