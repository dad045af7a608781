/* The reader of what src/train/about.c writes. */
#include <cjson/cJSON.h>
#include <limits.h>
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "collective/collectives.h"
#include "data/files.h"
#include "data/sources.h"
#include "model/layer_json.h"
#include "strategy/strategy.h"
#include "weights/read.h"
#include "base/plain.h"

enum { LONGEST = 1 << 24 }; /* bytes of the text */

/* NULL, and LS_OK, where nothing of that name and kind is there. */
static ls_status copy_text(const cJSON *object, const char *name, char **text) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item)) return LS_OK;
    *text = ls_strdup(item->valuestring);
    return *text ? LS_OK : ls_fail_memory(name, strlen(item->valuestring));
}

static ls_status copy_object(const cJSON *object, const char *name, char **text) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsObject(item)) return LS_OK;
    char *printed = cJSON_PrintUnformatted(item);
    *text = printed ? ls_strdup(printed) : NULL;
    cJSON_free(printed);
    return *text ? LS_OK : ls_fail_memory(name, 1);
}

static void read_input(const cJSON *object, ls_shape *shape) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "input"), *item;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > LS_MAX_RANK) return;
    cJSON_ArrayForEach(item, list) {
        bool extent = cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble < 1e15;
        if (!extent) *shape = (ls_shape){0};
        if (!extent) return;
        shape->dims[shape->rank++] = (int64_t)item->valuedouble;
    }
}

static ls_status read_classes(const cJSON *object, ls_tools_about *about) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "classes"), *item;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (!count) return LS_OK;
    about->classes = ls_alloc_array((size_t)count, sizeof(*about->classes));
    if (!about->classes) return ls_fail_memory("names of classes", (size_t)count * sizeof(*about->classes));
    cJSON_ArrayForEach(item, list) {
        char *name = ls_strdup(cJSON_IsString(item) ? item->valuestring : "");
        if (!name) return ls_fail_memory("the name of a class", 1);
        about->classes[about->class_count++] = name;
    }
    return LS_OK;
}

static ls_status read_about(const char *path, ls_tools_about *about) {
    LS_PLAIN;
    cJSON *object = cJSON_Parse(about->text);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return ls_fail(LS_DATA_LOSS, "'%s' says of its model what is no JSON object", path);
    }
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(object, "outputs");
    if (cJSON_IsNumber(outputs) && outputs->valueint > 0) about->outputs = outputs->valueint;
    read_input(object, &about->input);
    about->integers = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "integers"));
    about->layered = cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(object, LS_LAYERS_MEMBER));
    ls_status status = read_classes(object, about);
    if (!status) status = copy_text(object, "loss", &about->loss);
    if (!status) status = copy_text(object, "note", &about->note);
    if (!status) status = copy_text(object, "tokenizer", &about->tokenizer);
    if (!status) status = copy_object(object, "transform", &about->transform);
    const cJSON *transform = cJSON_GetObjectItemCaseSensitive(object, "transform");
    if (!status) status = copy_text(cJSON_GetObjectItemCaseSensitive(transform, "target"), "name", &about->target);
    cJSON_Delete(object);
    return status;
}

/* The units of the last layer by Keras' names, "predictions" or the dense one of the highest number; 0 without one. */
static int64_t count_outputs(const struct ls_weights *weights) {
    int64_t outputs = 0;
    int highest = -1;
    const struct ls_weight *named = ls_weights_find(weights, "predictions/bias");
    if (named && named->shape.rank == 1) return named->shape.dims[0];
    for (size_t i = 0; i < weights->count; i++) {
        const char *name = weights->items[i].name;
        int number = 0, end = 0;
        bool first = !strcmp(name, "dense/bias");
        if (!first && (sscanf(name, "dense_%d/bias%n", &number, &end) != 1 || !end || name[end])) continue;
        if (number <= highest || weights->items[i].shape.rank != 1) continue;
        highest = number;
        outputs = weights->items[i].shape.dims[0];
    }
    return outputs;
}

/* Of the chief to all: the text, NULL where the file has none, and the outputs that the shapes tell. */
static ls_status share_text(ls_strategy *strategy, const char *path, ls_tools_about *about) {
    struct ls_weights weights = {0};
    int64_t facts[2] = {-1, 0};
    bool chief = ls_is_chief(strategy);
    ls_status status = chief ? ls_weights_read(path, &weights) : LS_OK;
    if (chief && !status && weights.about) facts[0] = (int64_t)strlen(weights.about);
    if (chief && !status) facts[1] = count_outputs(&weights);
    struct ls_group *group = strategy->runtime->group;
    if (!status) status = ls_group_broadcast(group, LS_BROADCAST("facts of weights", facts, 2, LS_INT64));
    if (!status && facts[0] > LONGEST)
        status = ls_fail(LS_DATA_LOSS, "'%s' says %lld bytes of its model", path, (long long)facts[0]);
    about->outputs = facts[1] > 0 && facts[1] <= INT_MAX ? (int)facts[1] : 0;
    if (!status && facts[0] > 0) {
        about->text = ls_alloc((size_t)facts[0] + 1);
        if (!about->text) status = ls_fail_memory("what weights say", (size_t)facts[0]);
        if (!status && chief) memcpy(about->text, weights.about, (size_t)facts[0]);
        if (!status)
            status =
                ls_group_broadcast(group, LS_BROADCAST("what weights say", about->text, (size_t)facts[0], LS_UINT8));
    }
    ls_weights_free(&weights);
    return status;
}

/* *about becomes what the text of made says; made is freed where there is an error. */
static ls_status hand_over(ls_status status, const char *path, ls_tools_about *made, ls_tools_about **about) {
    if (!status && made->text) status = read_about(path, made);
    return LS_HAND_OVER(status, about, made, ls_tools_about_free(made));
}

ls_status ls_tools_about_weights(ls_strategy *strategy, const char *path, ls_tools_about **about) {
    LS_NEED(strategy, path, about);
    LS_NEW(ls_tools_about, made, "what weights say");
    return hand_over(share_text(strategy, path, made), path, made, about);
}

static ls_status is_table(const char *dataset, bool *table) {
    bool folder = false;
    ls_status status = ls_table_meant(dataset, &(ls_dataset_options){0}, table);
    if (!status && !*table) status = ls_file_is(dataset, LS_NAMES_FOLDERS, &folder);
    return status || !folder ? status : ls_table_files_present(dataset, table);
}

ls_status ls_tools_about_table(const char *dataset, const char *path, ls_tools_about **about) {
    LS_NEED(dataset, path, about);
    LS_CLEANUP(ls_weights_free) struct ls_weights weights = {0};
    bool table = false;
    *about = NULL;
    ls_status status = is_table(dataset, &table);
    if (status || !table) return status;
    status = ls_weights_read(path, &weights);
    if (status || !weights.about) return status;
    LS_NEW(ls_tools_about, made, "what weights say");
    made->text = ls_strdup(weights.about);
    if (!made->text) status = ls_fail_memory("what weights say", strlen(weights.about));
    return hand_over(status, path, made, about);
}

ls_status ls_tools_about_file(const char *path, ls_tools_about **about) {
    LS_NEED(path, about);
    LS_NEW(ls_tools_about, made, "what a file says");
    return hand_over(ls_weights_read_about(path, &made->text), path, made, about);
}

ls_status ls_tools_about_layers(const ls_tools_about *about, const char *path, ls_layer **layers, size_t *count) {
    LS_NEED(about, path, layers, count);
    ls_status status = about->text ? ls_layer_json_read(about->text, layers, count)
                                   : ls_fail(LS_INVALID_ARGUMENT, "it does not say the layers of its model");
    return status ? ls_fail_context(status, "'%s'", path) : LS_OK;
}

void ls_tools_about_free(ls_tools_about *about) {
    if (!about) return;
    for (int i = 0; i < about->class_count; i++) ls_free(about->classes[i]);
    ls_free(about->classes);
    ls_free(about->loss);
    ls_free(about->note);
    ls_free(about->tokenizer);
    ls_free(about->transform);
    ls_free(about->target);
    ls_free(about->text);
    ls_free(about);
}
