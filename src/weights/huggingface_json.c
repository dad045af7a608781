/* A field is judged by its row alone. */
#include "weights/huggingface_json.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"

enum { MOST = 1 << 20, SHOWN = 80 }; /* of an int; bytes of a value in messages */

static cJSON *parse_object(const char *path, const char *text, ls_status *status) {
    cJSON *object = cJSON_Parse(text);
    *status = cJSON_IsObject(object) ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "'%s' is no JSON object of fields", path);
    return object;
}

/* An object that is read. */
struct reading {
    const char *path, *outer; /* the name of the field that it is, with a dot; "": it is the whole */
    void *into;
};

static ls_status refuse(const struct reading *reading, const cJSON *item, const char *why) {
    char *value = cJSON_PrintUnformatted(item);
    ls_status status =
        ls_fail(LS_INVALID_ARGUMENT, "'%s': field '%s%.80s' is %.*s%s: %s", reading->path, reading->outer, item->string,
                SHOWN, value ? value : "", value && strlen(value) > SHOWN ? "..." : "", why);
    cJSON_free(value);
    return status;
}

static ls_status read_number(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    char *at = (char *)reading->into + field->offset;
    if (field->kind == LS_JSON_COUNT) {
        if (!(value >= 1 && value <= MOST) || value != (double)(int)value)
            return refuse(reading, item, "it must be a whole number from 1 to 1048576");
        memcpy(at, &(int){(int)value}, sizeof(int));
        return LS_OK;
    }
    bool fits = field->kind == LS_JSON_RATE ? value >= 0 && value < 1 : value > 0 && value <= 1e12;
    if (!fits)
        return refuse(reading, item,
                      field->kind == LS_JSON_RATE ? "it must be a number from 0 to below 1"
                                                  : "it must be a number above 0");
    memcpy(at, &(float){(float)value}, sizeof(float));
    return LS_OK;
}

static ls_status read_flag(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    if (!cJSON_IsBool(item)) return refuse(reading, item, "it must be true or false");
    memcpy((char *)reading->into + field->offset, &(bool){cJSON_IsTrue(item)}, sizeof(bool));
    return LS_OK;
}

static ls_status read_word(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    char why[256] = "it must be one of";
    for (const struct ls_json_word *row = field->words; row->word; row++) {
        size_t used = strlen(why);
        (void)ls_plain_text(why + used, sizeof(why) - used, "%s %s", row == field->words ? "" : ",", row->word);
        if (!cJSON_IsString(item) || strcmp(item->valuestring, row->word) != 0) continue;
        memcpy((char *)reading->into + field->offset, &row->value, sizeof(int));
        return LS_OK;
    }
    return refuse(reading, item, why);
}

static ls_status read_must(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    char *value = cJSON_PrintUnformatted(item), why[128];
    bool same = value && !strcmp(value, field->must);
    cJSON_free(value);
    (void)ls_plain_text(why, sizeof(why), "models are computed with %s alone", field->must);
    return same ? LS_OK : refuse(reading, item, why);
}

static ls_status read_fields(const struct reading *reading, const cJSON *object, const struct ls_json_field *fields);

static ls_status read_object(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    char outer[64];
    if (!cJSON_IsObject(item)) return refuse(reading, item, "it must be an object");
    (void)ls_plain_text(outer, sizeof(outer), "%s.", field->name);
    return read_fields(&(struct reading){reading->path, outer, reading->into}, item, field->fields);
}

static ls_status read_field(const struct reading *reading, const cJSON *item, const struct ls_json_field *field) {
    if (field->kind == LS_JSON_COUNT && cJSON_IsNull(item))
        memset((char *)reading->into + field->offset, 0, sizeof(int));
    if (field->kind == LS_JSON_IDLE || cJSON_IsNull(item)) return LS_OK;
    switch (field->kind) {
    case LS_JSON_FLAG:
        return read_flag(reading, item, field);
    case LS_JSON_WORD:
        return read_word(reading, item, field);
    case LS_JSON_MUST:
        return read_must(reading, item, field);
    case LS_JSON_FIELDS:
        return read_object(reading, item, field);
    default:
        return read_number(reading, item, field);
    }
}

/* null, false, and what is empty. */
static bool says_nothing(const cJSON *item) {
    return cJSON_IsNull(item) || cJSON_IsFalse(item) || (cJSON_IsString(item) && !*item->valuestring) ||
           ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

static ls_status read_item(const struct reading *reading, const cJSON *item, const struct ls_json_field *fields) {
    for (const struct ls_json_field *field = fields; field->name; field++)
        if (!strcmp(field->name, item->string)) return read_field(reading, item, field);
    if (says_nothing(item) || item->string[0] == '_') return LS_OK;
    return refuse(reading, item, "it is unknown here, and may change what the model computes; if not, take it out");
}

static ls_status read_fields(const struct reading *reading, const cJSON *object, const struct ls_json_field *fields) {
    for (const cJSON *item = object->child; item; item = item->next) {
        if (cJSON_GetObjectItemCaseSensitive(object, item->string) != item)
            return refuse(reading, item, "it is there twice");
        ls_status status = read_item(reading, item, fields);
        if (status) return status;
    }
    for (const struct ls_json_field *field = fields; field->name; field++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field->name);
        if (field->needed && (!item || cJSON_IsNull(item)))
            return ls_fail(LS_INVALID_ARGUMENT, "'%s': field '%s%s' is missing", reading->path, reading->outer,
                           field->name);
    }
    return LS_OK;
}

ls_status ls_huggingface_json_read(const char *path, const char *text, const struct ls_json_field *fields, void *into) {
    LS_PLAIN;
    ls_status status;
    cJSON *object = parse_object(path, text, &status);
    if (!status) status = read_fields(&(struct reading){path, "", into}, object, fields);
    cJSON_Delete(object);
    return status;
}

ls_status ls_huggingface_json_word(const char *path, const char *text, const char *name, char word[64]) {
    LS_PLAIN;
    ls_status status;
    cJSON *object = parse_object(path, text, &status);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    (void)ls_plain_text(word, 64, "%s", cJSON_IsString(item) ? item->valuestring : "");
    cJSON_Delete(object);
    return status;
}

/* ---- an index ---- */

static ls_status add_file(const char *path, const cJSON *item, struct ls_names *files, int64_t *capacity) {
    const char *name = item->valuestring;
    if (!cJSON_IsString(item) || !ls_files_has_ending(name, ".safetensors") || strchr(name, '/'))
        return refuse(&(struct reading){path, "weight_map.", NULL}, item,
                      "it must be a file ending in .safetensors, of this folder");
    if (ls_files_names_find(files, name) >= 0) return LS_OK;
    return ls_files_names_add(files, capacity, ls_strdup(name));
}

ls_status ls_huggingface_json_files(const char *path, const char *text, struct ls_names *files) {
    LS_PLAIN;
    ls_status status;
    int64_t capacity = 0;
    cJSON *object = parse_object(path, text, &status);
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(object, "weight_map");
    if (!status && (!cJSON_IsObject(map) || !map->child))
        status = ls_fail(LS_INVALID_ARGUMENT, "'%s' has no 'weight_map' of tensors and their files", path);
    for (const cJSON *item = status ? NULL : map->child; item && !status; item = item->next)
        status = add_file(path, item, files, &capacity);
    cJSON_Delete(object);
    return status;
}

int ls_huggingface_json_positions(const char *text) {
    LS_PLAIN;
    cJSON *object = cJSON_Parse(text);
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(object, "input");
    const cJSON *item = cJSON_GetArraySize(input) == 1 ? cJSON_GetArrayItem(input, 0) : NULL;
    int positions = cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= MOST ? item->valueint : 0;
    cJSON_Delete(object);
    return positions;
}
