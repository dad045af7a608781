/* Shapes: products that do not overflow, and text. */
#include "base/shape.h"

#include <stdio.h>
#include <string.h>

int64_t ls_shape_count(const ls_shape *shape) {
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) return -1;
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0 || __builtin_mul_overflow(count, shape->dims[i], &count)) return -1;
    return count;
}

ls_shape ls_shape_of_rows(int64_t rows, const ls_shape *example) {
    ls_shape shape = {.rank = example->rank + 1, .dims = {rows}};
    memcpy(shape.dims + 1, example->dims, (size_t)example->rank * sizeof(example->dims[0]));
    return shape;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

void ls_shape_text(const ls_shape *shape, char *text, size_t size) {
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) {
        (void)snprintf(text, size, "of rank %d", shape->rank);
        return;
    }
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < shape->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)shape->dims[i]);
    if (used < size) (void)snprintf(text + used, size - used, ")");
}
