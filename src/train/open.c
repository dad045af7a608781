/* A model as a file: its layers, what about.h says of it, and its weights (Keras' save and load_model). */
#include <cjson/cJSON.h>
#include <lockstep/saving.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/need.h"
#include "base/new.h"
#include "base/plain.h"
#include "base/text.h"
#include "data/dataset.h"
#include "model/layer_json.h"
#include "train/about.h"
#include "train/model.h"
#include "weights/read.h"

#define ENDING ".safetensors"

ls_status ls_model_save(const ls_model *model, const char *path) {
    LS_NEED(model, path);
    size_t length = strlen(path), ending = strlen(ENDING);
    if (length < ending || strcmp(path + length - ending, ENDING) != 0)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': a model is saved in a file whose name ends with " ENDING, path);
    return ls_model_save_weights(model, path);
}

/* ---- what the file says ---- */

static ls_status keep_text(const cJSON *object, const char *name, char **kept) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? ls_about_keep_text(item->valuestring, name, kept) : LS_OK;
}

static void put_names(const cJSON *list, FILE *out) {
    for (const cJSON *item = list->child; item; item = item->next)
        ls_json_print(out, "%-s%s", item == list->child ? "[" : ", ", item->valuestring);
    (void)fputc(']', out);
}

static ls_status keep_classes(const cJSON *object, char **kept) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "classes");
    if (!cJSON_IsArray(list) || !list->child) return LS_OK;
    for (const cJSON *item = list->child; item; item = item->next)
        if (!cJSON_IsString(item) && !cJSON_IsNull(item))
            return ls_fail(LS_INVALID_ARGUMENT, "field 'classes' has what is no name");
    return LS_TEXT(out, put_names(list, out), "names of classes", kept);
}

/* As it is written: the reader refuses what is none. */
static ls_status keep_transform(const cJSON *object, char **kept) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "transform");
    struct ls_transform transform = {0};
    if (!item) return LS_OK;
    char *text = cJSON_PrintUnformatted(item);
    ls_status status = text ? ls_transform_read(text, &transform) : ls_fail_memory("a transform", 1);
    if (!status) status = ls_transform_write(&transform, kept);
    ls_transform_free(&transform);
    cJSON_free(text);
    return status;
}

static double read_last(const cJSON *last, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(last, name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static void keep_last(const cJSON *object, ls_result *kept) {
    const cJSON *last = cJSON_GetObjectItemCaseSensitive(object, "last");
    double steps = read_last(last, "steps");
    if (!(steps >= 1 && steps < 1e15)) return;
    *kept = (ls_result){.steps = (int64_t)steps,
                        .loss = read_last(last, "loss"),
                        .accuracy = read_last(last, "accuracy"),
                        .val_loss = read_last(last, "val_loss"),
                        .val_accuracy = read_last(last, "val_accuracy")};
}

static ls_status keep_facts(const char *about, struct ls_model_spec *spec) {
    LS_PLAIN;
    cJSON *object = cJSON_Parse(about);
    ls_status status = object ? keep_classes(object, &spec->classes) : ls_fail_memory("facts of a model", 1);
    if (!status) status = keep_transform(object, &spec->transform);
    if (!status) status = keep_text(object, "note", &spec->note);
    if (!status) status = keep_text(object, "loss", &spec->loss);
    if (!status) keep_last(object, &spec->last);
    cJSON_Delete(object);
    return status;
}

/* ---- opening ---- */

static ls_status open_about(ls_strategy *strategy, const char *about, ls_model **model) {
    ls_layer *layers = NULL;
    size_t count = 0;
    if (!about) return ls_fail(LS_INVALID_ARGUMENT, "it holds weights, and does not say the layers of its model");
    ls_status status = ls_layer_json_read(about, &layers, &count);
    if (!status) status = ls_model_new(strategy, layers, count, model);
    if (!status) status = keep_facts(about, &(*model)->spec);
    ls_free(layers);
    return status;
}

ls_status ls_model_open(ls_strategy *strategy, const char *path, ls_model **model) {
    LS_NEED(strategy, path, model);
    LS_CLEANUP(ls_free_pointer) char *about = NULL;
    ls_model *made = NULL;
    ls_status status = ls_weights_read_about(path, &about);
    if (status) return status;
    status = open_about(strategy, about, &made);
    if (status) status = ls_fail_context(status, "'%s'", path);
    if (!status) status = ls_model_load_weights(made, path, NULL);
    return LS_HAND_OVER(status, model, made, ls_model_free(made));
}
