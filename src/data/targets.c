/* Rows of targets in memory: labels or numbers, and weights beside them. */
#include "data/targets.h"

#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/class_count.h"

int64_t ls_target_width(const struct ls_target_kind *kind) {
    return ls_shape_count(&kind->shape);
}

ls_status ls_targets_new(const struct ls_target_kind *kind, int64_t rows, struct ls_targets *targets) {
    size_t count = (size_t)rows, width = (size_t)ls_target_width(kind);
    struct ls_targets made = {0};
    if (kind->numbers)
        made.numbers = ls_alloc_array(count, width * sizeof(float));
    else
        made.labels = ls_alloc_array(count, width * sizeof(*made.labels));
    if (kind->weighted) made.weights = ls_alloc_array(count, sizeof(*made.weights));
    *targets = made;
    if ((made.numbers || made.labels) && (made.weights || !kind->weighted)) return LS_OK;
    ls_targets_free(targets);
    return ls_fail_memory("targets", count * width * sizeof(float));
}

void ls_targets_free(struct ls_targets *targets) {
    ls_free(targets->labels);
    ls_free(targets->numbers);
    ls_free(targets->weights);
    *targets = (struct ls_targets){0};
}

struct ls_targets ls_targets_at(const struct ls_targets *targets, const struct ls_target_kind *kind, int64_t row) {
    return (struct ls_targets){
        .labels = targets->labels ? targets->labels + row * ls_target_width(kind) : NULL,
        .numbers = targets->numbers ? targets->numbers + row * ls_target_width(kind) : NULL,
        .weights = targets->weights ? targets->weights + row : NULL,
    };
}

void ls_targets_copy(const struct ls_target_kind *kind, const struct ls_targets *from, int64_t rows,
                     const struct ls_targets *to) {
    size_t count = (size_t)rows, width = (size_t)ls_target_width(kind);
    if (kind->numbers)
        memcpy(to->numbers, from->numbers, count * width * sizeof(float));
    else
        memcpy(to->labels, from->labels, count * width * sizeof(*to->labels));
    if (kind->weighted) memcpy(to->weights, from->weights, count * sizeof(*to->weights));
}

struct ls_targets ls_targets_place(const struct ls_targets *targets, bool become_labels) {
    if (!become_labels) return *targets;
    return (struct ls_targets){.numbers = (float *)(void *)targets->labels, .weights = targets->weights};
}

ls_status ls_targets_make_classes(const struct ls_target_kind *kind, const struct ls_targets *targets, int64_t rows,
                                  bool some_uncounted) {
    struct ls_whole_numbers whole = {0};
    int64_t width = ls_target_width(kind);
    for (int64_t i = 0; i < rows * width; i++) {
        float number;
        memcpy(&number, &targets->labels[i], sizeof(number));
        if (!ls_class_count_number(&whole, i / width, number, some_uncounted))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "row %lld has target %g, which is no class: classes are whole numbers from 0",
                           (long long)(i / width), (double)number);
        targets->labels[i] = (int32_t)number;
    }
    return LS_OK;
}

void ls_target_text(const struct ls_target_kind *kind, char *text, size_t size) {
    char shape[128];
    ls_shape_text(&kind->shape, shape, sizeof(shape));
    (void)snprintf(text, size, "%s%s", kind->numbers ? "numbers " : "classes", kind->numbers ? shape : "");
}
