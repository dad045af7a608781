/* A model that begins with weights from a file, by Keras' names: the chief reads it, the others take the chief's. */
#include "train/fit.h"

#include "base/new.h"
#include "weights/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "base/log.h"
#include "base/need.h"
#include "base/options.h"
#include "train/about.h"
#include "train/model.h"
#include "train/model_state.h"
#include "train/sparse.h"
#include "weights/arrays.h"
#include "weights/huggingface.h"

#define WAY_OUT " (skip_mismatch, lockstep train --skip-mismatch: it keeps the value that it has)"

enum { MOST_TOLD = 8 };

struct ls_initial_weights {
    char *path;
    bool skip_mismatch, read;
    struct ls_weights weights; /* once they are read: by the chief, and by who becomes it */
};

void ls_initial_weights_free(struct ls_initial_weights *initial) {
    if (!initial) return;
    ls_weights_free(&initial->weights);
    ls_free(initial->path);
    ls_free(initial);
}

static ls_status read_once(struct ls_initial_weights *initial) {
    struct ls_weights read = {0};
    if (initial->read) return LS_OK;
    ls_status status = ls_weights_read(initial->path, &read);
    if (!status) status = ls_huggingface_read(initial->path, &read);
    initial->read = !status;
    return LS_HAND_OVER(status, &initial->weights, read, ls_weights_free(&read));
}

ls_status ls_model_load_weights(ls_model *model, const char *path, const ls_load_options *options) {
    LS_NEED(model);
    ls_load_options copy;
    ls_status status = ls_options_copy("ls_load_options", &copy, sizeof(copy), options);
    if (status) return status;
    if (!path || !*path) return ls_fail(LS_INVALID_ARGUMENT, "no file of weights is given");
    LS_NEW(struct ls_initial_weights, initial, "weights");
    *initial = (struct ls_initial_weights){.path = ls_strdup(path), .skip_mismatch = copy.skip_mismatch};
    if (!initial->path) status = ls_fail_memory("a path", strlen(path));
    if (!status && ls_is_chief(model->strategy)) status = read_once(initial);
    if (status) {
        ls_initial_weights_free(initial);
        return status;
    }
    ls_initial_weights_free(model->spec.initial);
    model->spec.initial = initial;
    model->spec.loaded = true;
    return LS_OK;
}

/* Its place among its layer's variables; a table is alone in its layer. */
static int index_in_layer(const struct ls_network *network, const struct ls_network_variable *variable) {
    size_t layer = strcspn(variable->name, "/") + 1;
    int index = 0;
    for (int i = 0; ls_network_variable(network, i) && ls_network_variable(network, i) != variable; i++)
        index += !strncmp(ls_network_variable(network, i)->name, variable->name, layer);
    return index;
}

/* By name; or as Keras 2 calls a depthwise kernel; or by number, where the file has no names of a layer's variables.
 * Keras 3 writes a layer's variables to .weights.h5 as "0", "1", ... in the order in which the layer made them;
 * index_in_layer is that number, since a network keeps the order within a layer. */
static const struct ls_weight *find_named(const struct ls_weights *weights, const struct ls_network *network,
                                          const struct ls_network_variable *variable, const char *name) {
    const struct ls_weight *found = ls_weights_find(weights, name);
    int layer = (int)strcspn(name, "/");
    char other[sizeof(variable->name) + 32];
    if (!found && !strcmp(name + layer, "/kernel")) {
        (void)snprintf(other, sizeof(other), "%.*s/depthwise_kernel", layer, name);
        found = ls_weights_find(weights, other);
    }
    if (found) return found;
    (void)snprintf(other, sizeof(other), "%.*s/%d", layer, name, index_in_layer(network, variable));
    return ls_weights_find(weights, other);
}

/* The number behind a layer's kind, as Keras makes names: 0 for "dense/...", 2 for "dense_2/..."; -1 for another kind.
 */
static int number_of(const char *name, const char *kind, size_t length) {
    char *end;
    if (strncmp(name, kind, length) != 0) return -1;
    if (name[length] == '/') return 0;
    long number = name[length] == '_' ? strtol(name + length + 1, &end, 10) : -1;
    return number > 0 && number < 1000000 && *end == '/' ? (int)number : -1;
}

/* The length of a layer's kind: of "dense" in "dense_2/kernel". */
static size_t kind_of(const char *name) {
    size_t layer = strcspn(name, "/"), length = layer;
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
    return length > 1 && length < layer && name[length - 1] == '_' ? length - 1 : layer;
}

/* The least and the greatest number of a kind's layers. */
struct numbers {
    int least, most; /* -1: there are none */
};

static void take_number(const char *name, const char *kind, size_t length, struct numbers *numbers) {
    int number = number_of(name, kind, length);
    if (number >= 0 && (numbers->least < 0 || number < numbers->least)) numbers->least = number;
    if (number > numbers->most) numbers->most = number;
}

/* Keras counts the layers of a process: those of its second model begin with "dense_2", say. So each kind is counted on
 * from the least number that the file has, if it ends as much later. Returns false if the model's names are the
 * file's. */
static bool count_on(const struct ls_weights *weights, const struct ls_network *network, const char *name, char *other,
                     size_t size) {
    size_t length = kind_of(name);
    struct numbers here = {-1, -1}, there = {-1, -1};
    for (size_t i = 0; i < weights->count; i++) take_number(weights->items[i].name, name, length, &there);
    for (int i = 0; ls_network_variable(network, i); i++)
        take_number(ls_network_variable(network, i)->name, name, length, &here);
    int on = there.least - here.least;
    if (here.least < 0 || on <= 0 || there.most - here.most != on) return false;
    (void)snprintf(other, size, "%.*s_%d%s", (int)length, name, number_of(name, name, length) + on,
                   name + strcspn(name, "/"));
    return true;
}

static const struct ls_weight *find_given(const struct ls_initial_weights *initial, const struct ls_network *network,
                                          const struct ls_network_variable *variable) {
    char other[sizeof(variable->name) + 32];
    const struct ls_weights *weights = &initial->weights;
    bool counted = !initial->skip_mismatch && count_on(weights, network, variable->name, other, sizeof(other));
    const struct ls_weight *found = counted ? find_named(weights, network, variable, other) : NULL;
    return found ? found : find_named(weights, network, variable, variable->name);
}

/* The first of that shape; NULL without one. */
static const struct ls_weight *find_shape(const struct ls_weights *weights, const ls_shape *shape) {
    for (size_t i = 0; i < weights->count; i++)
        if (!weights->items[i].unread[0] && ls_shape_equal(&weights->items[i].shape, shape)) return &weights->items[i];
    return NULL;
}

static ls_status compare_shapes(const struct ls_initial_weights *initial, const struct ls_network_variable *variable,
                                const struct ls_weight *weight) {
    char have[200], want[200];
    ls_shape_text(&variable->shape, want, sizeof(want));
    if (!weight) {
        const struct ls_weight *alike = find_shape(&initial->weights, &variable->shape);
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' has no variable '%s' %s; %s '%s'" WAY_OUT, initial->path,
                       variable->name, want, alike ? "of this shape is" : "its first one is",
                       (alike ? alike : initial->weights.items)->name);
    }
    if (weight->unread[0])
        return ls_fail(LS_UNIMPLEMENTED, "'%s': variable '%s' is %s: floats of at most %d axes are read" WAY_OUT,
                       initial->path, variable->name, weight->unread, LS_MAX_RANK);
    if (ls_shape_equal(&weight->shape, &variable->shape)) return LS_OK;
    ls_shape_text(&weight->shape, have, sizeof(have));
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': variable '%s' has shape %s, the model's has %s" WAY_OUT, initial->path,
                   variable->name, have, want);
}

/* INVALID_ARGUMENT naming a variable of the file that the model lacks. */
static ls_status check_surplus(const struct ls_initial_weights *initial, const bool *taken) {
    char shape[200];
    for (size_t i = 0; i < initial->weights.count; i++) {
        const struct ls_weight *weight = &initial->weights.items[i];
        if (taken[i]) continue;
        ls_shape_text(&weight->shape, shape, sizeof(shape));
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' has variable '%s' %s, the model has not", initial->path, weight->name,
                       shape);
    }
    return LS_OK;
}

/* With skip_mismatch: the variables of the file that the model did not take, a line each of the first few. */
static void tell_surplus(const ls_model *model, const struct ls_initial_weights *initial, const bool *taken) {
    char shape[200];
    int left = 0;
    for (size_t i = 0; i < initial->weights.count; i++) {
        const struct ls_weight *weight = &initial->weights.items[i];
        if (taken[i] || left++ >= MOST_TOLD) continue;
        ls_shape_text(&weight->shape, shape, sizeof(shape));
        ls_runtime_tell(model->strategy->runtime, "'%s': no variable of the model takes '%s' %s", initial->path,
                        weight->name, shape);
    }
    if (left > MOST_TOLD)
        ls_runtime_tell(model->strategy->runtime, "'%s': nor %d others", initial->path, left - MOST_TOLD);
}

static ls_status take_variable(const ls_model *model, const struct ls_network_variable *variable, float *to,
                               bool *taken, int *skipped) {
    const struct ls_initial_weights *initial = model->spec.initial;
    const struct ls_weight *weight = find_given(initial, model->built.network, variable);
    ls_status status = compare_shapes(initial, variable, weight);
    if (status && !initial->skip_mismatch) return status;
    if (!status) {
        memcpy(to, weight->values, variable->count * sizeof(float));
        taken[weight - initial->weights.items] = true;
    } else {
        ls_runtime_tell(model->strategy->runtime, "%s", ls_error());
        ++*skipped;
    }
    return LS_OK;
}

/* A table's are in a copy of its own. */
static float *values_of(const struct ls_model_state_place *place, float *blob) {
    return (place->part->copy ? place->part->copy : blob) + place->offset;
}

static ls_status take_variables(const ls_model *model, float *blob, bool *taken, int *skipped) {
    struct ls_model_state_place place = {0};
    ls_status status = LS_OK;
    while (!status && ls_model_state_next(model, LS_PARTS_ALL, &place))
        if (!place.part->blob) status = take_variable(model, place.variable, values_of(&place, blob), taken, skipped);
    return status;
}

ls_status ls_initial_weights_take(const ls_model *model, float *blob) {
    struct ls_initial_weights *initial = model->spec.initial;
    int skipped = 0;
    int all = ls_network_variable_count(model->built.network) + ls_network_table_count(model->built.network);
    ls_status status = initial ? read_once(initial) : LS_OK;
    if (!initial || status) return status;
    LS_CLEANUP(ls_free_pointer) bool *taken = ls_alloc_array(initial->weights.count, sizeof(*taken));
    if (!taken) return ls_fail_memory("a list of variables", initial->weights.count);
    status = take_variables(model, blob, taken, &skipped);
    if (!status && skipped == all)
        status = ls_fail(LS_INVALID_ARGUMENT, "'%s' has none of the model's %d variables", initial->path, all);
    if (!status && initial->skip_mismatch) tell_surplus(model, initial, taken);
    return status || initial->skip_mismatch ? status : check_surplus(initial, taken);
}

/* ---- saving ---- */

static int compare_names(const void *left, const void *right) {
    return strcmp(((const struct ls_weight *)left)->name, ((const struct ls_weight *)right)->name);
}

/* In the order of their names; weights owns the copy of the blob. */
static ls_status collect_variables(const ls_model *model, struct ls_weights *weights) {
    float *blob = NULL;
    ls_status status =
        ls_model_state_copy_out(model, model->built.replicas[0].parameters, 0, model->built.blob_count, &blob);
    weights->bytes = (uint8_t *)blob;
    struct ls_model_state_place place = {0};
    while (!status && ls_model_state_next(model, LS_PARTS_ALL, &place))
        if (!place.part->blob)
            status = ls_weights_add(weights, &(struct ls_weight){.name = (char *)(uintptr_t)place.variable->name,
                                                                 .shape = place.variable->shape,
                                                                 .values = (uint8_t *)values_of(&place, blob)});
    if (weights->count) qsort(weights->items, weights->count, sizeof(*weights->items), compare_names);
    return status;
}

ls_status ls_model_save_weights(const ls_model *model, const char *path) {
    LS_NEED(model);
    struct ls_weights weights = {0};
    if (!path || !*path) return ls_fail(LS_INVALID_ARGUMENT, "no file for the weights is given");
    if (!model->built.replicas)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "the model has no weights yet: it is built at its first fit or evaluate");
    ls_status status = ls_sparse_need(model, "ls_model_save_weights");
    if (!status) status = collect_variables(model, &weights);
    if (!status) status = ls_about_write(model, &weights.about);
    if (!status) status = ls_weights_arrays_write(path, &weights);
    ls_weights_free(&weights);
    return status;
}
