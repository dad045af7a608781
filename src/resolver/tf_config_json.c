/* The one place that knows cJSON: the tree behind struct ls_tf_config_json, and how a value is shown in a message. */
#include "resolver/tf_config_json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"

static const cJSON *node(const struct ls_tf_config_json *json) {
    return (const cJSON *)json;
}

static const struct ls_tf_config_json *view(const cJSON *item) {
    return (const struct ls_tf_config_json *)item;
}

struct ls_tf_config_json *ls_tf_config_json_parse(const char *text, size_t size) {
    LS_PLAIN;
    return (struct ls_tf_config_json *)cJSON_ParseWithLengthOpts(text, size, NULL, false);
}

void ls_tf_config_json_free(struct ls_tf_config_json *json) {
    cJSON_Delete((cJSON *)json);
}

enum ls_json_kind ls_tf_config_json_kind(const struct ls_tf_config_json *json) {
    if (cJSON_IsObject(node(json))) return LS_JSON_OBJECT;
    if (cJSON_IsArray(node(json))) return LS_JSON_ARRAY;
    if (cJSON_IsString(node(json))) return LS_JSON_STRING;
    if (cJSON_IsNumber(node(json))) return LS_JSON_NUMBER;
    return cJSON_IsBool(node(json)) ? LS_JSON_BOOL : LS_JSON_NULL;
}

const struct ls_tf_config_json *ls_tf_config_json_first(const struct ls_tf_config_json *json) {
    return json ? view(node(json)->child) : NULL;
}

const struct ls_tf_config_json *ls_tf_config_json_next(const struct ls_tf_config_json *json) {
    return view(node(json)->next);
}

const char *ls_tf_config_json_key(const struct ls_tf_config_json *json) {
    return node(json)->string ? node(json)->string : "";
}

const char *ls_tf_config_json_string(const struct ls_tf_config_json *json) {
    return cJSON_IsString(node(json)) ? node(json)->valuestring : "";
}

double ls_tf_config_json_number(const struct ls_tf_config_json *json) {
    return cJSON_IsNumber(node(json)) ? node(json)->valuedouble : (double)NAN;
}

struct ls_quoted ls_tf_config_json_quote_text(const char *text) {
    struct ls_quoted quoted = {"'"};
    size_t used = 1, room = sizeof(quoted.text) - sizeof("...'") - sizeof("\\x00");
    for (; *text && used <= room; text++) {
        bool plain = *text >= ' ' && *text <= '~';
        used += (size_t)snprintf(quoted.text + used, sizeof(quoted.text) - used, plain ? "%c" : "\\x%02x",
                                 (unsigned char)*text);
    }
    (void)snprintf(quoted.text + used, sizeof(quoted.text) - used, *text ? "...'" : "'");
    return quoted;
}

struct ls_quoted ls_tf_config_json_quote(const struct ls_tf_config_json *json) {
    struct ls_quoted quoted = {"null"};
    switch (ls_tf_config_json_kind(json)) {
    case LS_JSON_STRING:
        return ls_tf_config_json_quote_text(ls_tf_config_json_string(json));
    case LS_JSON_NUMBER:
        (void)ls_plain_text(quoted.text, sizeof(quoted.text), "%.15g", ls_tf_config_json_number(json));
        break;
    case LS_JSON_BOOL:
        (void)snprintf(quoted.text, sizeof(quoted.text), "%s", cJSON_IsTrue(node(json)) ? "true" : "false");
        break;
    case LS_JSON_ARRAY:
        (void)snprintf(quoted.text, sizeof(quoted.text), ls_tf_config_json_first(json) ? "a list" : "an empty list");
        break;
    case LS_JSON_OBJECT:
        (void)snprintf(quoted.text, sizeof(quoted.text),
                       ls_tf_config_json_first(json) ? "an object" : "an empty object");
        break;
    default:
        break;
    }
    return quoted;
}
