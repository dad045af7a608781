/* New memory for each doubling, so that what is behind the old elements is zero. */
#include "base/grow.h"

#include <string.h>

ls_status ls_grow(void *array, size_t *capacity, size_t needed, const struct ls_growth *growth) {
    size_t larger = *capacity ? *capacity : growth->first, bytes;
    if (needed <= *capacity) return LS_OK;
    while (larger < needed)
        if (__builtin_mul_overflow(larger, 2, &larger)) larger = SIZE_MAX;
    bool fits = !__builtin_mul_overflow(larger, growth->element, &bytes);
    void *old, *grown = fits && larger <= growth->most ? ls_alloc(bytes) : NULL;
    if (!grown) return ls_fail_memory(growth->what, fits ? bytes : SIZE_MAX);
    memcpy(&old, array, sizeof(old));
    if (*capacity) memcpy(grown, old, *capacity * growth->element);
    ls_free(old);
    memcpy(array, &grown, sizeof(grown));
    *capacity = larger;
    return LS_OK;
}
