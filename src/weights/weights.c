/* The list of what a file holds. */
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"

ls_status ls_weights_add(struct ls_weights *weights, const struct ls_weight *weight) {
    struct ls_weight item = *weight;
    ls_status status = LS_GROW(weights->items, weights->capacity, weights->count + 1, 64, "a list of variables");
    item.name = status ? NULL : ls_strdup(weight->name);
    if (!status && !item.name) status = ls_fail_memory("a variable's name", strlen(weight->name));
    if (status)
        ls_free(item.own);
    else
        weights->items[weights->count++] = item;
    return status;
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const struct ls_weight *)left)->name, ((const struct ls_weight *)right)->name);
}

ls_status ls_weights_sort(const char *path, struct ls_weights *weights) {
    if (!weights->count) return ls_fail(LS_INVALID_ARGUMENT, "'%s' holds no variables", path);
    qsort(weights->items, weights->count, sizeof(*weights->items), by_name);
    for (size_t i = 1; i < weights->count; i++)
        if (!strcmp(weights->items[i - 1].name, weights->items[i].name))
            return ls_fail(LS_INVALID_ARGUMENT, "'%s' holds two variables of the name '%s'", path,
                           weights->items[i].name);
    return LS_OK;
}

void ls_weights_free(struct ls_weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        ls_free(weights->items[i].name);
        ls_free(weights->items[i].own);
    }
    for (size_t i = 0; i < weights->more_count; i++) ls_free(weights->more[i]);
    ls_free(weights->more);
    ls_free(weights->items);
    ls_free(weights->about);
    ls_free(weights->bytes);
    *weights = (struct ls_weights){0};
}

const struct ls_weight *ls_weights_find(const struct ls_weights *weights, const char *name) {
    const struct ls_weight key = {.name = (char *)(uintptr_t)name};
    return weights->count ? bsearch(&key, weights->items, weights->count, sizeof(key), by_name) : NULL;
}
