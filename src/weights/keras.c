/* Keras' two ways to keep weights in HDF5. The older one (.h5, the files of keras.applications): a group a layer, whose
 * attribute weight_names lists paths below it. Keras 3's (.weights.h5, .keras): groups after the layers' classes, each
 * with arrays vars/0, vars/1, ... and the layer's name as an attribute. */
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "weights/hdf5.h"
#include "weights/hdf5_private.h"

#define MAX_DEPTH 16 /* of groups in groups */
#define NAME_SIZE 512

/* ---- names ---- */

static ls_status add_array(struct ls_weights *weights, char *name, const struct ls_hdf5_array *array) {
    struct ls_weight item = {.name = name, .shape = array->shape, .values = array->values};
    if (array->unread) (void)snprintf(item.unread, sizeof(item.unread), "%s", array->unread);
    return ls_weights_add(weights, &item);
}

/* The beginning of the part of a path that ends at a slash. */
static const char *part_before(const char *path, const char *slash) {
    while (slash > path && slash[-1] != '/') slash--;
    return slash;
}

static bool is_cell(const char *part) {
    return !strncmp(part, "lstm_cell", 9) || !strncmp(part, "gru_cell", 8);
}

/* Of "model/dense/kernel:0" the last two parts, without the number: "dense/kernel"; a lone "kernel" is the layer's. The
 * variables of a cell, "lstm/lstm_cell/kernel:0", are those of the layer around it. */
static ls_status add_by_path(struct ls_weights *weights, const char *layer, const char *path,
                             const struct ls_hdf5_array *array) {
    const char *end = strrchr(path, ':'), *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    const char *owner = slash ? part_before(path, slash) : layer;
    char name[NAME_SIZE];
    if (!end || end < last) end = path + strlen(path);
    if (slash && is_cell(owner) && owner > path) slash = owner - 1, owner = part_before(path, slash);
    int length = (int)(slash ? (size_t)(slash - owner) : strlen(layer));
    int written = snprintf(name, sizeof(name), "%.*s/%.*s", length, owner, (int)(end - last), last);
    if (written >= NAME_SIZE) return ls_fail(LS_UNIMPLEMENTED, "the name '%.80s...' is too long", path);
    return add_array(weights, name, array);
}

/* What Keras' layers call their variables, in the order in which they keep them, by their group and where that tells
 * more the number of them. A normalization of three, or of one that may be either, has names that are not known. */
static const struct {
    const char *group;
    size_t count; /* 0: any */
    const char *names[4];
} classes[] = {{"dense", 0, {"kernel", "bias"}},
               {"conv1d", 0, {"kernel", "bias"}},
               {"conv2d", 0, {"kernel", "bias"}},
               {"embedding", 1, {"embeddings"}},
               {"lstm", 0, {"kernel", "recurrent_kernel", "bias"}},
               {"gru", 0, {"kernel", "recurrent_kernel", "bias"}},
               {"depthwise_conv2d", 0, {"kernel", "bias"}},
               {"batch_normalization", 4, {"gamma", "beta", "moving_mean", "moving_variance"}},
               {"batch_normalization", 2, {"moving_mean", "moving_variance"}},
               {"layer_normalization", 2, {"gamma", "beta"}},
               {"rms_normalization", 1, {"scale"}}};

/* number where the name is not known. */
static const char *variable_name(const char *group, const char *number, size_t count) {
    size_t length = strlen(group), digits = strspn(group, "0123456789");
    if (number[0] < '0' || number[0] > '3' || number[1]) return number;
    while (length > digits && group[length - 1] >= '0' && group[length - 1] <= '9') length--;
    length = length < strlen(group) && length > 1 && group[length - 1] == '_' ? length - 1 : strlen(group);
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        const char *name = classes[i].names[number[0] - '0'];
        bool same = strlen(classes[i].group) == length && !strncmp(classes[i].group, group, length);
        if (same && name && (!classes[i].count || classes[i].count == count)) return name;
    }
    return number;
}

/* ---- the older way ---- */

/* An attribute, or where that was too large Keras' pieces of it: weight_names0, weight_names1, ... */
static ls_status read_names(struct ls_hdf5 *file, uint64_t object, const char *name, bool *present,
                            struct ls_hdf5_texts *texts) {
    char piece[32];
    ls_status status = ls_hdf5_values_attribute(file, object, name, present, texts);
    bool more = !*present;
    for (int i = 0; !status && more; i++) {
        (void)snprintf(piece, sizeof(piece), "%s%d", name, i);
        status = ls_hdf5_values_attribute(file, object, piece, &more, texts);
        *present |= more;
    }
    return status;
}

/* The array at a path of links below an object. */
static ls_status read_path(struct ls_hdf5 *file, uint64_t object, const char *path, struct ls_hdf5_array *array) {
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, "/");
        LS_CLEANUP(ls_hdf5_links_free) struct ls_hdf5_links links = {0};
        ls_status status = ls_hdf5_list(file, object, &links);
        if (status) return status;
        const struct ls_hdf5_link *link = ls_hdf5_link(&links, at, length);
        if (!link) return ls_fail(LS_DATA_LOSS, "'%s' has no array '%.200s', though it names one", file->path, path);
        object = link->object;
        at += length + (at[length] == '/');
    }
    ls_status status = ls_hdf5_values_read(file, object, array);
    if (status || array->present) return status;
    return ls_fail(LS_DATA_LOSS, "'%s': '%.200s' is no array", file->path, path);
}

static ls_status add_layer(struct ls_hdf5 *file, uint64_t object, const char *layer, struct ls_weights *weights) {
    LS_CLEANUP(ls_hdf5_values_free_texts) struct ls_hdf5_texts names = {0};
    struct ls_hdf5_array array = {0};
    bool present = false;
    ls_status status = read_names(file, object, "weight_names", &present, &names);
    for (size_t i = 0; !status && i < names.count; i++) {
        status = read_path(file, object, names.texts[i], &array);
        if (!status) status = add_by_path(weights, layer, names.texts[i], &array);
    }
    return status;
}

static ls_status add_layers(struct ls_hdf5 *file, uint64_t object, const struct ls_hdf5_texts *names,
                            struct ls_weights *weights) {
    LS_CLEANUP(ls_hdf5_links_free) struct ls_hdf5_links links = {0};
    ls_status status = ls_hdf5_list(file, object, &links);
    for (size_t i = 0; !status && i < names->count; i++) {
        const char *name = names->texts[i];
        const struct ls_hdf5_link *link = ls_hdf5_link(&links, name, strlen(name));
        if (!link) return ls_fail(LS_DATA_LOSS, "'%s' has no layer '%.200s', though it names one", file->path, name);
        status = add_layer(file, link->object, name, weights);
    }
    return status;
}

/* *present: the object has the attribute that tells the older way. */
static ls_status read_older(struct ls_hdf5 *file, uint64_t object, bool *present, struct ls_weights *weights) {
    LS_CLEANUP(ls_hdf5_values_free_texts) struct ls_hdf5_texts names = {0};
    ls_status status = read_names(file, object, "layer_names", present, &names);
    return status || !*present ? status : add_layers(file, object, &names, weights);
}

/* ---- Keras 3's way ---- */

static ls_status add_variable(struct ls_hdf5 *file, uint64_t object, const char *layer, const char *variable,
                              struct ls_weights *weights) {
    struct ls_hdf5_array array = {0};
    char name[NAME_SIZE];
    ls_status status = ls_hdf5_values_read(file, object, &array);
    if (status || !array.present) return status;
    if (snprintf(name, sizeof(name), "%s/%s", layer, variable) >= NAME_SIZE)
        return ls_fail(LS_UNIMPLEMENTED, "'%s': the name of layer '%.80s...' is too long", file->path, layer);
    return add_array(weights, name, &array);
}

/* A group of a file. named: the group vars that has the name of the layer around a cell; 0: no cell. */
struct group {
    uint64_t object, named;
    const char *name;
    int depth;
};

/* The variables of one layer: object is its group vars, group the one above. */
static ls_status add_variables(struct ls_hdf5 *file, uint64_t object, const struct group *group,
                               struct ls_weights *weights) {
    LS_CLEANUP(ls_hdf5_values_free_texts) struct ls_hdf5_texts layer = {0};
    LS_CLEANUP(ls_hdf5_links_free) struct ls_hdf5_links variables = {0};
    bool present = false;
    ls_status status = ls_hdf5_list(file, object, &variables);
    uint64_t named = group->named ? group->named : object;
    if (!status && variables.count) status = ls_hdf5_values_attribute(file, named, "name", &present, &layer);
    if (!status && variables.count && layer.count != 1)
        status = ls_fail(LS_INVALID_ARGUMENT,
                         "'%s' does not say which layer '%.80s' is: the Keras that wrote it kept no names; save it "
                         "again with a newer one, or as .h5",
                         file->path, group->name);
    for (size_t i = 0; !status && i < variables.count; i++)
        status = add_variable(file, variables.links[i].object, layer.texts[0],
                              variable_name(group->name, variables.links[i].name, variables.count), weights);
    return status;
}

static ls_status read_newer(struct ls_hdf5 *file, const struct group *group, struct ls_weights *weights);

/* A cell's variables are its layer's, which has the name. */
static ls_status read_below(struct ls_hdf5 *file, const struct group *group, const struct ls_hdf5_links *links,
                            const struct ls_hdf5_link *link, struct ls_weights *weights) {
    const struct ls_hdf5_link *vars = ls_hdf5_link(links, "vars", 4);
    bool cell = vars && !strcmp(link->name, "cell");
    const struct group below = {link->object, cell ? vars->object : 0, cell ? group->name : link->name,
                                group->depth - 1};
    return read_newer(file, &below, weights);
}

/* All layers in a group and in what it holds, but for the optimizer and the state of random numbers. */
static ls_status read_newer(struct ls_hdf5 *file, const struct group *group, struct ls_weights *weights) {
    LS_CLEANUP(ls_hdf5_links_free) struct ls_hdf5_links links = {0};
    if (!group->depth) return ls_fail(LS_DATA_LOSS, "'%s' is damaged: its groups lie too deep", file->path);
    ls_status status = ls_hdf5_list(file, group->object, &links);
    for (size_t i = 0; !status && i < links.count; i++) {
        const struct ls_hdf5_link *link = &links.links[i];
        if (!strcmp(link->name, "vars"))
            status = add_variables(file, link->object, group, weights);
        else if (strcmp(link->name, "optimizer") != 0 && strcmp(link->name, "seed_generator") != 0)
            status = read_below(file, group, &links, link, weights);
    }
    return status;
}

ls_status ls_weights_keras_from_hdf5(const char *path, struct ls_weights *weights) {
    struct ls_hdf5 file;
    LS_CLEANUP(ls_hdf5_links_free) struct ls_hdf5_links links = {0};
    bool older = false;
    ls_status status = ls_hdf5_open(path, weights->bytes, weights->size, &file);
    if (!status) status = read_older(&file, file.root, &older, weights);
    if (status || older) return status;
    status = ls_hdf5_list(&file, file.root, &links);
    if (status) return status;
    const struct ls_hdf5_link *whole = ls_hdf5_link(&links, "model_weights", 13); /* of a whole model */
    return whole ? read_older(&file, whole->object, &older, weights)
                 : read_newer(&file, &(struct group){file.root, 0, "", MAX_DEPTH}, weights);
}
