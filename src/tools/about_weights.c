/* The reader of what src/train/about.c writes. */
#include <cjson/cJSON.h>
#include <lockstep/tools.h>
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "collective/broadcast.h"
#include "strategy/strategy.h"
#include "weights/weights.h"

enum { LONGEST = 1 << 24 }; /* bytes of the text */

/* NULL, and LS_OK, where nothing of that name and kind is there. */
static ls_status copy_text(const cJSON *object, const char *name, char **text) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item)) return LS_OK;
    *text = ls_strdup(item->valuestring);
    return *text ? LS_OK : ls_fail_memory(name, strlen(item->valuestring));
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
    cJSON *object = cJSON_Parse(about->text);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return ls_fail(LS_DATA_LOSS, "'%s' says of its model what is no JSON object", path);
    }
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(object, "outputs");
    about->outputs = cJSON_IsNumber(outputs) && outputs->valueint > 0 ? outputs->valueint : 0;
    read_input(object, &about->input);
    ls_status status = read_classes(object, about);
    if (!status) status = copy_text(object, "loss", &about->loss);
    if (!status) status = copy_text(object, "note", &about->note);
    cJSON_Delete(object);
    return status;
}

/* Of the chief to all: a file that cannot be read is the chief's error, later and with all that is to be said. */
static ls_status share_text(ls_strategy *strategy, const char *path, char **text) {
    struct ls_weights weights = {0};
    int64_t size = -1;
    bool chief = ls_is_chief(strategy);
    ls_status status = chief ? ls_weights_read(path, &weights) : LS_OK;
    if (chief && !status && weights.about) size = (int64_t)strlen(weights.about);
    struct ls_group *group = strategy->runtime->group;
    if (!status) status = ls_group_broadcast(group, "size of what weights say", 0, LS_INT64, &size, 1);
    if (!status && size > LONGEST)
        status = ls_fail(LS_DATA_LOSS, "'%s' says %lld bytes of its model", path, (long long)size);
    if (!status && size > 0) {
        *text = ls_alloc((size_t)size + 1);
        if (!*text) status = ls_fail_memory("what weights say", (size_t)size);
        if (!status && chief) memcpy(*text, weights.about, (size_t)size);
        if (!status) status = ls_group_broadcast(group, "what weights say", 0, LS_UINT8, *text, (size_t)size);
    }
    ls_weights_free(&weights);
    return status;
}

ls_status ls_tools_about_weights(ls_strategy *strategy, const char *path, ls_tools_about **about) {
    LS_NEED(strategy, path, about);
    ls_tools_about *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("what weights say", sizeof(*made));
    ls_status status = share_text(strategy, path, &made->text);
    if (!status && made->text) status = read_about(path, made);
    if (status)
        ls_tools_about_free(made);
    else
        *about = made;
    return status;
}

void ls_tools_about_free(ls_tools_about *about) {
    if (!about) return;
    for (int i = 0; i < about->class_count; i++) ls_free(about->classes[i]);
    ls_free(about->classes);
    ls_free(about->loss);
    ls_free(about->note);
    ls_free(about->text);
    ls_free(about);
}
