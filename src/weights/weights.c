/* A file's kind, and the list of what it holds. */
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"
#include "data/files.h"
#include "data/zip.h"
#include "weights/arrays.h"

#define KERAS_MEMBER "model.weights.h5" /* of a .keras file */

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

/* A .keras file is an archive: its weights take the place of the whole. */
static ls_status open_keras(const char *path, struct ls_weights *weights) {
    uint8_t *member = NULL;
    size_t size = 0;
    ls_status status = ls_zip_read(&(struct ls_zip){path, weights->bytes, weights->size}, KERAS_MEMBER, &member, &size);
    if (status == LS_NOT_FOUND) return ls_weights_arrays_from_npz(path, weights);
    if (status) return status;
    ls_free(weights->bytes);
    weights->bytes = member;
    weights->size = size;
    return ls_weights_keras_from_hdf5(path, weights);
}

static ls_status parse(const char *path, struct ls_weights *weights) {
    const uint8_t *bytes = weights->bytes;
    if (weights->size >= 4 && !memcmp(bytes, "\x89HDF", 4)) return ls_weights_keras_from_hdf5(path, weights);
    if (weights->size >= 4 && !memcmp(bytes, "PK\x03\x04", 4)) return open_keras(path, weights);
    if (weights->size >= 9 && bytes[8] == '{') return ls_weights_arrays_from_safetensors(path, weights);
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' is no file of weights: .safetensors, .npz, .h5 and .keras are read",
                   path);
}

ls_status ls_weights_parse(const char *path, uint8_t *bytes, size_t size, struct ls_weights *weights) {
    struct ls_weights read = {.bytes = bytes, .size = size};
    ls_status status = parse(path, &read);
    if (!status) status = ls_weights_sort(path, &read);
    return LS_HAND_OVER(status, weights, read, ls_weights_free(&read));
}

ls_status ls_weights_read(const char *path, struct ls_weights *weights) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    ls_status status = ls_file_read(path, &bytes, &size);
    return status ? status : ls_weights_parse(path, bytes, size, weights);
}

ls_status ls_weights_read_about(const char *path, char **about) {
    bool header = false;
    ls_status status = ls_weights_arrays_about(path, &header, about);
    if (status || header) return status;
    LS_CLEANUP(ls_weights_free) struct ls_weights weights = {0};
    status = ls_weights_read(path, &weights);
    if (!status) *about = ls_steal(weights.about);
    return status;
}

void ls_weights_free(struct ls_weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        ls_free(weights->items[i].name);
        ls_free(weights->items[i].own);
    }
    ls_free(weights->items);
    ls_free(weights->about);
    ls_free(weights->bytes);
    *weights = (struct ls_weights){0};
}

const struct ls_weight *ls_weights_find(const struct ls_weights *weights, const char *name) {
    const struct ls_weight key = {.name = (char *)(uintptr_t)name};
    return weights->count ? bsearch(&key, weights->items, weights->count, sizeof(key), by_name) : NULL;
}
